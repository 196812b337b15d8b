"""The interface of a model: conversation items, the request and response of a call, token usage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Annotated, Any, Literal, Protocol, TypeAlias, overload, runtime_checkable

from ekiden.core.checks.fields import Checked, Count, Name
from ekiden.core.checks.kinds import Allowed
from ekiden.core.dataclass import dataclass, maker
from ekiden.core.errors import UserError

Item: TypeAlias = dict[str, Any]
"""A conversation item, e.g. ``{"role": "user", "content": "hi"}``. Recorded items never change."""


class ItemView(Sequence[Item]):
    """A view of the first `length` items of an append-only list. Creating the view takes constant
    time, and later appends do not change the view."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Item], length: int | None = None) -> None:
        self._items = items
        self._length = len(items) if length is None else length

    def shows(self, items: list[Item]) -> bool:
        """Whether the view shows this list, which has not grown since."""
        return self._items is items and self._length == len(items)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._length))]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._items[index]

    def __iter__(self) -> Iterator[Item]:
        items = self._items
        for index in range(self._length):
            yield items[index]


def user_message(text: str) -> Item:
    """A message from a person."""
    return {"role": "user", "content": text}


def assistant_message(text: str) -> Item:
    """A message from an agent."""
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def function_call(call_id: str, name: str, arguments: str) -> Item:
    """A request to run a tool. `arguments` is JSON text."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def function_output(call_id: str, output: Any) -> Item:
    """The answer to `function_call` with the same `call_id`."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def to_item(value: Any) -> Item:
    """Return `value` as a plain item. A pydantic object of the `openai` package is converted to
    JSON."""
    if isinstance(value, dict):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise UserError(f"an item must be a JSON object, not {type(value).__name__}")
    dumped: Item = dump(mode="json", exclude_unset=True)
    return dumped


def to_items(value: str | Iterable[Any]) -> list[Item]:
    """Return the input of a run as items. A string becomes one user message."""
    if isinstance(value, str):
        return [user_message(value)]
    return [to_item(each) for each in value]


def read_items(value: Iterable[Any], what: str) -> list[Item]:
    """Return the values as plain items. Raises `UserError`, which names the first invalid value and
    its fault."""
    found = []
    for number, each in enumerate(value):
        item = to_item(each)
        fault = item_fault(item)
        if fault is not None:
            raise UserError(f"item {number} of {what} {fault}")
        found.append(item)
    return found


def item_fault(item: Mapping[str, Any]) -> str | None:
    """The reason why the item is invalid, as the end of a sentence, or `None` for a valid item."""
    kind = item.get("type")
    if kind is None and "role" not in item:
        return (
            'has neither a `type` nor a `role`: write a message as {"role": "user", "content": "…"}'
        )
    if kind is not None and (not isinstance(kind, str) or not kind):
        return "has a `type` that is not text"
    if kind in (None, "message"):
        return _message_fault(item)
    for name in _NEEDED.get(kind, ()):
        if not isinstance(item.get(name), str) or not item[name]:
            return f"is a {kind} without `{name}`"
    if kind == "function_call" and not isinstance(item.get("arguments", ""), str):
        return "is a function_call whose `arguments` are not JSON text"
    if kind == "function_call_output" and "output" not in item:
        return "is a function_call_output without `output`"
    return None


def _message_fault(item: Mapping[str, Any]) -> str | None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        return f"has the role {role!r:.40}: a message has one of {', '.join(_ROLES)}"
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return "is a message without `content`: give a text, or a list of parts"
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            return 'has a part of `content` without a `type`, such as {"type": "input_text"}'
        if not isinstance(part.get("text", ""), str | None):
            return "has a part of `content` whose `text` is not text"
    return None


_ROLES = ("user", "assistant", "system", "developer")
_NEEDED = {"function_call": ("call_id", "name"), "function_call_output": ("call_id",)}


def is_message(item: Item) -> bool:
    """Whether the item is a message, not a call, an output or reasoning."""
    kind = item.get("type")
    return kind == "message" or (kind is None and "role" in item)


def text_of(item: Item) -> str:
    """Return all text of a message, in order. The text is empty for other items."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        part.get("text") or ""
        for part in content
        if isinstance(part, dict) and part.get("type") in _TEXT_PARTS
    )


def refusal_of(item: Item) -> str | None:
    """The refusal in a message; `None` if the message has no refusal."""
    content = item.get("content")
    if isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and part.get("type") == "refusal":
                return str(part.get("refusal") or "")
    return None


# A tuple and not a set: a part comes from outside, and its type may be unhashable.
_TEXT_PARTS = ("output_text", "input_text", "text")


_OUTPUT_ONLY = "created_by"
"""Fields that the provider sets on its output and refuses in its input."""


def to_input_item(value: Any) -> Item:
    """Return `value` as an input item, without output-only fields.

    `value` itself is not changed. A plain item without such fields is returned as it is.
    """
    item = to_item(value)
    if _OUTPUT_ONLY in item:
        item = {key: part for key, part in item.items() if key != _OUTPUT_ONLY}
    if item.get("type") == "shell_call_output" and isinstance(item.get("output"), list):
        item = {**item, "output": [_without_author(chunk) for chunk in item["output"]]}
    return item


def _without_author(chunk: Any) -> Any:
    if isinstance(chunk, dict) and _OUTPUT_ONLY in chunk:
        return {key: part for key, part in chunk.items() if key != _OUTPUT_ONLY}
    return chunk


def call_ids(items: Iterable[Item]) -> set[str]:
    """The ids of all calls among the items."""
    return {item["call_id"] for item in items if item.get("type") == "function_call"}


@dataclass(slots=True)
class Usage:
    """Token counts of one model call, or of all model calls of a run."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    """The cost in the currency of `RunConfig.prices`; 0 if no prices are known."""

    @property
    def tokens(self) -> int:
        """The total number of tokens. If the provider reports no total, the total is the sum of
        input and output tokens."""
        return max(self.total_tokens, self.input_tokens + self.output_tokens)

    def add(self, other: Usage) -> None:
        """Add the counts of `other` to this object."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.total_tokens += other.total_tokens
        self.cached_tokens += other.cached_tokens
        self.reasoning_tokens += other.reasoning_tokens
        self.cost += other.cost

    def take(self, other: Usage) -> None:
        """Subtract the counts of `other` from this object."""
        self.requests -= other.requests
        self.input_tokens -= other.input_tokens
        self.output_tokens -= other.output_tokens
        self.total_tokens -= other.total_tokens
        self.cached_tokens -= other.cached_tokens
        self.reasoning_tokens -= other.reasoning_tokens
        self.cost -= other.cost

    def to_json(self) -> dict[str, int | float]:
        """The counts as JSON. Counts of zero are left out."""
        # Written out, because a loop over the names takes six times as long, for every commit.
        counts: dict[str, int | float] = {}
        if self.requests:
            counts["requests"] = self.requests
        if self.input_tokens:
            counts["input_tokens"] = self.input_tokens
        if self.output_tokens:
            counts["output_tokens"] = self.output_tokens
        if self.total_tokens:
            counts["total_tokens"] = self.total_tokens
        if self.cached_tokens:
            counts["cached_tokens"] = self.cached_tokens
        if self.reasoning_tokens:
            counts["reasoning_tokens"] = self.reasoning_tokens
        if self.cost:
            counts["cost"] = round(self.cost, 9)
        return counts

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """The inverse of `to_json`."""
        counts = {name: int(count) for name, count in data.items() if name != "cost"}
        return cls(**counts, cost=float(data.get("cost", 0.0)))


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
    """Settings for model calls. A value of `None` means the default of the provider.

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
    """Additional settings; they are passed to the provider unchanged."""

    def resolve(self, override: ModelSettings | None) -> ModelSettings:
        """Return a copy of these settings, in which the values of `override` that are not `None`
        replace the old values."""
        if override is None:
            return self
        changes = {f.name: getattr(override, f.name) for f in fields(override)}
        return replace(self, **{name: v for name, v in changes.items() if v is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call."""

    instructions: str | None
    input: Sequence[Item]
    """The part of the conversation that the agent sees. Do not change this list."""
    tools: Sequence[ToolSpec] = ()
    """The tools of the agent, and its transfer tools."""
    settings: ModelSettings = field(default_factory=ModelSettings)
    output: OutputSpec | None = None
    stream: bool = False
    """Whether the caller reads deltas. A model that cannot stream may ignore this field."""
    agent: str = ""
    session_id: str = ""
    step: str = ""
    """The key of the step. A call that is repeated after an interruption has the same key."""


new_request = maker(ModelRequest)
"""Creates a `ModelRequest` in a third of the time of the constructor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelta:
    """A streamed piece of the current step: a part of an answer, or an event that code published.
    Deltas are not stored."""

    kind: Literal["text", "reasoning", "arguments", "published"]
    text: str
    """The streamed text, or the name of the event if `kind` is ``published``."""
    index: int = 0
    """The index of the output item that the delta belongs to."""
    data: Any = None
    """The data of the event if `kind` is ``published``, otherwise `None`."""
    session_id: str | None = None
    """The session that the delta comes from. `None` means the session of the run. Another id is the
    session of an agent that the run calls, or of the code that published the event."""

    def to_json(self) -> dict[str, Any]:
        """The delta as JSON, for observers of the run."""
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
    """The complete answer of a model."""

    output: list[Item]
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None
    model: str | None = None
    """The provider's name for the model that answered."""
    attempt: int = 1
    """The number of the attempt that succeeded; 1 is the first attempt."""

    def to_input_items(self) -> list[Item]:
        """The output items, in the form in which the next call gets them as input."""
        return [to_input_item(item) for item in self.output]


new_response = maker(ModelResponse)
"""Creates a `ModelResponse` in half the time of the constructor."""

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
        """Answer `request`: yield any number of deltas, then exactly one `ModelResponse`.

        Raises `ModelError` when the provider fails permanently, and `ModelBehaviorError` when its
        answer cannot be parsed. Closing the iterator early cancels the call.
        """
        ...


@runtime_checkable
class PreparedModel(Model, Protocol):
    """A model whose first answer in a process needs a slow preparation."""

    async def warm_up(self) -> None:
        """Import the dependencies of the model, so that the timeout of the first request covers
        only the request."""
        ...


def begins_chain(items: Iterable[Item]) -> bool:
    """Whether a run with the input `items` begins a new chain of handoffs. An input that has only
    outputs of calls continues the chain."""
    return any(item.get("type") != "function_call_output" for item in items)
