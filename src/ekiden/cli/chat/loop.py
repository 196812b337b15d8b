"""The chat itself: read, do, read again."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

from ekiden.cli.chat.commands import run_command
from ekiden.cli.chat.conversation import Chat
from ekiden.cli.chat.inputs import Called, Said, read_input
from ekiden.cli.errors import BadInput
from ekiden.cli.exits import Exit, exit_for_error
from ekiden.core.errors import EkidenError

if TYPE_CHECKING:
    from ekiden.app.addressing import Address


class ChatLoop:
    """Reads what is said until there is no more, and answers each before reading the next."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._exit: int = Exit.OK
        self._to: str | None = None
        """Whom the next message without a name goes to: the last one named alone."""

    async def run(self) -> int:
        """Talk until the end; gives 0, or the exit code of the last input that failed."""
        chat = self._chat
        await chat.look()
        while not chat.is_over:
            try:
                text = await chat.reader.read()
            except BadInput as exc:
                self._failed(exc)
                continue
            if text is None:
                break
            await self._take(text)
        return self._exit

    async def _take(self, text: str) -> None:
        try:
            code = await self._chat.interrupts.stoppable(self._do(text))
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
            case Called(line=line):
                return await run_command(self._chat, line)
            case Said(text=said):
                return await self._say(said)

    async def _say(self, text: str) -> int:
        from dataclasses import replace

        from ekiden.app.addressing import parse_address

        chat = self._chat
        for line in await chat.roster.ready(chat.screen.note):
            chat.screen.note(line)
        address: Address = parse_address(text)
        if address.to is not None and address.to != "auto":
            chat.roster.team[address.to]
        if not address.text.strip():
            return self._name_next(address)
        if address.to is None and self._to is not None:
            address = replace(address, to=self._to)
        self._to = None
        return await chat.send(address)

    def _name_next(self, address: Address) -> int:
        self._to = address.to
        self._chat.screen.note(f"the next message goes to @{address.to}")
        return Exit.OK

    def _failed(self, exc: EkidenError) -> None:
        self._chat.screen.error(exc.code, str(exc))
        self._exit = exit_for_error(exc)

    def _surprised(self, exc: Exception) -> int:
        """A mistake of ours in one command is no reason to lose the chat."""
        if os.environ.get("EKIDEN_DEBUG") == "1":
            traceback.print_exc()
        message = f"{type(exc).__name__}: {exc} (EKIDEN_DEBUG=1 shows where)"
        self._chat.screen.error("cli.internal", message)
        return Exit.INTERNAL
