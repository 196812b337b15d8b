"""`memory` in an agent's file."""

from __future__ import annotations

from typing import get_args

from ekiden.agents.keys.objects import Field, Object
from ekiden.core.checks.kinds import Choice, Flag, Number, Text
from ekiden.core.profile import MemoryKind, MemoryScope

MEMORY = Object(
    Field(name="enabled", kind=Flag(), text="Whether the agent remembers.", default=False),
    Field(
        name="type",
        kind=Choice(tuple(sorted(get_args(MemoryKind), reverse=True))),
        text="How memories are found: key_value by words, vector by meaning, too.",
        default="key_value",
    ),
    Field(
        name="backend",
        kind=Text(),
        text="Who searches vectors, such as pinecone; else the store of the sessions.",
        example="pinecone",
    ),
    Field(
        name="scope",
        kind=Choice(get_args(MemoryScope)),
        text="Whose memories: those of the session's user, or of everybody who uses the app.",
        default="user",
    ),
    Field(
        name="top_k",
        kind=Number(low=1, high=100, whole=True),
        text="How many memories are found at most; else the setting memory.top_k.",
        example=5,
    ),
    Field(
        name="threshold",
        kind=Number(low=0, high=1),
        text="How near they must be, from 0 to 1; else the setting memory.similarity_threshold.",
        example=0.3,
    ),
    wanted="a mapping with enabled, type, backend, scope, top_k, threshold",
)
