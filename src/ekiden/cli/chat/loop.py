"""The chat loop: read input, act, repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ekiden.cli.chat.commands.table import run_command
from ekiden.cli.chat.conversation import Chat
from ekiden.cli.chat.typed.reader import TypedCommand, TypedMessage, read_input
from ekiden.cli.errors import BadInput
from ekiden.cli.exits import Exit, defect, exit_for_error
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

    @property
    def _is_suspended(self) -> bool:
        return self._chat.is_suspended and not self._is_stuck

    async def _read(self) -> str | None:
        """The next input; a suspended turn resumes as soon as its wait is over."""
        chat = self._chat
        while self._is_suspended and await chat.can_go_on():
            await self._go_on()
        if not self._is_suspended:
            return await chat.reader.read()
        reading = asyncio.create_task(chat.reader.read())
        try:
            while self._is_suspended and not reading.done():
                if await self._until_ready(reading):
                    async with chat.reader.aside():
                        await self._go_on()
            return await reading
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _until_ready(self, reading: asyncio.Task[str | None]) -> bool:
        """Wait for an answer or an input; returns whether the answer came."""
        waiting = asyncio.create_task(self._chat.until_ready())
        await asyncio.wait({waiting, reading}, return_when=asyncio.FIRST_COMPLETED)
        is_ready = waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return is_ready

    async def _go_on(self) -> None:
        """Resume the suspended turn; if that fails, leave it until the next input."""
        if self._exit == Exit.WAITING:
            self._exit = Exit.OK
        await self._take(self._chat.catch_up())
        self._is_stuck = await self._chat.can_go_on()

    async def _take(self, work: Coroutine[Any, Any, int]) -> None:
        """Do the work until its end or Ctrl-C; its error, even a defect, does not end the chat."""
        try:
            code = await self._chat.interrupts.stoppable(work)
        except EkidenError as exc:
            self._failed(exc)
            return
        except BrokenPipeError:
            raise
        except Exception as exc:
            self._chat.screen.error(*defect(exc))
            code = Exit.INTERNAL
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
            case TypedMessage(text=message):
                return await self._say(message)

    async def _say(self, text: str) -> int:
        from ekiden.api.methods.arguments import check_arguments
        from ekiden.api.runs import RunsApi
        from ekiden.project.routing import parse_address

        check_arguments(RunsApi, "run", input=text)
        chat = self._chat
        await chat.ready()
        address: AddressedMessage = parse_address(text)
        chat.check_addressee(address)
        if not address.text.strip():
            self._to = address.to
            chat.screen.note(f"the next message goes to @{address.to}")
            return Exit.OK
        if address.to is None and self._to is not None:
            address = replace(address, to=self._to)
        self._to = None
        return await chat.send(address)

    def _failed(self, exc: EkidenError) -> None:
        self._chat.screen.error(exc.code, str(exc))
        self._exit = exit_for_error(exc)
