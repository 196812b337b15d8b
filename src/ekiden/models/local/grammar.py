"""What a model may write, as grammars that its sampler obeys token by token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.conversation.model import OutputSpec, ToolSpec

_HEAD = "%llguidance {}\n"
_ANY_TEXT = "TEXT: /[^{](.|\\n)*/\n"
"""A text that cannot be mistaken for a call."""


def one_of(words: Sequence[str]) -> str:
    """Exactly one of `words`."""
    return f"{_HEAD}start: {' | '.join(map(_literal, words))}\n"


def json_of(schema: Mapping[str, Any]) -> str:
    """JSON that fits `schema`."""
    return f"{_HEAD}start: {_json(schema)}\n"


def call_or_answer(tools: Sequence[ToolSpec], output: OutputSpec | None) -> str:
    """A call of one of `tools`, or the answer: a text, or what `output` says."""
    calls = [f"call{number}" for number in range(len(tools))]
    final = "TEXT" if output is None else "answer"
    lines = [f"start: {' | '.join([*calls, final])}"]
    for number, tool in enumerate(tools):
        lines.append(f"call{number}: {_literal(call_head(tool.name))} args{number} {_literal('}')}")
        lines.append(f"args{number}: {_json(tool.parameters)}")
    lines.append(_ANY_TEXT if output is None else f"answer: {_json(output.json_schema)}\n")
    return _HEAD + "\n".join(lines)


def call_head(name: str) -> str:
    """How a call of the tool begins; its arguments and a brace follow."""
    return f'{{"tool": {json.dumps(name, ensure_ascii=False)}, "arguments": '


def call_text(name: str, arguments: str) -> str:
    """A whole call, as the model writes it and as it reads its earlier ones."""
    return f"{call_head(name)}{arguments}}}"


def _json(schema: Mapping[str, Any]) -> str:
    # What the library cannot enforce is left out rather than failing the whole grammar, in which
    # case nothing at all would be enforced, and silently.
    options = {"whitespace_flexible": False, "lenient": True}
    return f"%json {json.dumps({**schema, 'x-guidance': options})}"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
