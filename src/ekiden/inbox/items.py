"""Items before they are stored: what is missing is filled in, what makes no sense is refused."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from math import isfinite
from typing import get_args

from ekiden.core.errors import UserError
from ekiden.core.questions import DEFAULT_ROLE, InboxItem, InboxKind, option_texts
from ekiden.core.values import check_id, priority_number
from ekiden.inbox.life import escalation_start_us
from ekiden.inbox.settings import InboxSettings

MAX_NAME = 200
_MAX_SUBJECT = 2_000
_MAX_OPTIONS = 100
_MAX_OPTION = 500
_MAX_CHAIN = 50
_LONGEST_S = 1e9


def prepared(item: InboxItem, settings: InboxSettings, *, now_us: int) -> InboxItem:
    """A new item as it is stored; `UserError` for one that makes no sense.

    It gets its time, the role and the chain of the settings if it names none, and the time at which
    it goes along the chain. An item that is prepared stays as it is.
    """
    check_id(item.id, what="id of an inbox item")
    item = replace(item, options=option_texts(item.options))
    _check(item)
    if item.role == DEFAULT_ROLE:
        is_waited_for = not item.notice
        chain = item.chain or (settings.escalation if is_waited_for else ())
        item = replace(item, role=settings.role, chain=chain)
    for name in (item.role, *(step.role for step in item.chain)):
        check_name(name, what="a role's name")
    if item.assignee is not None:
        check_name(item.assignee, what="an assignee's name")
    default = None if item.default is None else canonical_default(item)
    item = replace(item, created_at_us=item.created_at_us or now_us, default=default)
    return replace(item, escalate_at_us=escalation_start_us(item))


def canonical_default(item: InboxItem) -> str:
    """The default in the spelling of the options."""
    default = item.default or ""
    if not item.options:
        return default
    for option in item.options:
        if folded(option) == folded(default):
            return option
    raise UserError(f"the default {default!r:.80} is not one of the options of the inbox item")


def check_name(name: str, *, what: str) -> str:
    """The name of a person or a role, in any script, without space around it; else `UserError`."""
    stripped = name.strip() if isinstance(name, str) else ""
    problem = None
    if not stripped:
        problem = "must not be empty"
    elif len(stripped) > MAX_NAME:
        problem = f"must not be longer than {MAX_NAME} characters"
    elif any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in stripped):
        problem = "must be one line of text, without control characters"
    if problem is not None:
        raise UserError(f"{what} {problem}")
    return stripped


def folded(text: str) -> str:
    """The part of a text that counts when it is typed again."""
    if text.isascii():
        return text.lower().strip()
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _check(item: InboxItem) -> None:
    kinds = get_args(InboxKind)
    if item.kind not in kinds:
        raise UserError(f"{item.kind!r:.40} is not a kind of inbox item: {', '.join(kinds)}")
    if item.status != "open":
        raise UserError(f"a new inbox item is open, not {item.status!r:.40}")
    priority_number(item.priority)
    if not item.subject.strip() or len(item.subject) > _MAX_SUBJECT:
        raise UserError(
            f"an inbox item has a subject of 1 to {_MAX_SUBJECT} characters, not "
            f"{len(item.subject)}; put longer text into its body"
        )
    if not item.from_agent:
        raise UserError("an inbox item says in `from_agent` who asks")
    _check_options(item)
    _check_times(item)


def _check_options(item: InboxItem) -> None:
    if len(item.options) > _MAX_OPTIONS:
        raise UserError(f"an inbox item has at most {_MAX_OPTIONS} options, not more")
    seen: dict[str, str] = {}
    for option in item.options:
        key = folded(option)
        if not key or len(option) > _MAX_OPTION:
            raise UserError(f"an option has 1 to {_MAX_OPTION} characters, not {len(option)}")
        if key in seen:
            raise UserError(f"the options {seen[key]!r:.80} and {option!r:.80} look the same")
        seen[key] = option


def _check_times(item: InboxItem) -> None:
    times = (item.created_at_us, item.deadline_us, item.escalate_at_us, item.snoozed_until_us)
    if any(each is not None and not 0 <= each < 10**17 for each in times):
        raise UserError("the times of an inbox item are microseconds since 1970")
    if len(item.chain) > _MAX_CHAIN:
        raise UserError(f"an escalation chain has at most {_MAX_CHAIN} steps")
    for step in item.chain:
        if not (isfinite(step.after_s) and 0 < step.after_s <= _LONGEST_S):
            raise UserError(f"a step of an escalation comes after some seconds, not {step.after_s}")
