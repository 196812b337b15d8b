"""Memory over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import MEMORY_KEY
from ekiden.memory.checking import MAX_CONTENT, MAX_KEY
from ekiden.server.paging import Page


class MemoryModel(BaseModel):
    """Something that is remembered."""

    key: str
    content: str
    metadata: dict[str, Any]
    stored_at: float = Field(description="Seconds since 1970.")
    agent: str | None = Field(description="Who remembered it; `null`: nobody of the team.")


class FoundMemory(MemoryModel):
    """A memory that was looked for."""

    score: float = Field(description="0 to 1, higher is better.")
    found_by: Literal["words", "meaning", "both"] | None


class FoundMemories(Page[FoundMemory]):
    """What was found, the best first."""

    notes: list[str] = Field(description="What could not be looked at, for people.")


class MemoryContent(BaseModel):
    """What to remember under a key."""

    model_config = ConfigDict(extra="forbid")

    content: str = Field(
        min_length=1, max_length=MAX_CONTENT, examples=["Her favourite colour is blue."]
    )
    metadata: dict[str, Any] | None = Field(default=None, description="What belongs to it.")


class NewMemory(MemoryContent):
    """What to remember."""

    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_KEY,
        pattern=MEMORY_KEY,
        description="The key; else one is made from the content.",
    )


class StoredMemory(BaseModel):
    """Where something is remembered now."""

    key: str
    stored: Literal[True]


class ForgottenMemories(BaseModel):
    """How many memories are gone."""

    forgotten: int


class DeliveryModel(BaseModel):
    """What a back end was told."""

    backend: str
    delivered: int
    waiting: int
    problem: str | None
