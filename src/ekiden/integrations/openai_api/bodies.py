"""The request bodies and the errors of OpenAI's format, for every route under `/v1`.

The official client retries after 409, 429 and 5xx. After a failed run, a retry would start a second
run with its own side effects. So the answers of failed runs have `X-Should-Retry: false`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ekiden.api.methods.values import ONE_LINE, SESSION_ID
from ekiden.core.errors import EkidenError, SessionBusy, UnknownAgent
from ekiden.core.values import dumps, loads
from ekiden.server.problems import response_of, status_of, title_of

_log = logging.getLogger("ekiden.server")

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_NOT_SHOWN = frozenset({"body", "query", "path", "str", "constrained-str"})
"""Parts of pydantic's error location that are not names of fields."""


class OpenAIErrorDetail(BaseModel):
    """The details of an error."""

    message: str
    type: str
    param: str | None = Field(default=None, description="The part of the request with the error.")
    code: str | None = Field(
        default=None, description="A stable code. Errors of Ekiden have Ekiden's own codes."
    )


class OpenAIError(BaseModel):
    """An error in the format of OpenAI's API."""

    error: OpenAIErrorDetail


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The value of a route's argument `responses` for these error statuses."""
    return {status: {"model": OpenAIError, "description": title_of(status)} for status in statuses}


EVERYWHERE = errors(400, 401, 403, 409, 413, 429, 500, 503)


class BadRequest(Exception):
    """The request is invalid or not supported."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str = "invalid_value",
        status: int = 400,
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


def unsupported(param: str, advice: str) -> BadRequest:
    """The error for a parameter that cannot be ignored, because it changes the answer."""
    return BadRequest(
        f"{param!r} is not supported here: {advice}", param=param, code="unsupported_parameter"
    )


def error_body(
    message: str, *, status: int, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """The error as JSON."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(
    message: str,
    *,
    status: int,
    code: str | None = None,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """The error as an HTTP response."""
    body = error_body(message, status=status, code=code, param=param)
    return Response(dumps(body), status, headers=headers, media_type="application/json")


def final(headers: dict[str, str] | None = None) -> dict[str, str]:
    """Return the headers, with an additional header that asks clients not to retry."""
    return {**(headers or {}), "X-Should-Retry": "false"}


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's format."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, whose exceptions become error responses."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except BadRequest as exc:
                return error_response(
                    str(exc), status=exc.status, code=exc.code, param=exc.param, headers=final()
                )
            except EkidenError as exc:
                return _ekiden_error(exc)
            except RequestValidationError as exc:
                return _invalid(exc)
            except HTTPException as exc:
                return error_response(str(exc.detail), status=exc.status_code)
            except Exception:
                _log.exception("a request failed: %s %s", request.method, request.url.path)
                message = "an internal error of Ekiden; see the server's log"
                return error_response(message, status=500, code="server.internal", headers=final())

        return handle


def _ekiden_error(exc: EkidenError) -> Response:
    status, param, code = status_of(exc), None, exc.code
    if isinstance(exc, UnknownAgent):
        param, code = "model", "model_not_found"
    problem = response_of(exc)
    message = loads(bytes(problem.body))["detail"]
    kept = ("WWW-Authenticate", "Retry-After")
    headers = {name: problem.headers[name] for name in kept if name in problem.headers}
    if status == 422:
        status = 400
    # A busy session is free soon, so clients may retry; every other conflict stays.
    if status == 409 and not isinstance(exc, SessionBusy):
        headers = final(headers)
    return error_response(message, status=status, code=code, param=param, headers=headers)


def _invalid(exc: RequestValidationError) -> Response:
    first = exc.errors()[0] if exc.errors() else {"loc": (), "msg": "is not as it should be"}
    place = ".".join(str(part) for part in first["loc"] if part not in _NOT_SHOWN)
    message = f"{place or 'the body'}: {str(first['msg'])[:300]}"
    code = "invalid_json" if first.get("type") == "json_invalid" else "invalid_value"
    return error_response(message, status=400, code=code, param=place or None)


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
"""Fields that cannot be ignored. For each field: the harmless values, and advice for all other
values."""

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
    """Raise `BadRequest` for a field that is not supported."""
    for name, (harmless, advice) in refused.items():
        if name in sent and not any(
            sent[name] == value and type(sent[name]) is type(value) for value in harmless
        ):
            raise unsupported(name, advice)


def refuse_form(sent: dict[str, Any]) -> None:
    """Raise `BadRequest` if the field `text` of a response request asks for another format than
    text."""
    text = sent.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    if isinstance(form, dict) and form.get("type", "text") != "text":
        raise unsupported("text.format", _FORM)


def shows(header: str | None) -> frozenset[Literal["handoffs", "tools"]]:
    """The additional parts of the answer that the header `X-Ekiden-Show` asks for."""
    words = {word.strip() for word in (header or "").lower().split(",")}
    parts: tuple[Literal["handoffs", "tools"], ...] = ("handoffs", "tools")
    return frozenset(part for part in parts if part in words)
