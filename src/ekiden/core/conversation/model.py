"""The role of a model, and what goes in and comes out of one call."""

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
    """A tool as the model is shown it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """The JSON that the final answer must be."""

    name: str
    json_schema: dict[str, Any]
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings(Checked):
    """Wishes about how the model answers; `None` leaves it to the provider.

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
        """These settings with those of `override` that are not `None` on top."""
        if override is None:
            return self
        changes = {f.name: getattr(override, f.name) for f in fields(override)}
        return replace(self, **{name: v for name, v in changes.items() if v is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of a model."""

    instructions: str | None
    input: Sequence[Item]
    """The conversation the agent sees; read-only."""
    tools: Sequence[ToolSpec] = ()
    """Tools and transfers alike."""
    settings: ModelSettings = field(default_factory=ModelSettings)
    output: OutputSpec | None = None
    stream: bool = False
    """Whether somebody looks at the deltas; a model that has none may ignore it."""
    agent: str = ""
    session_id: str = ""
    step: str = ""
    """The step's key: the same again when a killed call is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelta:
    """A piece of a step that is still under way, and not stored: of an answer, or progress that
    code published."""

    kind: Literal["text", "reasoning", "arguments", "published"]
    text: str
    """With `published`: the name of the event."""
    index: int = 0
    """Which output item it belongs to."""
    data: Any = None
    """With `published`: what was published along with the name."""
    session_id: str | None = None
    """With `published`: the session of the code."""

    def to_json(self) -> dict[str, Any]:
        """For programs that look on."""
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
    """The provider's own name of what answered."""
    attempt: int = 1
    """Which attempt gave it: those before failed, and were made again."""

    def to_input_items(self) -> list[Item]:
        """The answer as it is sent back in the next call."""
        return [to_input_item(item) for item in self.output]


ModelEvent: TypeAlias = ModelDelta | ModelResponse


@runtime_checkable
class Model(Protocol):
    """Anything that answers a conversation.

    For example::

        class Parrot:
            async def respond(self, request: ModelRequest):
                said = text_of(request.input[-1])
                yield ModelDelta(kind="text", text=said)
                yield ModelResponse(output=[assistant_message(said)])
    """

    def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Any number of deltas, then exactly one `ModelResponse`, then the end.

        Raises `ModelError` when the provider fails for good, `ModelBehaviorError` when its answer
        cannot be read. Closing the iterator early cancels the call.
        """
        ...


@runtime_checkable
class PreparedModel(Model, Protocol):
    """A model that takes a while before its first answer in a process."""

    async def warm_up(self) -> None:
        """Import what it needs, so that a time-out of the first request covers the request."""
        ...
