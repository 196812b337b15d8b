"""Checks of answers before they are stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ekiden.core.approvals import AlwaysScope, Limits, check_always, limits_for
from ekiden.core.checks.fields import check_fields
from ekiden.core.current_agent import acting_agent
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxForbidden
from ekiden.core.questions import ANSWER, NOBODY, InboxAnswer, InboxItem
from ekiden.core.text.wording import suggestion
from ekiden.inbox.items import InboxChange, check_name, closed, folded

_MAX_TEXT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a person, before it is checked."""

    choice: str | None = None
    text: str = ""
    arguments: str | None = None
    """Edited arguments of the tool, as JSON text."""
    always: bool = False
    scope: AlwaysScope = "call"
    limits: Limits | None = None
    confirm_edit: bool = False
    """Whether the person confirmed the edited arguments."""
    seen_version: int | None = None
    """The version of the item that the person saw."""
    by: str
    via: str

    def __post_init__(self) -> None:
        check_fields(self, "an answer")


def refuse_agents(what: str, *, owner: str | None = None) -> None:
    """Raise `InboxForbidden` if the code, tool or handler of an agent calls this function, unless
    this agent is `owner`."""
    agent = acting_agent()
    if agent is not None and agent != owner:
        raise InboxForbidden(
            f"the agent {agent!r:.80} tried to {what} an inbox item: only people may do that"
        )


def person(name: str) -> str:
    """Return the name of a person. Raises `InboxAnswerInvalid` for any other value."""
    try:
        who = check_name(name, what="the name in `by`, of the person who does this,")
    except UserError as exc:
        raise InboxAnswerInvalid(str(exc)) from exc
    if folded(who) == NOBODY:
        raise InboxAnswerInvalid(
            f"{who!r} is reserved for unanswered questions; give a person's name"
        )
    return who


def answered(item: InboxItem, reply: Reply, *, at_us: int) -> InboxChange:
    """Return the change that this reply makes to the item. Raises `InboxAnswerInvalid` for an
    invalid reply."""
    who = person(reply.by)
    if reply.seen_version is not None and reply.seen_version != item.version:
        raise InboxAnswerInvalid(
            f"inbox item {item.id} has changed since you read it (version "
            f"{reply.seen_version}, now {item.version}): read it again, then answer"
        )
    if reply.always and item.kind != "confirmation":
        raise InboxAnswerInvalid(
            f"inbox item {item.id} is not an approval of a tool: `always` does not apply"
        )
    _check_scope(item, reply)
    choice = _choice(item, reply.choice)
    text = _text(item, choice, reply.text)
    arguments = _arguments(item, reply)
    answer = InboxAnswer(
        choice=choice,
        by=who,
        at_us=at_us,
        via=reply.via,
        text=text,
        arguments=arguments,
        always=reply.always,
        scope=reply.scope,
        limits=reply.limits,
    )
    after = closed(item, status="answered", by=who, at_us=at_us, answer=answer)
    return InboxChange(
        name="answered",
        item=after,
        by=who,
        via=reply.via,
        at_us=at_us,
        edited=arguments is not None,
    )


def _check_scope(item: InboxItem, reply: Reply) -> None:
    """Raise `InboxAnswerInvalid` for limits that do not fit the call."""
    try:
        check_always(reply.always, reply.scope, reply.limits)
        if reply.limits is not None:
            limits_for(reply.arguments or item.arguments or "{}", reply.limits)
    except UserError as exc:
        raise InboxAnswerInvalid(str(exc)) from exc


def in_bulk(item: InboxItem, reply: Reply) -> Reply:
    """Return the reply for all identical items. Raises `InboxAnswerInvalid` if the reply has edited
    arguments."""
    if reply.arguments is not None and not same_arguments(item, reply.arguments):
        raise InboxAnswerInvalid(
            "edited arguments apply to one item only: answer the others with the arguments "
            "that they have, or one by one"
        )
    return replace(reply, arguments=None, seen_version=None)


def _choice(item: InboxItem, choice: str | None) -> str:
    if not item.options:
        if choice:
            raise InboxAnswerInvalid(
                f"inbox item {item.id} has no options: give the answer in `text`"
            )
        return ""
    listed = ", ".join(map(repr, item.options))
    if choice is None or not choice.strip():
        raise InboxAnswerInvalid(f"inbox item {item.id} needs a choice, one of {listed}")
    for option in item.options:
        if folded(option) == folded(choice):
            return option
    raise InboxAnswerInvalid(
        f"{choice[:80]!r} is not one of the options of inbox item {item.id}: {listed}"
        f"{suggestion(choice, item.options)}"
    )


def needs_words(item: InboxItem, choice: str | None) -> bool:
    """Whether an answer needs a text: the item has no options, or the choice is to write the
    answer."""
    if not item.options:
        return not item.notice
    return item.kind == "handoff" and choice == ANSWER


def _text(item: InboxItem, choice: str, text: str) -> str:
    if len(text) > _MAX_TEXT:
        raise InboxAnswerInvalid(
            f"an answer must have at most {_MAX_TEXT:,} characters, not {len(text):,}"
        )
    if needs_words(item, choice) and not text.strip():
        raise InboxAnswerInvalid(f"inbox item {item.id} needs an answer in `text`: `text` is empty")
    return text


def _arguments(item: InboxItem, reply: Reply) -> str | None:
    """The edited arguments, or `None` if they are those of the item."""
    if reply.arguments is None:
        return None
    if item.arguments is None:
        raise InboxAnswerInvalid(f"inbox item {item.id} has no arguments that could be edited")
    if same_arguments(item, reply.arguments):
        return None
    if not reply.confirm_edit:
        raise InboxAnswerInvalid(
            f"the arguments differ from those of inbox item {item.id}: compare them, and set "
            "`confirm_edit` to run the tool with yours"
        )
    return reply.arguments


def same_arguments(item: InboxItem, arguments: str) -> bool:
    """Whether the arguments are equal to those of the item. Raises `InboxAnswerInvalid` unless the
    arguments are a JSON object."""
    given = json_object(arguments)
    if arguments == item.arguments:
        return True
    try:
        asked = json_object(item.arguments or "")
    except InboxAnswerInvalid:
        return False  # The arguments of a model may be invalid JSON.
    return _exact(given) == _exact(asked)


def json_object(text: str) -> dict[str, Any]:
    """Parse the JSON object in the text. Raises `InboxAnswerInvalid` for any other text, and for an
    ambiguous object, such as one that has a key twice."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        _exact(value)
    except (ValueError, RecursionError) as exc:
        raise InboxAnswerInvalid(f"the arguments are not JSON: {exc!s:.200}") from exc
    if not isinstance(value, dict):
        raise InboxAnswerInvalid('the arguments must be a JSON object, such as {"amount": 5}')
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _exact(value: Any) -> str:
    """The value as canonical JSON text: ``1``, ``true`` and ``1.0`` differ."""
    return json.dumps(value, sort_keys=True, allow_nan=False)
