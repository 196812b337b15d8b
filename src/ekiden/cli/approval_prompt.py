"""Asks at the terminal whether a tool may run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isinf
from typing import Final, Literal, TypeAlias

from ekiden.cli.output import safe
from ekiden.cli.transcript import shorten
from ekiden.core.questions.inbox_item import NOBODY
from ekiden.core.roles import Approval, Approver, ConfirmationRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked; text of a model stands in `quoted` only.

    As text it is whole, with a mark before every line that is quoted.
    """

    heading: str = ""
    quoted: str = ""
    rules: str = ""
    """What the answers mean."""
    line: str
    """The end, behind which the answer is typed; short, so that it fits into a narrow window."""

    def __str__(self) -> str:
        if not self.heading:
            return self.line
        return f"{self.heading}\n{marked(self.quoted)}\n{self.rules}\n{self.line}"


Ask: TypeAlias = Callable[[Question], Awaitable[str | None]]
"""Shows a question and gives the line that was typed, or `None` when nobody will answer (end of
input). What was typed before the question is no answer. Cancelled when the time for an answer is
over; it must then leave the terminal as it was."""

ApproveWhere: TypeAlias = Literal["terminal", "inbox"]
"""Where a person is asked whether a tool may run."""

MARK: Final = "  | "
"""Stands before text of a model."""
BY: Final = "terminal"
_BY_OPTION: Final = "--allow"

_YES = frozenset({"y", "yes", "j", "ja", "是", "好", "はい"})
_NO = frozenset({"", "n", "no", "nein", "否", "不", "いいえ"})
_ALWAYS = frozenset({"a", "always"})
_EDIT = frozenset({"e", "edit"})
_AGAIN = Question(line="please answer y, n, a or e: ")
_INSTEAD = Question(line="arguments as JSON, or nothing to go back: ")
_NO_OBJECT = Question(line="that is no JSON object; please answer y, n, a or e: ")
_LONGEST_PROMPT = 20_000
_LONGEST_SCOPE = 200


class TerminalApprover:
    """An `Approver` that lets some tools run and asks a person about the others.

    `allow` has names of tools, or patterns such as ``*`` and ``github_*``, that run without asking.
    `ask` puts the question: `ask_on_terminal`, or a function of one's own, as chat has; with `None`
    there is nobody to ask, and every other tool is refused with the way out. Questions of tools
    that run at the same time are asked one after the other::

        RunConfig(approver=TerminalApprover(allow=["read_file"], ask=ask_on_terminal))
    """

    def __init__(self, *, allow: Iterable[str] = (), ask: Ask | None = None) -> None:
        self._allow = tuple(allow)
        self._ask = ask
        self._turn = asyncio.Lock()

    async def approve(self, request: ConfirmationRequest) -> Approval:
        """The person's answer, perhaps with other arguments; what is none is asked for again."""
        if self.allows(request.tool):
            return Approval(approved=True, by=_BY_OPTION)
        if self._ask is None:
            return Approval(
                approved=False,
                by=NOBODY,
                reason=f"nobody could be asked here; --allow {request.tool} lets it run",
            )
        async with self._turn:
            return await self._answer(self._ask, question(request))

    def allows(self, tool: str) -> bool:
        """Whether the tool runs without asking."""
        return is_allowed(tool, self._allow)

    async def _answer(self, ask: Ask, asked: Question) -> Approval:
        while True:
            line = await ask(asked)
            word = "" if line is None else line.strip().casefold()
            if word in _YES or word in _ALWAYS:
                return Approval(approved=True, by=BY, always=word in _ALWAYS)
            if line is None or word in _NO:
                return Approval(approved=False, by=BY, reason="the person said no")
            asked = _AGAIN
            if word in _EDIT:
                typed = (await ask(_INSTEAD) or "").strip()
                if typed and _is_object(typed):
                    return Approval(approved=True, by=BY, arguments=typed)
                asked = _NO_OBJECT if typed else _AGAIN


class InboxApprover:
    """An `Approver` that lets some tools run and leaves the others to the people at the inbox."""

    def __init__(self, *, allow: Iterable[str] = ()) -> None:
        self._allow = tuple(allow)

    async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
        """A yes to what is allowed."""
        if is_allowed(request.tool, self._allow):
            return Approval(approved=True, by=_BY_OPTION)
        return "inbox"


def is_allowed(tool: str, patterns: Iterable[str]) -> bool:
    """Whether the tool is one of those that run without asking."""
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


def question(request: ConfirmationRequest) -> Question:
    """What the person is asked.

    The tool and the agent are named by us, and the last lines are ours: text of the model is
    marked as such and cannot pass for either.
    """
    quoted = shorten(safe(request.prompt), _LONGEST_PROMPT)
    if request.scope:
        scope = shorten(" ".join(safe(request.scope).split()), _LONGEST_SCOPE)
        quoted = f"{quoted}\n(always: {scope})"
    limit = "" if isinf(request.timeout_s) else f" ({request.timeout_s:g} s)"
    return Question(
        heading=f"{safe(request.agent)} wants to run {safe(request.tool)}:",
        quoted=quoted,
        rules="always: in this session" + ("; no answer in time: no" if limit else ""),
        line=f"[y]es, [n]o, [a]lways, [e]dit{limit}: ",
    )


def _is_object(text: str) -> bool:
    """Whether somebody typed arguments; what fits the tool, the tool checks."""
    from ekiden.core.errors.inbox import InboxAnswerInvalid
    from ekiden.inbox.answers import json_object

    try:
        json_object(text)
    except InboxAnswerInvalid:
        return False
    return True


def marked(text: str) -> str:
    """`text` with the mark before each of its lines."""
    return "\n".join(f"{MARK}{line}" for line in text.split("\n"))


def approver(allow: Iterable[str] = (), *, where: ApproveWhere = "terminal") -> Approver:
    """For a command: asks if a person sits at both ends of the terminal, or in the inbox."""
    if where == "inbox":
        return InboxApprover(allow=allow)
    return TerminalApprover(allow=allow, ask=ask_on_terminal if is_attended() else None)


def is_yes(line: str | None) -> bool:
    """Whether the line that a person typed agrees."""
    return line is not None and line.strip().casefold() in _YES


def is_attended() -> bool:
    """Whether a person sits at both ends of the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask_on_terminal(asked: Question) -> str | None:
    """Ask on standard error, read standard input; what was typed before the question is dropped."""
    forget_typed_ahead()
    sys.stderr.write(str(asked))
    sys.stderr.flush()
    answered = False
    try:
        line = await _read_line()
        answered = line.endswith("\n")
    finally:
        if not answered:
            sys.stderr.write("\n")
            sys.stderr.flush()
    return line or None


async def _read_line() -> str:
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    descriptor = sys.stdin.fileno()
    try:
        loop.add_reader(descriptor, arrived.set)
    except NotImplementedError:  # the event loop of Windows
        return await asyncio.to_thread(sys.stdin.readline)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(descriptor)
    # A terminal gives whole lines, so this does not wait.
    return sys.stdin.readline()


def forget_typed_ahead() -> None:
    """Drop what was typed before a question: it is no answer."""
    try:
        import termios
    except ImportError:  # Windows
        return
    try:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except termios.error:  # not a terminal
        return
