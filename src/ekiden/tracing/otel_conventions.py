"""Converts spans and messages to OpenTelemetry's GenAI semantic conventions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ekiden.core.handoffs import transfer_tool_name
from ekiden.core.values import dumps
from ekiden.tracing.exports import LEFT_OUT, masked, without_content
from ekiden.tracing.spans import Span

_TEXTS = ("text", "refusal", "transcript")
SYSTEM: Final = "ekiden"
"""The provider name for agents, because agents have no vendor."""
UNKNOWN: Final = "_OTHER"
_MAX_CONTENT = 16_000
_MAX_PART = 4_000
_MAX_FACT = 1_000
_MAX_LISTED = 100
_INT64 = 2**63
_PROVIDERS: tuple[tuple[str, str], ...] = (
    ("gpt-", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude", "anthropic"),
    ("gemini", "gcp.gemini"),
    ("mistral", "mistral_ai"),
    ("deepseek", "deepseek"),
    ("grok", "x_ai"),
    ("command", "cohere"),
    ("kimi", "moonshot_ai"),
)
"""Prefixes of model names, and their providers in the conventions."""
_PREFIXES: Mapping[str, str] = {
    "google": "gcp.gemini",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
}
"""Providers with another name in the conventions."""
_OWN_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "llm_call": frozenset({"model", "response_id"}),
    "tool_call": frozenset({"tool", "call_id"}),
    "handoff": frozenset({"from", "to", "id", "status", "policy"}),
}
"""Details that have an attribute of the conventions."""
_TOOL_WORDS: Mapping[str, str] = {
    "arguments": "gen_ai.tool.call.arguments",
    "result": "gen_ai.tool.call.result",
}
_DEFAULT_ERRORS: Mapping[str, str] = {
    "tool_call": "tool.failed",
    "handoff": "handoff.failed",
    "guardrail": "guardrail.failed",
}


def genai_messages(items: Any, mask: Callable[[str], str]) -> list[dict[str, Any]]:
    """Convert the items to messages, with `mask` applied to every text. Values that are not items
    are left out.

    Each message has a `role` (``user``, ``assistant``, ``system``, ``tool``) and `parts`: texts,
    tool calls and their results. Images, audio and files are reduced to their type.
    """
    if isinstance(items, str):
        return [_message("user", _text(mask(items)))]
    if isinstance(items, Mapping):
        items = [items]
    if not isinstance(items, Sequence):
        return []
    found = [_read(item, mask) for item in items if isinstance(item, Mapping)]
    return [message for message in found if message is not None]


def as_json(messages: Sequence[Mapping[str, Any]], most: int) -> str:
    """The last messages as JSON text with at most `most` characters."""
    kept: list[str] = []
    room = most - 2
    for message in reversed(messages):
        text = dumps(message)
        room -= len(text) + 1
        if room < 0:
            break
        kept.append(text)
    return f"[{','.join(reversed(kept))}]"


def _read(item: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, Any] | None:
    kind = item.get("type")
    if kind == "function_call":
        call = {"type": "tool_call", "id": item.get("call_id"), "name": item.get("name")}
        return _message("assistant", {**call, "arguments": _masked(item.get("arguments"), mask)})
    if kind == "function_call_output":
        answer = {"type": "tool_call_response", "id": item.get("call_id")}
        return _message("tool", {**answer, "result": _masked(item.get("output"), mask)})
    role = item.get("role")
    if not isinstance(role, str):
        return None
    content = item.get("content")
    parts = [_text(mask(content))] if isinstance(content, str) else _parts(content, mask)
    return {"role": role, "parts": parts} if parts else None


def _parts(content: Any, mask: Callable[[str], str]) -> list[dict[str, Any]]:
    if not isinstance(content, Sequence):
        return []
    found = []
    for part in content:
        if not isinstance(part, Mapping):
            continue
        text = next((part[name] for name in _TEXTS if isinstance(part.get(name), str)), None)
        found.append({"type": str(part.get("type", "?"))} if text is None else _text(mask(text)))
    return found


def _masked(value: Any, mask: Callable[[str], str]) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else mask(value)
    return mask(dumps(value))


def _message(role: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


Attribute: TypeAlias = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A span in the form of the conventions."""

    name: str
    is_client: bool
    """Whether the span is a call to another system."""
    attributes: Mapping[str, Attribute]
    error_type: str | None
    """An error code or the name of an exception class, so that there are few different values.
    `None` without an error."""
    error: str | None
    """The error. Without content, this is only the code or the class of the error."""


def describe_span(span: Span, *, content: bool = False) -> Described:
    """Convert the span to the form of the conventions.

    Without `content`, the result has no text of people, models or tools. With `content`, keys and
    tokens are masked.
    """
    if not content:
        span = without_content(span)
    name, operation, own = _NAMED.get(span.kind, _other)(span)
    attributes: dict[str, Attribute] = {
        "gen_ai.conversation.id": span.session_id,
        "ekiden.span.kind": span.kind,
        "ekiden.correlation_id": span.correlation_id,
        **({} if operation is None else {"gen_ai.operation.name": operation}),
        **({} if span.agent_name is None else {"gen_ai.agent.name": _short(span.agent_name)}),
        **own,
    }
    has_own = _OWN_ATTRIBUTES.get(span.kind, frozenset())
    for key, value in span.details.items():
        plain = None if key in has_own else _fact(value)
        if plain is not None:
            attributes.setdefault(f"ekiden.{key}", plain)
    if span.cost is not None:
        attributes["ekiden.cost"] = span.cost
    attributes.update(_content(span))
    error_type = _error_type(span)
    if error_type is not None:
        attributes["error.type"] = error_type
    return Described(
        name=name,
        is_client=operation == "chat",
        attributes=attributes,
        error_type=error_type,
        error=None if span.error is None else _masked_text(span.error),
    )


_Named: TypeAlias = tuple[str, str | None, dict[str, Attribute]]


def _agent(span: Span) -> _Named:
    name = _short(span.agent_name or span.name)
    return f"invoke_agent {name}", "invoke_agent", {"gen_ai.provider.name": SYSTEM}


def _model_call(span: Span) -> _Named:
    model = _short(str(span.details.get("model") or ""))
    provider, bare = provider_of(model)
    attributes: dict[str, Attribute] = {"gen_ai.provider.name": provider}
    if bare:
        attributes |= {"gen_ai.request.model": bare, "gen_ai.response.model": bare}
    response_id = span.details.get("response_id")
    if isinstance(response_id, str):
        attributes["gen_ai.response.id"] = _short(response_id)
    tokens = span.tokens
    counts = {
        "gen_ai.usage.input_tokens": tokens.input,
        "gen_ai.usage.output_tokens": tokens.output,
        "gen_ai.usage.cache_read.input_tokens": tokens.cached,
        "gen_ai.usage.reasoning.output_tokens": tokens.reasoning,
    }
    attributes |= {name: count for name, count in counts.items() if count}
    return f"chat {bare}".rstrip(), "chat", attributes


def _tool(span: Span) -> _Named:
    tool = _short(str(span.details.get("tool") or span.name))
    attributes: dict[str, Attribute] = {"gen_ai.tool.name": tool, "gen_ai.tool.type": "function"}
    call_id = span.details.get("call_id")
    if isinstance(call_id, str):
        attributes["gen_ai.tool.call.id"] = _short(call_id)
    return f"execute_tool {tool}", "execute_tool", attributes


def _handoff(span: Span) -> _Named:
    target = str(span.details.get("to") or "")
    tool = transfer_tool_name(target) if target else "transfer"
    attributes: dict[str, Attribute] = {
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "ekiden.handoff.source": _short(str(span.details.get("from") or "")),
        "ekiden.handoff.target": _short(target),
    }
    for name in ("id", "status", "policy"):
        value = span.details.get(name)
        if isinstance(value, str):
            attributes[f"ekiden.handoff.{name}"] = _short(value)
    return f"execute_tool {tool}", "execute_tool", attributes


def _guardrail(span: Span) -> _Named:
    name = span.details.get("guardrail")
    return (f"guardrail {_short(name)}" if isinstance(name, str) else "guardrail"), None, {}


def _confirmation(span: Span) -> _Named:
    tool = span.details.get("tool")
    return (f"confirm {_short(tool)}" if isinstance(tool, str) else "confirm"), None, {}


def _other(span: Span) -> _Named:
    return span.kind, None, {}


_NAMED: Mapping[str, Any] = {
    "agent": _agent,
    "llm_call": _model_call,
    "tool_call": _tool,
    "handoff": _handoff,
    "guardrail": _guardrail,
    "tool_confirmation": _confirmation,
}


def provider_of(model: str) -> tuple[str, str]:
    """The provider of a model in the conventions, and the model's name without the provider."""
    provider, colon, bare = model.partition(":")
    if colon and provider.isidentifier():
        return _PREFIXES.get(provider, provider), bare
    for prefix, owner in _PROVIDERS:
        if model.startswith(prefix):
            return owner, model
    return UNKNOWN, model


def _content(span: Span) -> dict[str, Attribute]:
    """The content with the names of the conventions, otherwise as ``ekiden.content.…``."""
    found: dict[str, Attribute] = {}
    for key, value in span.content.items():
        if value is None or value == "":
            continue
        if span.kind in ("llm_call", "agent", "run") and key in ("input", "output"):
            messages = genai_messages(value, lambda text: _masked_text(text, _MAX_PART))
            if messages:
                found[f"gen_ai.{key}.messages"] = as_json(messages, _MAX_CONTENT)
                continue
        name = _TOOL_WORDS.get(key) if span.kind in ("tool_call", "handoff") else None
        found[name or f"ekiden.content.{key}"] = _masked_text(_as_text(value))
    return found


def _error_type(span: Span) -> str | None:
    """The code of the error, or the name of the exception, without its message."""
    if span.status != "error":
        return None
    code = span.details.get("code")
    if isinstance(code, str) and code:
        return _short(code)
    named = without_content(span).error
    if named is not None and named != LEFT_OUT:
        return named
    return _DEFAULT_ERRORS.get(span.kind, UNKNOWN)


def _fact(value: Any) -> Attribute | None:
    """A fact as an attribute; objects become JSON text."""
    if isinstance(value, bool | float) or (isinstance(value, int) and -_INT64 <= value < _INT64):
        return value
    if isinstance(value, str):
        return _short(value)
    if value is None or value == [] or value == {}:
        return None
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(_short(each) for each in value[:_MAX_LISTED])
    return _short(_as_text(value))


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError):
        return str(type(value).__name__)


def _short(text: str) -> str:
    return _masked_text(text, _MAX_FACT)


def _masked_text(text: str, most: int = _MAX_CONTENT) -> str:
    """The text with masked keys and tokens, cut off, and without single surrogates."""
    shown = masked(text, most)
    return shown if shown.isascii() else shown.encode("utf-8", "replace").decode()
