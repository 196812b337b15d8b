"""The request bodies. Unknown fields are ignored, unlike in Ekiden's own API: OpenAI clients send
many fields, and each version sends more."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Header
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ekiden.api.methods.values import ONE_LINE, SESSION_ID
from ekiden.integrations.openai_api.errors import unsupported

_TOOLS = "the team's agents use their own tools, on the server; leave it out"
_FORM = "agents answer in the form that their own `output_type` says; leave it out"

CHAT_REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "tools": ((None, []), _TOOLS),
    "functions": ((None, []), _TOOLS),
    "tool_choice": ((None, "none", "auto"), _TOOLS),
    "function_call": ((None, "none", "auto"), _TOOLS),
    "n": ((None, 1), "there is one answer"),
    "logprobs": ((None, False), "probabilities of tokens are not known here"),
    "modalities": ((None, ["text"]), "answers are text"),
    "audio": ((None,), "answers are text"),
    "response_format": ((None, {"type": "text"}), _FORM),
    "web_search_options": ((None,), _TOOLS),
}
"""Fields that cannot be ignored: their harmless values, and advice for all other values."""

RESPONSE_REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "tools": ((None, []), _TOOLS),
    "tool_choice": ((None, "none", "auto"), _TOOLS),
    "prompt": ((None,), "write it into the agents' instructions"),
    "store": (
        (None, True),
        "sessions are always stored, so that they survive a crash; leave it out",
    ),
    "context_management": ((None, []), "leave it out"),
}

IGNORED: frozenset[str] = frozenset(
    {
        "frequency_penalty", "include", "logit_bias", "max_completion_tokens",
        "max_output_tokens", "max_tokens", "max_tool_calls", "min_p", "parallel_tool_calls",
        "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
        "reasoning", "reasoning_effort", "repetition_penalty", "seed", "service_tier", "stop",
        "temperature", "text", "top_k", "top_logprobs", "top_p", "truncation", "verbosity",
    }
)  # fmt: skip
"""Fields without effect, because agents have their own `model_settings`. The header
`X-Ekiden-Ignored` of the answer names them."""

_SESSION = {"type": "string", "maxLength": 128, "pattern": r"^[A-Za-z0-9_\-.:@]*$"}
SessionHeader: TypeAlias = Annotated[
    str | None,
    Header(
        alias="X-Ekiden-Session",
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The id of the session to continue or to start. Default: a new session.",
    ),
]
ShowHeader: TypeAlias = Annotated[
    str | None,
    Header(
        alias="X-Ekiden-Show",
        max_length=100,
        description="Additional parts of the answer: `handoffs`, `tools`, or `handoffs,tools`.",
    ),
]


UserId = Annotated[str, Field(max_length=500, pattern=rf"{ONE_LINE}|^$")]
"""The id of a user. An empty text means no user."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str = Field(
        min_length=1,
        max_length=200,
        description="`ekiden` or the team's name for the team, or an agent's name.",
        examples=["ekiden"],
    )
    stream: bool | None = None
    metadata: dict[str, Any] | None = Field(
        default=None, description="`session_id`: the session to continue or to start."
    )
    user: UserId | None = Field(default=None, description="The user of a new session.")
    safety_identifier: UserId | None = None

    @property
    def user_id(self) -> str | None:
        """The user of a new session."""
        return self.user or self.safety_identifier or None

    def sent(self) -> dict[str, Any]:
        """The fields of the request that this model does not declare."""
        return dict(self.model_extra or {})

    def ignored(self) -> list[str]:
        """The fields of the request that have no effect."""
        sent = {name for name, value in self.sent().items() if value is not None}
        return sorted(sent & IGNORED)


class StreamOptions(BaseModel):
    """Options of the stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = None


class ChatRequest(_Request):
    """The messages of a chat so far."""

    messages: list[dict[str, Any]] = Field(min_length=1, max_length=20_000)
    stream_options: StreamOptions | None = None


class ResponseRequest(_Request):
    """A message for the team, or answers to its questions."""

    input: (
        Annotated[str, Field(min_length=1, max_length=1_000_000)]
        | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20_000)]
    ) = Field(description="A text, or items: messages, and answers to questions.")
    instructions: str | None = Field(
        default=None,
        max_length=200_000,
        description="Additional facts for the agents; they are stored in the session.",
    )
    previous_response_id: str | None = Field(default=None, min_length=1, max_length=200)
    conversation: Annotated[
        str | dict[str, Any] | None,
        WithJsonSchema(
            {
                "anyOf": [
                    _SESSION,
                    {"type": "object", "required": ["id"], "properties": {"id": _SESSION}},
                    {"type": "null"},
                ]
            }
        ),
    ] = Field(default=None, description="The session to continue or to start: `{id}`, or the id.")
    background: bool | None = None


def refuse(sent: dict[str, Any], refused: dict[str, tuple[tuple[Any, ...], str]]) -> None:
    """Raises `BadRequest` for a field that is not supported."""
    for name, (harmless, advice) in refused.items():
        if name in sent and not any(
            sent[name] == value and type(sent[name]) is type(value) for value in harmless
        ):
            raise unsupported(name, advice)


def refuse_form(sent: dict[str, Any]) -> None:
    """Raises `BadRequest` if `text` of a response asks for another format than text."""
    text = sent.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    if isinstance(form, dict) and form.get("type", "text") != "text":
        raise unsupported("text.format", _FORM)


def shows(header: str | None) -> frozenset[Literal["handoffs", "tools"]]:
    """The additional parts of the answer that the header `X-Ekiden-Show` asks for."""
    words = {word.strip() for word in (header or "").lower().split(",")}
    parts: tuple[Literal["handoffs", "tools"], ...] = ("handoffs", "tools")
    return frozenset(part for part in parts if part in words)
