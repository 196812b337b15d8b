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
        text="How memories are searched: key_value by words, vector also by meaning.",
        default="key_value",
    ),
    Field(
        name="backend",
        kind=Text(),
        text="The vector back end, such as pinecone; by default the store of the sessions.",
        example="pinecone",
    ),
    Field(
        name="scope",
        kind=Choice(get_args(MemoryScope)),
        text="The owner of the memories: the session's user, or the whole app.",
        default="user",
    ),
    Field(
        name="top_k",
        kind=Number(low=1, high=100, whole=True),
        text="The most memories that a search returns; by default the setting memory.top_k.",
        example=5,
    ),
    Field(
        name="threshold",
        kind=Number(low=0, high=1),
        text="The lowest similarity, from 0 to 1; by default the setting "
        "memory.similarity_threshold.",
        example=0.3,
    ),
    wanted="a mapping with enabled, type, backend, scope, top_k, threshold",
)
