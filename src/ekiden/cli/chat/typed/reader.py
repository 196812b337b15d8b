"""The source of a person's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status shown at a prompt."""

    agent: str
    """The agent that gets the next message."""
    session_id: str
    details: str = ""
    """Further facts for the person."""


StatusOf: TypeAlias = Callable[[], Status]


class Reader(Protocol):
    """Reads a person's input and decisions."""

    @property
    def can_choose(self) -> bool:
        """Whether `choose` can show a list; if not, it is never called."""
        ...

    async def begin(self) -> None:
        """Let the person start typing, where possible; `read` returns it later."""
        ...

    async def abandon(self) -> None:
        """Undo `begin`, if nothing was read since."""
        ...

    async def read(self) -> str | None:
        """The next input; `None` at the end. `BadInput` for one that is not text: read on."""
        ...

    def aside(self) -> AbstractAsyncContextManager[None]:
        """While the body runs, other output may use the screen; a `read` in progress continues
        afterwards with the typed text."""
        ...

    async def ask(self, question: str) -> str | None:
        """The line typed after `question`; `None` at the end of input."""
        ...

    async def choose(self, title: str, options: Sequence[str], *, start: int = 0) -> int | None:
        """The index of the option that the person picks; `None` for none of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedMessage:
    """A message to the team."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCommand:
    """A command: everything after the slash."""

    line: str


def read_input(text: str) -> TypedMessage | TypedCommand | None:
    """A message or a command; `None` if the text is empty.

    To send a message that begins with a slash, type two.
    """
    bare = text.strip()
    if not bare:
        return None
    if bare.startswith("//"):
        return TypedMessage(text=bare[1:])
    if bare.startswith("/"):
        return TypedCommand(line=bare[1:].strip())
    return TypedMessage(text=text.strip("\n"))
