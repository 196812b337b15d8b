"""Where what a person says comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a prompt tells."""

    agent: str
    """Who gets the next message."""
    session_id: str
    details: str = ""
    """Whatever else the person should have in view."""


StatusOf: TypeAlias = Callable[[], Status]


class Reader(Protocol):
    """Reads what a person says and decides."""

    @property
    def can_choose(self) -> bool:
        """Whether `choose` can show a list; if not, it is never called."""
        ...

    async def begin(self) -> None:
        """Let the person begin to type, where that is possible; `read` gives it later."""
        ...

    async def abandon(self) -> None:
        """Take back what `begin` did, if nobody has read since."""
        ...

    async def read(self) -> str | None:
        """The next input; `None` at the end. `BadInput` for one that is not text: read on."""
        ...

    def aside(self) -> AbstractAsyncContextManager[None]:
        """While the body runs, something else may use the screen; a `read` under way goes on
        afterwards with what was typed."""
        ...

    async def ask(self, question: str) -> str | None:
        """The line typed behind `question`, and after it; `None` when nobody will answer."""
        ...

    async def choose(self, title: str, options: Sequence[str], *, start: int = 0) -> int | None:
        """The place of the option that the person takes; `None` for none of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedMessage:
    """Something to say to the team."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCommand:
    """A command: everything behind the slash."""

    line: str


def read_input(text: str) -> TypedMessage | TypedCommand | None:
    """Which of the two `text` is; `None` if there is nothing in it.

    A message that is to begin with a slash is written with two.
    """
    bare = text.strip()
    if not bare:
        return None
    if bare.startswith("//"):
        return TypedMessage(text=bare[1:])
    if bare.startswith("/"):
        return TypedCommand(line=bare[1:].strip())
    return TypedMessage(text=text.strip("\n"))
