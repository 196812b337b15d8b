"""From the final message to the run's output."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ekiden.core.conversation.items import Item, is_message, refusal_of, text_of
from ekiden.core.conversation.model import OutputSpec
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.runs import Done, Refused


def output_spec(output_type: Any) -> OutputSpec | None:
    """What the model is told about the answer's form; `None` for text."""
    if output_type is None or output_type is str:
        return None
    return _structured(output_type)[0]


def final_outcome(output: list[Item], output_type: Any) -> Done | Refused:
    """What a model turn without calls amounts to.

    `ModelBehaviorError` when a structured answer was asked for and this is not one.
    """
    text, refusal = "", None
    for item in output:
        if is_message(item):
            text = text_of(item)
            refusal = refusal_of(item)
    if refusal is not None and not text:
        return Refused(refusal)
    if output_type is None or output_type is str:
        return Done(text)
    spec, adapter = _structured(output_type)
    try:
        value = adapter.validate_json(text)
    except ValueError as exc:
        raise ModelBehaviorError(f"the answer is not valid for {spec.name}: {exc}") from exc
    return Done(value)


def checked_text(output: list[Item]) -> str:
    """All that the messages of a model's turn say: what guardrails of texts are to see."""
    said: list[str] = []
    for item in output:
        if is_message(item):
            said += [text for text in (text_of(item), refusal_of(item)) if text]
    return "\n".join(said)


def is_structured(output_type: Any) -> bool:
    """Whether the answer is to be something else than text."""
    return output_type is not None and output_type is not str


@lru_cache(maxsize=512)
def _structured(output_type: Any) -> tuple[OutputSpec, Any]:
    from pydantic import PydanticUserError, TypeAdapter

    name = getattr(output_type, "__name__", None) or str(output_type)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        schema = adapter.json_schema()
    except PydanticUserError as exc:
        raise UserError(f"output_type {name} has no JSON schema: {exc}") from exc
    return OutputSpec(name=name, json_schema=schema, strict=False), adapter
