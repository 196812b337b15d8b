"""The role of a session: the items of a conversation, kept between runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

from typing_extensions import TypedDict

from ekiden.compat.agents.memory.session_settings import SessionSettings


@runtime_checkable
class Session(Protocol):
    """An object that stores the items of a conversation."""

    session_id: str
    session_settings: SessionSettings | None = None

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items, oldest first; with `limit` only the newest ones."""
        ...

    async def add_items(self, items: list[Any]) -> None:
        """Append items."""
        ...

    async def pop_item(self) -> Any:
        """Remove the newest item and return it; `None` if the session is empty."""
        ...

    async def clear_session(self) -> None:
        """Remove all items."""
        ...


class SessionABC(ABC):
    """`Session` as a base class."""

    session_id: str
    session_settings: SessionSettings | None = None

    @abstractmethod
    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items, oldest first; with `limit` only the newest ones."""

    @abstractmethod
    async def add_items(self, items: list[Any]) -> None:
        """Append items."""

    @abstractmethod
    async def pop_item(self) -> Any:
        """Remove the newest item and return it; `None` if the session is empty."""

    @abstractmethod
    async def clear_session(self) -> None:
        """Remove all items."""


class OpenAIResponsesCompactionArgs(TypedDict, total=False):
    """The arguments of a compaction."""

    response_id: str
    compaction_mode: Literal["previous_response_id", "input", "auto"]
    store: bool
    force: bool


@runtime_checkable
class OpenAIResponsesCompactionAwareSession(Session, Protocol):
    """A session that can compact its items."""

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Compact the items if there are enough of them."""
        ...


def is_openai_responses_compaction_aware_session(
    session: Session | None,
) -> TypeGuard[OpenAIResponsesCompactionAwareSession]:
    """Whether the session can compact its items."""
    return callable(getattr(session, "run_compaction", None))
