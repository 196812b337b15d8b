"""Inbox items for people: lists, single items, changes, and questions that a session waits for."""

from __future__ import annotations

import asyncio
import difflib
import json
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from ekiden.cli.errors import UsageError
from ekiden.cli.output import Cell, Id, Table, clock_time, emit, note, print_pairs, say, span
from ekiden.cli.prompts import Question, ask_on_terminal, is_yes, marked
from ekiden.cli.transcript import shorten
from ekiden.core.documents import to_json
from ekiden.core.errors import StoreError
from ekiden.core.questions import InboxItem
from ekiden.core.values import PRIORITIES, dumps
from ekiden.inbox import run_due
from ekiden.inbox.answers import needs_words, same_arguments
from ekiden.inbox.inbox import BulkAnswer
from ekiden.storage.base import Store
from ekiden.tools.output import spelled_out

_LONGEST_SUBJECT = 80
_LONGEST_TEXT = 20_000
_NAMES = {number: name for name, number in PRIORITIES.items()}
_LONGEST = 120
_KEEP_TIME_S = 1.0


def item_table(items: Sequence[InboxItem], *, now_us: int) -> Table:
    """Items, one on each line, with deadlines if all of them are open."""
    headers = ("item", "age", "kind", "from", "role", "subject")
    if all(item.status == "open" for item in items):
        return (*headers, "deadline"), [(*_row(it, now_us), _deadline(it, now_us)) for it in items]
    return (*headers, "status"), [(*_row(item, now_us), _end(item)) for item in items]


def print_item(item: InboxItem, *, now_us: int) -> None:
    """Everything about one item."""
    print_pairs((name, text) for name, text in item_facts(item, now_us) if text)
    for heading, text in item_texts(item):
        if text:
            say(f"{heading}:")
            say(marked(quoted(text)))


def tell_bulk(bulk: BulkAnswer, *, as_json: bool) -> None:
    """Print the change of all identical items."""
    if as_json:
        emit(to_json(bulk))
        return
    others = f"; {bulk.closed} were closed meanwhile" if bulk.closed else ""
    say(f"answered {len(bulk.answered)} identical items{others}")


def quoted(text: str) -> str:
    """Text from an agent, with hidden characters spelled out, and cut."""
    return shorten(spelled_out(text), _LONGEST_TEXT)


def edit_question(item: InboxItem, arguments: str) -> Question:
    """Asks whether to run with the edited arguments."""
    return Question(
        heading=f"{item.tool or 'the tool'} would run with different arguments than "
        f"{spelled_out(item.from_agent)} requested:",
        quoted=quoted(difference(item.arguments or "", arguments)),
        rules="-: as requested, +: as you wrote it",
        line="run it with yours? [y]es, [n]o: ",
    )


def difference(before: str, after: str) -> str:
    """The difference of two JSON texts, line by line."""
    lines = list(difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=2))
    # The first two name files; what is changed has a sign, so only headings begin with @@.
    return "\n".join(line for line in lines[2:] if not line.startswith("@@"))


def _row(item: InboxItem, now_us: int) -> tuple[Cell, ...]:
    urgency = f" ({_NAMES[item.priority]})" if item.priority != PRIORITIES["normal"] else ""
    whose = item.role if item.assignee is None else f"{item.role}: {item.assignee}"
    return (
        Id(item.id),
        span((now_us - item.created_at_us) / 1e6),
        f"{item.kind}{urgency}",
        item.from_agent,
        whose,
        shorten(" ".join(item.subject.split()), _LONGEST_SUBJECT),
    )


def _deadline(item: InboxItem, now_us: int) -> str:
    if item.deadline_us is None:
        return ""
    return f"in {span((item.deadline_us - now_us) / 1e6)}"


def _end(item: InboxItem) -> str:
    choice = "" if item.answer is None else item.answer.choice or item.answer.text
    ending = " ".join(word for word in (item.status, _closed_by(item)) if word)
    if item.status == "expired" and choice:
        ending = "expired, by default"
    return shorten(f"{ending}: {choice}" if choice else ending, _LONGEST_SUBJECT)


def _closed_by(item: InboxItem) -> str:
    return f"by {item.closed_by}" if item.closed_by and item.status != "expired" else ""


def item_facts(item: InboxItem, now_us: int) -> list[tuple[str, str]]:
    """The facts of an item, by name; some are empty."""
    asked = f"{_time(item.created_at_us)} ({span((now_us - item.created_at_us) / 1e6)} ago)"
    return [
        ("item", item.id),
        ("status", _status(item)),
        ("kind", item.kind),
        ("from", spelled_out(item.from_agent)),
        ("role", item.role),
        ("assigned to", item.assignee or ""),
        ("priority", _NAMES[item.priority]),
        ("asked", asked),
        ("deadline", _deadline_fact(item)),
        ("hidden until", _time(item.snoozed_until_us)),
        ("escalates to", _chain(item)),
        ("session", item.session_id or ""),
        ("tool", spelled_out(item.tool or "")),
        ("answers", "\n".join(map(spelled_out, item.options)) or "in your own words"),
        ("reason", item.reason),
    ]


def item_texts(item: InboxItem) -> list[tuple[str, str]]:
    """The texts of agents and people in it, by heading, to be quoted; some are empty."""
    answer = item.answer
    return [
        ("subject", item.subject),
        ("question", item.body),
        ("arguments", "" if item.arguments is None else _pretty(item.arguments)),
        ("always at most", spelled_out(item.scope)),
        ("context", "" if item.context is None else _pretty(dumps(item.context))),
        ("answer", "" if answer is None else answer.text),
        (
            "with other arguments",
            "" if answer is None or answer.arguments is None else _pretty(answer.arguments),
        ),
    ]


def _status(item: InboxItem) -> str:
    if item.status == "open":
        return "open"
    answer = item.answer
    words = [
        item.status,
        _closed_by(item),
        f"at {_time(item.closed_at_us)}",
        f"from {answer.via}" if answer is not None and item.status == "answered" else "",
        f"→ {answer.choice}" if answer is not None and answer.choice else "",
        f"(always: {answer.scope})" if answer is not None and answer.always else "",
    ]
    return " ".join(word for word in words if word)


def _deadline_fact(item: InboxItem) -> str:
    if item.deadline_us is None:
        return ""
    then = "it expires" if item.default is None else f"the answer is {spelled_out(item.default)!r}"
    return f"{_time(item.deadline_us)}, then {then}"


def _chain(item: InboxItem) -> str:
    if not item.chain:
        return ""
    roles = " → ".join(step.role for step in item.chain)
    return f"{roles}, first at {_time(item.escalate_at_us)}"


def _time(at_us: int | None) -> str:
    return "" if at_us is None else clock_time(at_us / 1e6)


def _pretty(text: str) -> str:
    """JSON on several lines; invalid or ambiguous JSON unchanged."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
        return json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("the same key twice")
    return value


def _lines(text: str) -> list[str]:
    return _pretty(text).split("\n")


@asynccontextmanager
async def keeping_time(store: Store) -> AsyncIterator[None]:
    """While the body runs, inbox deadlines and escalations are handled."""

    async def keep() -> None:
        while True:
            with suppress(StoreError):
                await run_due(store, now_us=await store.now_us())
            await asyncio.sleep(_KEEP_TIME_S)

    task = asyncio.create_task(keep(), name="ekiden-inbox-time")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def change_line(at_us: int, details: Mapping[str, Any]) -> str:
    """A change of an item, for people."""
    change = str(details.get("change") or "posted")
    by = details.get("by")
    answer = details.get("choice") or details.get("text")
    until = details.get("snoozed_until_us") if change == "snoozed" else None
    words = (
        clock_time(at_us / 1e6),
        str(details.get("item") or "-"),
        "new" if change == "posted" else change,
        str(details.get("kind") or ""),
        f"{details.get('from')} → {details.get('role')}:",
        shorten(" ".join(str(details.get("subject") or "").split()), _LONGEST),
        f"→ {shorten(' '.join(str(answer).split()), _LONGEST)}" if answer else "",
        f"until {clock_time(until / 1e6)}" if isinstance(until, int) else "",
        f"to {details.get('assignee') or 'nobody'}" if change == "assigned" else "",
        f"by {by}" if isinstance(by, str) and by else "",
    )
    return "  ".join(word for word in words if word)


_MOST = 10
_LONGEST_QUESTION = 200


def question_record(item: InboxItem) -> dict[str, Any]:
    """A question for programs; `ekiden inbox show` shows the rest."""
    return {
        "id": item.id,
        "kind": item.kind,
        "from_agent": item.from_agent,
        "role": item.role,
        "subject": item.subject,
        "options": list(item.options),
        "deadline_us": item.deadline_us,
        "session_id": item.session_id,
    }


def tell_questions(questions: Sequence[InboxItem], store_words: Sequence[str] = ()) -> None:
    """Print on standard error the questions, and the commands that answer them.

    `store_words` name the store in these commands.
    """
    for item in questions[:_MOST]:
        note(question_line(item))
        note(f"  answer with: {answer_command(item, store_words)}")
    if len(questions) > _MOST:
        rest = shlex.join(["ekiden", "inbox", "list", *store_words])
        note(f"and {len(questions) - _MOST} more: {rest}")


def question_line(item: InboxItem, *, with_role: bool = True) -> str:
    """Who asks whom what; the subject may come from a model."""
    subject = shorten(" ".join(spelled_out(item.subject).split()), _LONGEST_QUESTION)
    asks = f" asks {item.role}" if with_role else ""
    return f"{spelled_out(item.from_agent)}{asks}: {subject}"


def answer_command(item: InboxItem, store_words: Sequence[str] = ()) -> str:
    """The command that answers in another terminal."""
    command = shlex.join(["ekiden", "inbox", "answer", item.id])
    more = f" {shlex.join(store_words)}" if store_words else ""
    return f"{command} {answer_words(item)}{more}"


def answer_words(item: InboxItem, *, in_chat: bool = False) -> str:
    """The words after the id: the choices, or a placeholder for text."""
    if not item.options:
        return "TEXT"
    choices = "|".join(shlex.quote(spelled_out(option)) for option in item.options)
    if item.kind != "handoff":
        return choices
    return f"{choices} TEXT" if in_chat else f"{choices} --text TEXT"


def chosen(item: InboxItem, word: str | None, text: str) -> tuple[str | None, str]:
    """The choice and the text of an answer, from the words that the person typed.

    A unique prefix of an option is enough. Without options the words are the answer's text.
    """
    if word is None:
        return None, text
    if not item.options:
        if text:
            raise UsageError("the item takes a text: give it once")
        return None, word
    typed = word.strip().casefold()
    exact = [option for option in item.options if option.casefold() == typed]
    begin = [option for option in item.options if typed and option.casefold().startswith(typed)]
    fitting = exact or begin
    choice = fitting[0] if len(fitting) == 1 else word
    if item.status == "open" and needs_words(item, choice) and not text.strip():
        raise UsageError("the conversation waits for a text: give it with --text")
    return choice, text


async def edit_is_meant(item: InboxItem, arguments: str | None, *, yes: bool) -> bool:
    """Show the difference of edited arguments, and ask whether the tool should run with them.

    `UsageError` without a terminal, or if the person declines; `InboxAnswerInvalid` if the
    arguments are not a JSON object.
    """
    if arguments is None or item.arguments is None or same_arguments(item, arguments):
        return False
    if yes:
        return True
    asked = edit_question(item, arguments)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "these arguments differ from those in the question; nothing was answered. "
            f"{asked.rules}\n{asked.quoted}\nAnswer with --yes to run the tool with yours."
        )
    if not is_yes(await ask_on_terminal(asked)):
        raise UsageError("nothing was answered: the item stays open")
    return True
