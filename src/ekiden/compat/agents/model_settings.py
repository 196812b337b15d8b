"""`ModelSettings` with every field of the SDK's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Literal, TypeAlias

from openai import Omit as _Omit
from openai.types.responses import ResponseIncludable
from openai.types.shared import Reasoning
from pydantic import Field, FiniteFloat, GetCoreSchemaHandler, TypeAdapter
from pydantic.dataclasses import dataclass
from pydantic_core import core_schema

from ekiden.compat.agents.retry import ModelRetrySettings


class _OmitIsNone:
    """Lets pydantic read and write the `openai` package's marker for a header to leave out."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from_none = core_schema.no_info_after_validator_function(
            lambda _: _Omit(), core_schema.none_schema()
        )
        return core_schema.json_or_python_schema(
            json_schema=from_none,
            python_schema=core_schema.union_schema(
                [core_schema.is_instance_schema(_Omit), from_none]
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda _: None),
        )


@dataclass
class MCPToolChoice:
    """The tool of an MCP server that the model has to call."""

    server_label: str
    name: str


Omit = Annotated[_Omit, _OmitIsNone]
Headers: TypeAlias = Mapping[str, str | Omit]
ToolChoice: TypeAlias = Literal["auto", "required", "none"] | str | MCPToolChoice | None

_NOT_TRACED = {"extra_query", "extra_body", "extra_headers", "extra_args", "preserve_raw_usage"}


@dataclass
class ModelSettings:
    """Settings for model calls; with `None` the default of the provider applies."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_tokens: int | None = None
    reasoning: Reasoning | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    include_usage: bool | None = None
    response_include: list[ResponseIncludable | str] | None = None
    top_logprobs: int | None = None
    extra_query: Mapping[str, object] | None = None
    extra_body: object | None = None
    extra_headers: Headers | None = None
    extra_args: dict[str, Any] | None = None
    retry: ModelRetrySettings | None = None
    context_management: list[dict[str, Any]] | None = None
    prompt_cache_options: dict[str, Any] | None = None
    preserve_raw_usage: bool | None = None
    timeout: Annotated[FiniteFloat, Field(gt=0)] | None = None

    def resolve(self, override: ModelSettings | dict[str, Any] | None) -> ModelSettings:
        """A copy of these settings; values of `override` that are not `None` win."""
        if override is None:
            return self
        given = coerce_settings(override)
        changes = {
            each.name: value
            for each in fields(self)
            if (value := getattr(given, each.name, None)) is not None
        }
        if self.extra_args and given.extra_args:
            changes["extra_args"] = {**self.extra_args, **given.extra_args}
        if self.retry is not None and given.retry is not None:
            changes["retry"] = _merged(self.retry, given.retry)
        return replace(self, **changes)

    def to_json_dict(self) -> dict[str, Any]:
        """The settings as JSON."""
        data: dict[str, Any] = TypeAdapter(ModelSettings).dump_python(self, mode="json")
        return data

    def to_traceable_dict(self) -> dict[str, Any]:
        """The settings as JSON, without provider-specific values, which may be secret."""
        return {name: each for name, each in self.to_json_dict().items() if name not in _NOT_TRACED}


def _merged(inherited: Any, override: Any) -> Any:
    """Fields of `override` that are set on top, also in settings within settings."""
    changes = {}
    for each in fields(inherited):
        new, old = getattr(override, each.name), getattr(inherited, each.name)
        if new is not None:
            is_nested = hasattr(old, "__dataclass_fields__") and type(old) is type(new)
            changes[each.name] = _merged(old, new) if is_nested else new
    return replace(inherited, **changes)


def coerce_settings(value: ModelSettings | Mapping[str, Any]) -> ModelSettings:
    """A dictionary of settings as an object; `TypeError` for unknown names."""
    if isinstance(value, ModelSettings):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            f"model_settings must be ModelSettings or a dict, not {type(value).__name__}"
        )
    unknown = sorted(set(value) - {each.name for each in fields(ModelSettings)})
    if unknown:
        raise TypeError(f"Unknown model settings: {', '.join(unknown)}")
    return ModelSettings(**value)
