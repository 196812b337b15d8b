"""The prompt of a chat at a terminal: editing, keys, completion, history."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.styles import Style

from ekiden.cli.chat.catalogue import PickerList, Sources, candidates
from ekiden.cli.chat.reader import StatusOf
from ekiden.cli.output import safe
from ekiden.core.values import dumps, loads

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output


LEAVE_HINT = "Ctrl-C again leaves, or Ctrl-D"


def bindings(say_hint: Callable[[str], None]) -> KeyBindings:
    """Enter sends, Alt-Enter and Ctrl-J start a new line, Ctrl-C clears the line, then leaves."""
    keys = KeyBindings()
    leaving = False

    @Condition
    def is_choosing() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @Condition
    def is_searching() -> bool:
        return get_app().layout.is_searching

    @keys.add("enter", filter=~is_choosing & ~is_searching)
    def send(event: KeyPressEvent) -> None:
        nonlocal leaving
        leaving = False
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=is_choosing)
    def take_completion(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter")
    @keys.add("c-j", filter=~is_searching)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=~is_searching)
    def empty_or_leave(event: KeyPressEvent) -> None:
        nonlocal leaving
        buffer = event.current_buffer
        if buffer.text:
            leaving = False
            buffer.reset()
            say_hint("")
        elif leaving:
            event.app.exit(exception=EOFError)
        else:
            leaving = True
            say_hint(LEAVE_HINT)

    return keys


_HEIGHT = 12


async def choose(
    title: str,
    options: Sequence[str],
    *,
    start: int = 0,
    input: Input | None = None,
    output: Output | None = None,
) -> int | None:
    """The index of the chosen option; `None` after Esc, q or Ctrl-C. The list is wiped."""

    choice = PickerList(options, start=start, height=_HEIGHT)
    lines = Window(
        FormattedTextControl(lambda: _drawn(choice), show_cursor=False),
        height=Dimension(max=_HEIGHT),
        wrap_lines=False,
    )
    heading = Window(FormattedTextControl([("bold", safe(title))]), height=1)
    application: Application[int | None] = Application(
        layout=Layout(HSplit([heading, lines])),
        key_bindings=_bindings(choice),
        erase_when_done=True,
        input=input,
        output=output,
    )
    return await application.run_async(handle_sigint=False)


def _drawn(choice: PickerList) -> StyleAndTextTuples:
    drawn: StyleAndTextTuples = []
    for is_marked, text in choice.shown():
        line = " ".join(safe(text).split("\n"))
        drawn.append(("reverse", f"› {line}\n") if is_marked else ("", f"  {line}\n"))
    return drawn


def _bindings(choice: PickerList) -> KeyBindings:
    keys = KeyBindings()

    def moves(by: int, *names: str) -> None:
        for name in names:

            @keys.add(name)
            def move(event: KeyPressEvent) -> None:
                choice.move(by)

    moves(-1, "up", "k", "c-p")
    moves(1, "down", "j", "c-n")
    moves(-choice.page, "pageup")
    moves(choice.page, "pagedown")
    moves(-len(choice.options), "home")
    moves(len(choice.options), "end")

    @keys.add("enter")
    def take(event: KeyPressEvent) -> None:
        event.app.exit(result=choice.at)

    @keys.add("escape", eager=True)
    @keys.add("q")
    @keys.add("c-c")
    @keys.add("c-d")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    return keys


_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse fg:ansibrightblack",
        "agent": "bold fg:ansigreen",
        "mark": "fg:ansibrightblack",
    }
)
SourcesOf: TypeAlias = Callable[[], Sources | None]
"""Returns the choices for completion; `None` while they are unknown."""

_RESERVED = 6
"""Lines reserved for the completion menu."""


class ChatCompleter(Completer):
    """`candidates` for prompt-toolkit; the store is queried in the background."""

    def __init__(self, sources: SourcesOf) -> None:
        self._sources = sources

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Not used; prompt-toolkit calls the asynchronous method."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        sources = self._sources()
        if sources is None:
            return
        for each in await candidates(document.text_before_cursor, sources):
            yield Completion(each.text, start_position=-each.typed, display_meta=safe(each.about))


class TerminalReader:
    """`Reader` at a terminal.

    `input` and `output` are the process's own by default; tests pass others. Ctrl-C at a question
    calls `stop_turn`.
    """

    can_choose = True

    def __init__(
        self,
        status: StatusOf,
        sources: SourcesOf,
        *,
        history: History | None = None,
        stop_turn: Callable[[], None] = lambda: None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._status = status
        self._stop_turn = stop_turn
        self._streams: dict[str, Any] = {"input": input, "output": output}
        self._hint = ""
        self._begun: asyncio.Task[str | None] | None = None
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            multiline=True,
            prompt_continuation="… ",
            completer=ChatCompleter(sources),
            complete_while_typing=True,
            history=history,
            key_bindings=bindings(self._say_hint),
            style=_STYLE,
            enable_suspend=True,
            reserve_space_for_menu=_RESERVED,
            **self._streams,
        )

    async def begin(self) -> None:
        """Show the prompt at once; the next `read` returns what is typed there.

        Slow modules can load between the two. `abandon` removes the prompt.
        """
        shown = asyncio.Event()
        self._session.app.after_render += lambda _: shown.set()
        self._begun = asyncio.create_task(self._prompt())
        await asyncio.wait(
            {self._begun, waiting := asyncio.create_task(shown.wait())},
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()

    async def abandon(self) -> None:
        """Wipe the prompt that `begin` showed, if it was not read from yet."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        app = self._session.app
        if app.is_running:
            app.erase_when_done = True
            app.exit(exception=EOFError())
        await asyncio.wait({begun})
        app.erase_when_done = False

    def refresh(self) -> None:
        """Draw the prompt again after its status changed."""
        self._session.app.invalidate()

    async def read(self) -> str | None:
        """`None` after Ctrl-D, or Ctrl-C twice, at an empty prompt."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            return await begun
        return await self._prompt()

    async def _prompt(self) -> str | None:
        self._hint = ""
        typed = Document()
        while True:
            try:
                return await self._session.prompt_async(default=typed, handle_sigint=False)
            except _PutAside as aside:
                typed = aside.typed
                await aside.until_back()
                self._session.app.erase_when_done = False
            except (EOFError, KeyboardInterrupt):
                return None

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Wipes the prompt and restores it afterwards, with the typed text."""
        app = self._session.app
        if not app.is_running or app.future is None or app.future.done():
            yield
            return
        aside = _PutAside(self._session.default_buffer.document)
        app.erase_when_done = True
        app.exit(exception=aside)
        await aside.is_gone.wait()
        try:
            yield
        finally:
            aside.is_back.set()

    async def ask(self, question: str) -> str | None:
        """Ctrl-C declines and stops the turn; keys typed before the question are dropped."""
        asking: PromptSession[str] = PromptSession(**self._streams)
        _forget_typed_ahead(asking.app.input)
        try:
            return await asking.prompt_async(question, handle_sigint=False)
        except KeyboardInterrupt:
            self._stop_turn()
            return None
        except EOFError:
            return None

    async def choose(self, title: str, options: Sequence[str], *, start: int = 0) -> int | None:
        return await choose(title, options, start=start, **self._streams)

    def _message(self) -> StyleAndTextTuples:
        return [("class:agent", safe(self._status().agent)), ("class:mark", " › ")]

    def _toolbar(self) -> StyleAndTextTuples:
        status = self._status()
        parts = [status.session_id, self._hint or status.details or "/help"]
        return [("", " " + safe("  ·  ".join(part for part in parts if part)))]

    def _say_hint(self, text: str) -> None:
        self._hint = text


class _PutAside(Exception):
    """Ends a prompt that is shown again later, with the typed text."""

    def __init__(self, typed: Document) -> None:
        super().__init__()
        self.typed = typed
        self.is_gone = asyncio.Event()
        self.is_back = asyncio.Event()

    async def until_back(self) -> None:
        """Report that the prompt is off the screen, and wait until it may return."""
        self.is_gone.set()
        await self.is_back.wait()


def _forget_typed_ahead(keys: Input) -> None:
    """Drop pending terminal input, and input that an earlier prompt read too much."""
    while keys.read_keys():
        pass
    keys.flush_keys()
    clear_typeahead(keys)


FILE_NAME = "chat_history"
_LONGEST = 20_000
"""Longest entry in characters; longer ones are not stored."""
_MOST_BYTES = 50_000_000
_SECRET = re.compile(
    r"(?i)(?:api[_-]?key|passw(?:or)?d|secret|token|authorization)\w*[\"']?\s*[=:]\s*\S{6,}"
    r"|\bbearer\s+\S{12,}|\b(?:sk|pk|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{12,}"
)
"""Matches pasted secrets."""


class PrivateHistory(History):
    """A history in a file that only its owner may read, of at most `limit` entries.

    Entries that begin with a space, look like a secret or are very long are not stored. If the file
    cannot be read or written, only the history of earlier chats is lost.
    """

    def __init__(self, path: Path, *, limit: int = 1000) -> None:
        super().__init__()
        self._path = path
        self.limit = limit

    def keep(self, limit: int) -> None:
        """Keep this many entries from now on; with 0 none, not even those already read."""
        self.limit = limit
        if not limit:
            self._loaded_strings.clear()

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        entries = self._stored()
        if len(entries) > 2 * self.limit:
            self._shorten(entries[-self.limit :])
        return list(reversed(entries[-self.limit :])) if self.limit else []

    def append_string(self, string: str) -> None:
        """Remember for this chat, and for later ones if the text may be stored."""
        if is_memorable(string):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        if not self.limit:
            return
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._write(f"{dumps(string)}\n", os.O_APPEND)

    def _stored(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [entry for entry in map(_entry, lines) if entry is not None]

    def _shorten(self, entries: list[str]) -> None:
        """Replace the entries, atomically: a crash leaves the old or the new file."""
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            text = "".join(f"{dumps(entry)}\n" for entry in entries)
            self._write(text, os.O_TRUNC, fresh)
            fresh.replace(self._path)

    def _write(self, text: str, flags: int, path: Path | None = None) -> None:
        flags |= os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path or self._path, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)
            file.write(text.encode("utf-8", "backslashreplace"))


def is_memorable(text: str) -> bool:
    """Whether a text may be stored."""
    return not (text.startswith(" ") or len(text) > _LONGEST or _SECRET.search(text))


def _entry(line: str) -> str | None:
    try:
        entry = loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, str) else None
