"""Items of a conversation that a client sends."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Field, WithJsonSchema

_TEXT = {"type": "string", "minLength": 1}
_CALLS = ["function_call", "function_call_output"]

InputItem: TypeAlias = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "A message has a `role`; everything else says its `type`.",
            "anyOf": [
                {
                    "required": ["role"],
                    "properties": {"role": {"type": "string"}, "type": {"type": "null"}},
                },
                {
                    "required": ["type"],
                    "properties": {"type": {"type": "string", "not": {"enum": _CALLS}}},
                },
                {
                    "required": ["type", "call_id", "name"],
                    "properties": {
                        "type": {"const": "function_call"},
                        "call_id": _TEXT,
                        "name": _TEXT,
                    },
                },
                {
                    "required": ["type", "call_id"],
                    "properties": {"type": {"const": "function_call_output"}, "call_id": _TEXT},
                },
            ],
            "examples": [{"role": "user", "content": "Where is my order 1042?"}],
        }
    ),
]
"""As the OpenAI Responses API has them; whoever reads it says what is wrong with one."""

TextInput: TypeAlias = Annotated[str, Field(min_length=1, max_length=1_000_000)]
ItemsInput: TypeAlias = Annotated[list[InputItem], Field(min_length=1, max_length=20_000)]
