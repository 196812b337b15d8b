"""What a request wants of the model: which tools it may use, whether it must, and how it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ekiden.core.errors import UserError
from ekiden.core.model import ModelRequest, ToolSpec
from ekiden.models.local.settings import LocalSettings

ALLOWED_TOOLS = "allowed_tools"
"""In `ModelSettings.extra`: only these of the offered tools may be called.

All tools stay in the prompt, whose evaluation is reused while the allowed ones change.
"""
WRITE_REASON = "write_reason"
"""In `ModelSettings.extra`: let the model write the reason of a choice that it must make."""

_OURS = frozenset({ALLOWED_TOOLS, WRITE_REASON})
_NOT_OVERRIDDEN = frozenset({"messages", "stream", "grammar", "json_schema", "response_format"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the model may do."""

    mode: Literal["answer", "free", "call"]
    """Only answer; call a tool or answer; only call a tool."""
    tools: tuple[ToolSpec, ...] = ()
    """Those that may be called."""
    write_reason: bool = False


def wish_of(request: ModelRequest, label: str) -> Wish:
    """What `request` allows. Raises `UserError` for a tool that is not offered."""
    choice = request.settings.tool_choice or "auto"
    extra = request.settings.extra or {}
    if not request.tools or choice == "none":
        return Wish(mode="answer")
    by_name = {tool.name: tool for tool in request.tools}
    names = list(by_name)
    if ALLOWED_TOOLS in extra:
        names = _allowed(extra[ALLOWED_TOOLS], names, label)
    if choice not in ("auto", "required"):
        if choice not in by_name:
            raise UserError(
                f"tool_choice {choice!r} names no tool that {label} is offered; "
                f"it may be auto, required, none or one of: {', '.join(by_name)}"
            )
        names = [choice]
    return Wish(
        mode="free" if choice == "auto" else "call",
        tools=tuple(by_name[name] for name in names),
        write_reason=bool(extra.get(WRITE_REASON)),
    )


def sampling(request: ModelRequest, settings: LocalSettings) -> dict[str, Any]:
    """How the model is to write, in llama.cpp's words."""
    wanted = request.settings
    body: dict[str, Any] = {
        "cache_prompt": True,
        "stream_options": {"include_usage": True},
        "temperature": settings.temperature if wanted.temperature is None else wanted.temperature,
        "max_tokens": settings.max_tokens if wanted.max_tokens is None else wanted.max_tokens,
    }
    if wanted.top_p is not None:
        body["top_p"] = wanted.top_p
    for name, value in (wanted.extra or {}).items():
        if name in _NOT_OVERRIDDEN:
            raise UserError(f"extra={{{name!r}: …}} cannot be set for a local model")
        if name not in _OURS:
            body[name] = value
    return body


def _allowed(wanted: Any, names: list[str], label: str) -> list[str]:
    if not isinstance(wanted, list | tuple | set | frozenset) or not wanted:
        raise UserError(f"extra={{{ALLOWED_TOOLS!r}: …}} must be a list of names of tools")
    if unknown := [str(each) for each in wanted if each not in names]:
        raise UserError(
            f"{ALLOWED_TOOLS} names {', '.join(unknown)}, which {label} is not offered; "
            f"there are: {', '.join(names)}"
        )
    return [name for name in names if name in wanted]
