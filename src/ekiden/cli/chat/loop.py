"""The chat loop: read input, act, repeat."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ekiden.cli.chat.commands.table import run_command
from ekiden.cli.chat.conversation import Chat
from ekiden.cli.chat.typed.reader import TypedCommand, TypedMessage, read_input
from ekiden.cli.errors import BadInput
from ekiden.cli.exits import Exit, exit_for_error
from ekiden.core.errors import EkidenError

if TYPE_CHECKING:
    from ekiden.project.routing import AddressedMessage


class ChatLoop:
    """Reads inputs until there are no more, and handles each before reading the next."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._exit: int = Exit.OK
        self._to: str | None = None
        """The recipient of the next message without a name: the agent that was last named alone."""
        self._is_stuck = False
        """Whether resuming the suspended turn failed; reset by the next input."""

    async def run(self) -> int:
        """Chat until the end; returns 0, or the exit code of the last input that failed."""
        chat = self._chat
        await chat.look()
        while not chat.is_over:
            try:
                text = await self._read()
            except BadInput as exc:
                self._failed(exc)
                continue
            if text is None:
                break
            self._is_stuck = False
            await self._take(self._do(text))
        return self._exit

    async def _read(self) -> str | None:
        """The next input; a suspended turn resumes as soon as its wait is over."""
        chat = self._chat
        while chat.is_waiting and not self._is_stuck and await chat.can_go_on():
            await self._go_on()
        if not chat.is_waiting or self._is_stuck:
            return await chat.reader.read()
        reading = asyncio.create_task(chat.reader.read())
        try:
            while chat.is_waiting and not self._is_stuck and not reading.done():
                if await self._until_it_moves(reading):
                    async with chat.reader.aside():
                        await self._go_on()
            return await reading
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _until_it_moves(self, reading: asyncio.Task[str | None]) -> bool:
        """Wait for an answer or an input; returns whether the answer came."""
        from ekiden.runtime.loop.answer_wait import until_ready

        chat = self._chat
        # What is said meanwhile would stand in the middle of the prompt.
        waiting = until_ready(chat.store, chat.session.session_id, on_outage=lambda exc: None)
        moving = asyncio.create_task(waiting)
        await asyncio.wait({moving, reading}, return_when=asyncio.FIRST_COMPLETED)
        is_moved = moving.done()
        moving.cancel()
        await asyncio.gather(moving, return_exceptions=True)
        return is_moved

    async def _go_on(self) -> None:
        """Resume the suspended turn; if that fails, leave it until the next input."""
        if self._exit == Exit.WAITING:
            self._exit = Exit.OK
        await self._take(self._taken_up())
        self._is_stuck = await self._chat.can_go_on()

    async def _taken_up(self) -> int:
        """The rest of the turn, or how another process ended it."""
        chat = self._chat
        seen = 0 if chat.row is None else chat.row.seq
        await chat.look()
        if chat.row is None:
            chat.screen.note("this session was deleted")
        elif not chat.is_waiting:
            chat.screen.note("another process continued this session:")
            for event in await chat.session.events(after=seen):
                chat.screen.show(event)
        elif await chat.can_go_on():
            await chat.ready()
            return await chat.resume()
        return Exit.OK

    async def _take(self, work: Coroutine[Any, Any, int]) -> None:
        try:
            code = await self._chat.interrupts.stoppable(work)
        except EkidenError as exc:
            self._failed(exc)
            return
        except BrokenPipeError:
            raise
        except Exception as exc:
            code = self._surprised(exc)
        if code is None:
            self._chat.screen.note("stopped")
            code = Exit.INTERRUPTED
        if code != Exit.OK:
            self._exit = code

    async def _do(self, text: str) -> int:
        match read_input(text):
            case None:
                return Exit.OK
            case TypedCommand(line=line):
                return await run_command(self._chat, line)
            case TypedMessage(text=said):
                return await self._say(said)

    async def _say(self, text: str) -> int:
        from dataclasses import replace

        from ekiden.api.methods.arguments import check_arguments
        from ekiden.api.runs import RunsApi
        from ekiden.project.routing import parse_address

        check_arguments(RunsApi, "run", input=text)
        chat = self._chat
        await chat.ready()
        address: AddressedMessage = parse_address(text)
        if address.to is not None and address.to != "auto":
            chat.roster.team[address.to]
        if not address.text.strip():
            return self._name_next(address)
        if address.to is None and self._to is not None:
            address = replace(address, to=self._to)
        self._to = None
        return await chat.send(address)

    def _name_next(self, address: AddressedMessage) -> int:
        self._to = address.to
        self._chat.screen.note(f"the next message goes to @{address.to}")
        return Exit.OK

    def _failed(self, exc: EkidenError) -> None:
        self._chat.screen.error(exc.code, str(exc))
        self._exit = exit_for_error(exc)

    def _surprised(self, exc: Exception) -> int:
        """A defect in one command does not end the chat."""
        if os.environ.get("EKIDEN_DEBUG") == "1":
            traceback.print_exc()
        message = f"{type(exc).__name__}: {exc} (EKIDEN_DEBUG=1 shows where)"
        self._chat.screen.error("cli.internal", message)
        return Exit.INTERNAL
