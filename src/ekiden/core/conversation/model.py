"""The interface of a model, and the request and response of one call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from ekiden.core.checks.fields import Checked, Count, Name
from ekiden.core.checks.kinds import Allowed
from ekiden.core.conversation.items import Item, to_input_item
from ekiden.core.conversation.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """The JSON Schema of the final answer."""

    name: str
    json_schema: dict[str, Any]
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings(Checked):
    """Settings of the model's answers; `None` leaves it to the provider.

    For example::

        Agent("judge", model_settings=ModelSettings(temperature=0, max_tokens=200))
    """

    temperature: Annotated[float | None, Allowed(high=100)] = None
    top_p: Annotated[float | None, Allowed(high=1)] = None
    max_tokens: Count | None = None
    tool_choice: Name | None = None
    """``auto``, ``required``, ``none`` or the name of a tool."""
    parallel_tool_calls: bool | None = None
    reasoning_effort: Name | None = None
    extra: dict[str, Any] | None = None
    """Passed to the provider as it is."""

    def resolve(self, override: ModelSettings | None) -> ModelSettings:
        """These settings, overridden by those of `override` that are not `None`."""
        if override is None:
            return self
        changes = {f.name: getattr(override, f.name) for f in fields(override)}
        return replace(self, **{name: v for name, v in changes.items() if v is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call."""

    instructions: str | None
    input: Sequence[Item]
    """The conversation as the agent sees it; read-only."""
    tools: Sequence[ToolSpec] = ()
    """Tools and transfers alike."""
    settings: ModelSettings = field(default_factory=ModelSettings)
    output: OutputSpec | None = None
    stream: bool = False
    """Whether deltas are wanted; a model without streaming may ignore it."""
    agent: str = ""
    session_id: str = ""
    step: str = ""
    """The step's key: the same when an interrupted call is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelta:
    """A piece of a current step, which is not stored: of an answer, or progress that code
    published."""

    kind: Literal["text", "reasoning", "arguments", "published"]
    text: str
    """With `published`: the name of the event."""
    index: int = 0
    """Which output item it belongs to."""
    data: Any = None
    """With `published`: the published data."""
    session_id: str | None = None
    """With `published`: the session of the code."""

    def to_json(self) -> dict[str, Any]:
        """For observers."""
        data: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.kind == "published":
            data |= {"data": self.data, "session_id": self.session_id}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelDelta:
        """The inverse of `to_json`."""
        own = ("kind", "text", "index", "data", "session_id")
        return cls(**{name: data[name] for name in own if name in data})


@dataclass(slots=True)
class ModelResponse:
    """A complete answer."""

    output: list[Item]
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None
    model: str | None = None
    """The provider's name for the model that answered."""
    attempt: int = 1
    """The number of the successful attempt."""

    def to_input_items(self) -> list[Item]:
        """The answer as input of the next call."""
        return [to_input_item(item) for item in self.output]


ModelEvent: TypeAlias = ModelDelta | ModelResponse


@runtime_checkable
class Model(Protocol):
    """A model that answers a conversation.

    For example::

        class Parrot:
            async def respond(self, request: ModelRequest):
                said = text_of(request.input[-1])
                yield ModelDelta(kind="text", text=said)
                yield ModelResponse(output=[assistant_message(said)])
    """

    def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield any number of deltas, then exactly one `ModelResponse`.

        Raises `ModelError` when the provider fails for good, `ModelBehaviorError` when its answer
        cannot be parsed. Closing the iterator early cancels the call.
        """
        ...


@runtime_checkable
class PreparedModel(Model, Protocol):
    """A model that is slow before its first answer in a process."""

    async def warm_up(self) -> None:
        """Import its dependencies, so that the first request's timeout covers only the request."""
        ...
