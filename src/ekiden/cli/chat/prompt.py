"""The prompt of a chat at a terminal: editing, keys, completion, history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.styles import Style

from ekiden.cli.chat.completion import Sources, candidates
from ekiden.cli.chat.keys import bindings
from ekiden.cli.chat.reader import StatusOf
from ekiden.cli.output import safe

if TYPE_CHECKING:
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse fg:ansibrightblack",
        "agent": "bold fg:ansigreen",
        "mark": "fg:ansibrightblack",
    }
)
SourcesOf: TypeAlias = Callable[[], Sources | None]
"""Gives what completion chooses from; `None` while that is not known yet."""

_RESERVED = 6
"""Lines kept free for the menu of completions."""


class ChatCompleter(Completer):
    """`candidates` as prompt-toolkit wants them; the store is asked while typing goes on."""

    def __init__(self, sources: SourcesOf) -> None:
        self._sources = sources

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Only the other one is used."""
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

    `input` and `output` are the process's own by default; tests give others. `stop_turn` is what
    Ctrl-C at a question does.
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
        """Show the prompt at once; the next `read` gives what is typed there.

        Between the two there is time to load what takes long. `abandon` takes the prompt back.
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
        """Wipe the prompt that `begin` showed, if nobody has read from it yet."""
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
        """Draw the prompt again: what it tells has changed."""
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
        """The prompt is wiped, and is there again afterwards with what was typed in it."""
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
        """Ctrl-C is a no, and stops the turn, too; keys of before the question are dropped."""
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
        from ekiden.cli.chat.choosing import choose

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
    """Ends a prompt that will be shown again."""

    def __init__(self, typed: Document) -> None:
        super().__init__()
        self.typed = typed
        self.is_gone = asyncio.Event()
        self.is_back = asyncio.Event()

    async def until_back(self) -> None:
        """Say that the prompt is off the screen, and wait until it may be there again."""
        self.is_gone.set()
        await self.is_back.wait()


def _forget_typed_ahead(keys: Input) -> None:
    """Drop what waits in the terminal, and what an earlier prompt has read too much."""
    while keys.read_keys():
        pass
    keys.flush_keys()
    clear_typeahead(keys)
