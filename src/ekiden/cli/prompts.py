"""Questions at the terminal: approval of tools, deletions, and trust in a folder's files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ekiden.cli.errors import NotConfirmed
from ekiden.cli.output import safe
from ekiden.cli.transcript import shorten
from ekiden.core.approvals import AlwaysScope
from ekiden.core.current_agent import acting_agent
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import FolderNotTrusted
from ekiden.core.questions import NOBODY
from ekiden.core.roles import Approval, Approver, ConfirmationRequest

if TYPE_CHECKING:
    from ekiden.project.risks import Risk
    from ekiden.project.settings import LoadedSettings
    from ekiden.project.trust import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person. Text from a model appears only in `quoted`.

    As text: the whole question, with a mark before every quoted line.
    """

    heading: str = ""
    quoted: str = ""
    rules: str = ""
    """Explains the possible answers."""
    line: str
    """The last line, where the answer is typed; short enough for a narrow window."""

    def __str__(self) -> str:
        if not self.heading:
            return self.line
        return f"{self.heading}\n{marked(self.quoted)}\n{self.rules}\n{self.line}"


Ask: TypeAlias = Callable[[Question], Awaitable[str | None]]
"""Shows a question and returns the typed line, or `None` at the end of input. Input typed before
the question is ignored. Cancelled when the answer times out; it must then restore the terminal."""

ApproveWhere: TypeAlias = Literal["terminal", "inbox"]
"""Where a person is asked for approval of a tool call."""

MARK: Final = "  | "
"""Marks text from a model."""
BY: Final = "terminal"
_BY_OPTION: Final = "--allow"

_YES = frozenset({"y", "yes", "j", "ja", "是", "好", "はい"})
_NO = frozenset({"", "n", "no", "nein", "否", "不", "いいえ"})
_ALWAYS = frozenset({"a", "always"})
_SESSION = frozenset({"s", "session"})
_EDIT = frozenset({"e", "edit"})
_AGAIN = Question(line="please answer y, n, a or e: ")
_INSTEAD = Question(line="arguments as JSON, or nothing to go back: ")
_NO_OBJECT = Question(line="that is not a JSON object; please answer y, n, a or e: ")
_LONGEST_PROMPT = 20_000
_LONGEST_SCOPE = 200


class TerminalApprover:
    """An `Approver` that lets some tools run and asks a person about the others.

    `allow` holds tool names, or patterns such as ``*`` and ``github_*``; these run without asking.
    `ask` puts the question: `ask_on_terminal`, or your own function, as chat does. With `None`
    every other tool is refused, and the reason names the options that help. Questions of
    concurrent tools are asked one after the other::

        RunConfig(approver=TerminalApprover(allow=["read_file"], ask=ask_on_terminal))
    """

    def __init__(self, *, allow: Iterable[str] = (), ask: Ask | None = None) -> None:
        self._allow = tuple(allow)
        self._ask = ask
        self._turn = asyncio.Lock()

    async def approve(self, request: ConfirmationRequest) -> Approval:
        """The person's answer, with edited arguments if they gave some. An unclear answer is asked
        for again."""
        if self.allows(request.tool):
            return Approval(approved=True, by=_BY_OPTION)
        if self._ask is None:
            return Approval(
                approved=False,
                by=NOBODY,
                reason=(
                    f"approval is not possible here; --allow {request.tool} lets it run, and "
                    "`ekiden run --approve inbox` asks in the inbox"
                ),
            )
        async with self._turn:
            return await self._answer(self._ask, request)

    def allows(self, tool: str) -> bool:
        """Whether the tool runs without asking."""
        return is_allowed(tool, self._allow)

    async def _answer(self, ask: Ask, request: ConfirmationRequest) -> Approval:
        asked = question(request)
        while True:
            line = await ask(asked)
            word = "" if line is None else line.strip().casefold()
            if word in _YES:
                return Approval(approved=True, by=BY)
            if word in _ALWAYS:
                scope: AlwaysScope = "limits" if request.scope else "call"
                return Approval(approved=True, by=BY, always=True, scope=scope)
            if word in _SESSION and not request.scope:
                return Approval(approved=True, by=BY, always=True, scope="session")
            if line is None or word in _NO:
                return Approval(approved=False, by=BY, reason="the person declined")
            asked = _AGAIN
            if word in _EDIT:
                typed = (await ask(_INSTEAD) or "").strip()
                if typed and _is_object(typed):
                    return Approval(approved=True, by=BY, arguments=typed)
                asked = _NO_OBJECT if typed else _AGAIN


class InboxApprover:
    """An `Approver` that lets some tools run and sends the others to the inbox."""

    def __init__(self, *, allow: Iterable[str] = ()) -> None:
        self._allow = tuple(allow)

    async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
        """Approve allowed tools; leave the others to the inbox."""
        if is_allowed(request.tool, self._allow):
            return Approval(approved=True, by=_BY_OPTION)
        return "inbox"


def is_allowed(tool: str, patterns: Iterable[str]) -> bool:
    """Whether the tool may run without asking."""
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


def question(request: ConfirmationRequest) -> Question:
    """The question that the person sees.

    Tool and agent are named by Ekiden, and the last lines are Ekiden's own. Text from the model is
    marked, so it cannot imitate either.
    """
    quoted = shorten(safe(request.prompt), _LONGEST_PROMPT)
    if request.scope:
        scope = shorten(" ".join(safe(request.scope).split()), _LONGEST_SCOPE)
        quoted = f"{quoted}\n(always: {scope})"
    limit = "" if isinf(request.timeout_s) else f" ({request.timeout_s:g} s)"
    rules = "always: in this session"
    if not request.scope:
        rules = "always: equal calls, in this session; session: all calls of the tool"
    session = "" if request.scope else ", [s]ession"
    return Question(
        heading=f"{safe(request.agent)} wants to run {safe(request.tool)}:",
        quoted=quoted,
        rules=rules + ("; no answer in time: no" if limit else ""),
        line=f"[y]es, [n]o, [a]lways{session}, [e]dit{limit}: ",
    )


def _is_object(text: str) -> bool:
    """Whether the line is a JSON object; the tool validates its content."""
    from ekiden.core.errors.messages import InboxAnswerInvalid
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
    """The approver of a command: the terminal if it is interactive, or the inbox."""
    if where == "inbox":
        return InboxApprover(allow=allow)
    return TerminalApprover(allow=allow, ask=ask_on_terminal if is_attended() else None)


def is_yes(line: str | None) -> bool:
    """Whether the typed line means yes."""
    return line is not None and line.strip().casefold() in _YES


def is_attended() -> bool:
    """Whether input and output are both a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask_on_terminal(asked: Question) -> str | None:
    """Ask on standard error and read from standard input; input typed earlier is dropped."""
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
    """Drop input that was typed before the question."""
    try:
        import termios
    except ImportError:  # Windows
        return
    try:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except termios.error:  # not a terminal
        return


def confirm(what: str, *, yes: bool) -> None:
    """Ask whether to do `what`, such as ``delete ses_1``; `NotConfirmed` without approval."""
    if yes:
        return
    if not is_attended():
        raise NotConfirmed(
            f"this would {what} permanently; nothing was changed: give --yes to skip the "
            "question, or run the command on a terminal"
        )
    if not is_yes(ask_line(f"{what[0].upper()}{what[1:]}, for good? [y]es, [n]o: ")):
        raise NotConfirmed("nothing was changed")


def ask_line(prompt: str) -> str | None:
    """The line that the person at the terminal types; `None` at the end of the input."""
    forget_typed_ahead()
    sys.stderr.write(safe(prompt))
    sys.stderr.flush()
    with _interruptible():
        line = sys.stdin.readline()
    if not line.endswith("\n"):
        sys.stderr.write("\n")
    return line.strip() if line else None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the wait for a line; a running event loop would handle it only afterwards."""
    try:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


QUESTION: Final = "Trust this folder? [y]es, [n]o: "
_VARIABLE: Final = "EKIDEN_TRUST"
_ENVIRONMENT_YES: Final = frozenset({"1", "true", "yes", "on"})
_SHOWN: Final = 200


class NotTrustedYet(FolderNotTrusted):
    """The refusal of a folder that a person may still trust."""

    def __init__(self, workspace: Workspace) -> None:
        way_out = (
            "if you trust these files, run `ekiden trust` in this folder, or give --trust to trust "
            "them for one command"
        )
        if (agent := acting_agent()) is not None:
            way_out = f"the agent {agent!r:.80} cannot trust a folder: only people can"
        from ekiden.agents.definition import printable

        folder = printable(str(workspace.root))
        super().__init__(folder, listed(workspace.lines()), way_out=way_out)
        self.workspace = workspace


def check_trust(found: Workspace, *, trust: bool = False, asks: bool = True) -> bool:
    """Raise unless the folder is trusted; the person at the terminal is asked once per content.

    Returns whether the person was asked: the files may have changed meanwhile.

    With `trust`, or EKIDEN_TRUST, there is no question and nothing is stored; a command that an
    agent runs cannot trust anything. `FolderNotTrusted` if the person declines, and without a
    terminal.
    """
    if found.is_trusted:
        return False
    is_person = acting_agent() is None
    if is_person and (trust or os.environ.get(_VARIABLE, "").strip().lower() in _ENVIRONMENT_YES):
        return False
    if not (asks and is_person and is_attended()):
        raise NotTrustedYet(found)
    if not is_yes(ask_line(f"{introduction(found)}\n{QUESTION}")):
        raise NotTrustedYet(found)
    found.trust()
    return True


def introduction(found: Workspace) -> str:
    """The text before the question."""
    from ekiden.agents.definition import printable

    return "\n".join(
        [
            f"Do you trust {printable(str(found.root))}? Its files do the following:",
            *(f"  {line}" for line in listed(found.lines())),
        ]
    )


def listed(risks: Sequence[Risk]) -> list[str]:
    """The lines as text."""
    lines = [str(risk) for risk in risks[:_SHOWN]]
    if len(risks) > _SHOWN:
        lines.append(f"… and {len(risks) - _SHOWN:,} more: `ekiden trust --show --json` has all")
    return lines


def check_addresses(loaded: LoadedSettings, root: Path, *names: str) -> None:
    """`FolderNotTrusted` if the project's settings `names` have an address, and the folder is not
    trusted.

    For commands that load no project, before they connect to an address in these settings.
    """
    from ekiden.project.trust import inspect_workspace

    used = [
        name
        for name in names
        if loaded.origin(name).kind == "project" and "://" in str(loaded.value(name))
    ]
    if used:
        check_some(inspect_workspace(root, loaded), *used)


def check_some(found: Workspace, *keys: str, trust: bool = False) -> None:
    """As `check_trust`, for a command that uses only these settings and their children."""
    if any(each.key.startswith(keys) for each in found.risks):
        check_trust(found, trust=trust)
