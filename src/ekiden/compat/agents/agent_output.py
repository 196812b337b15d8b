"""Structured answers: the schema that the model is shown, and reading what it wrote."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ekiden.compat.agents.exceptions import ModelBehaviorError, UserError
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema

_KEY = "response"
_typed_dict: Any = TypedDict
"""Type checkers know only `TypedDict`s that are written out."""


class AgentOutputSchemaBase(abc.ABC):
    """Describes an agent's final answer to the model, and parses the answer."""

    @abc.abstractmethod
    def is_plain_text(self) -> bool:
        """Whether the answer is text instead of JSON."""

    @abc.abstractmethod
    def name(self) -> str:
        """The name of the type."""

    @abc.abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema. It is used only if the answer is JSON."""

    @abc.abstractmethod
    def is_strict_json_schema(self) -> bool:
        """Whether the schema follows the rules of strict mode."""

    @abc.abstractmethod
    def validate_json(self, json_str: str) -> Any:
        """Parse the text as an object of the type. Raises `ModelBehaviorError` if that fails."""


@dataclass(init=False)
class AgentOutputSchema(AgentOutputSchemaBase):
    """The schema of a Python type. A type that is not a JSON object is wrapped in an object."""

    output_type: Any

    def __init__(self, output_type: Any, strict_json_schema: bool = True) -> None:
        self.output_type = output_type
        self._strict = strict_json_schema
        self._is_wrapped = not self.is_plain_text() and not _is_object(output_type)
        shape = _typed_dict("OutputType", {_KEY: output_type}) if self._is_wrapped else output_type
        self._adapter: TypeAdapter[Any] = TypeAdapter(shape)
        self._schema = self._adapter.json_schema()
        if not self.is_plain_text() and strict_json_schema:
            try:
                self._schema = ensure_strict_json_schema(self._schema)
            except UserError as exc:
                raise UserError(
                    "Strict JSON schema is enabled, but the output type is not valid. Either make "
                    "the output type strict, or wrap your type with "
                    "AgentOutputSchema(YourType, strict_json_schema=False)"
                ) from exc

    def is_plain_text(self) -> bool:
        """Whether the answer is text instead of JSON."""
        return self.output_type is None or self.output_type is str

    def is_strict_json_schema(self) -> bool:
        """Whether the schema follows the rules of strict mode."""
        return self._strict

    def json_schema(self) -> dict[str, Any]:
        """The JSON schema. Raises `UserError` if the answer is text."""
        if self.is_plain_text():
            raise UserError("Output type is plain text, so no JSON schema is available")
        return self._schema

    def validate_json(self, json_str: str) -> Any:
        """Parse the text as an object of the type. Raises `ModelBehaviorError` if that fails."""
        try:
            found = self._adapter.validate_json(json_str, strict=True if self._strict else None)
        except ValidationError as exc:
            raise ModelBehaviorError(
                f"Invalid JSON when parsing {json_str} for {self._adapter}; {exc}"
            ) from exc
        return found[_KEY] if self._is_wrapped else found

    def name(self) -> str:
        """The name of the type."""
        return _name(self.output_type)


def output_schema_of(output_type: Any) -> AgentOutputSchemaBase | None:
    """The schema of an agent's `output_type`; `None` for text."""
    if output_type is None or output_type is str:
        return None
    if isinstance(output_type, AgentOutputSchemaBase):
        return output_type
    return AgentOutputSchema(output_type)


def _is_object(kind: Any) -> bool:
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and issubclass(kind, BaseModel | dict)


def _name(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is None:
        return getattr(kind, "__name__", repr(kind))
    if args:
        return f"{getattr(origin, '__name__', origin)}[{', '.join(map(_name, args))}]"
    return str(kind)
