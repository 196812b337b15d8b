"""Provider failures in our words: what went wrong, whether to try again, and the way out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
)
from pydantic_ai.exceptions import UserError as LibraryUserError

from ekiden.core.errors import (
    EkidenError,
    ModelBehaviorError,
    ModelError,
    ModelTimeout,
    UserError,
)

_AGAIN = frozenset({408, 409, 425, 429})
_LONGEST = 600
HIDDEN = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Who asked, as failures name it."""

    label: str
    """``provider:model``."""
    where: str
    """Host and port."""
    key_variable: str | None
    """The environment variable that holds the key."""
    timeout_s: float
    secret: str | None = None
    """The key: it must not be in any text. `None` when there is none, or none that is a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailure:
    """One failed attempt."""

    error: EkidenError
    again: bool
    """Whether the same request may succeed later."""
    retry_after: float | None = None
    """How long the provider asked to wait."""


class StreamCut(Exception):
    """The stream ended before the answer was complete."""


def failure_of(exc: Exception, caller: ModelEndpoint) -> AttemptFailure:
    """What `exc`, raised while the provider was asked, means."""
    match exc:
        case EkidenError():
            return AttemptFailure(error=exc, again=False)
        case TimeoutError() | ModelTimeoutError(phase=None | "read" | "write"):
            return _caused(ModelTimeout(caller.label, caller.timeout_s), exc, caller, again=True)
        case ModelHTTPError():
            return _http_failure(exc, caller)
        case ModelConnectionError() | StreamCut():
            text = _tidy(str(exc) or type(exc).__name__, caller)
            lost = ModelError(
                f"the connection to {caller.label} at {caller.where} failed: {text}; check that "
                "the address is right and can be reached"
            )
            return _caused(lost, exc, caller, again=True)
        case LibraryUserError():
            refused = UserError(f"{caller.label}: {_tidy(str(exc), caller)}")
            return _caused(refused, exc, caller, again=False)
        case ModelAPIError() if not _is_unreadable(exc):
            text = _tidy(_said(exc.body) or str(exc), caller)
            return _caused(ModelError(f"{caller.label} failed: {text}"), exc, caller, again=False)
        case _:
            return _caused(_unreadable(exc, caller), exc, caller, again=False)


def _http_failure(exc: ModelHTTPError, caller: ModelEndpoint) -> AttemptFailure:
    status = exc.status_code
    again = (status in _AGAIN or status >= 500) and not isinstance(exc, ModelQuotaExceededError)
    if exc.provider_retry_hint is not None and status not in (401, 403):
        again = exc.provider_retry_hint
    said = _tidy(_said(exc.body) or "no reason given", caller)
    text = f"{caller.label} answered {status}: {said}{_advice(exc, caller)}"
    return _caused(
        ModelError(text, status=status), exc, caller, again=again, retry_after=exc.retry_after
    )


def _advice(exc: ModelHTTPError, caller: ModelEndpoint) -> str:
    status = exc.status_code
    if status in (401, 403):
        where = f"set {caller.key_variable}" if caller.key_variable else "pass api_key="
        return f"; the key is missing, wrong or may not use this model: {where}"
    if status == 404 or isinstance(exc, ModelNotFoundError):
        maybe = f", perhaps {exc.suggested_model_id!r}" if exc.suggested_model_id else ""
        return f"; {caller.where} has no such model or path: check the name and base URL{maybe}"
    if isinstance(exc, ModelQuotaExceededError):
        return "; the account's quota or credit is used up"
    if status == 429 and exc.retry_after is not None:
        return f"; the provider asks to wait {exc.retry_after:g} s"
    return ""


def _unreadable(exc: Exception, caller: ModelEndpoint) -> ModelBehaviorError:
    said = str(exc)
    if isinstance(exc, ValidationError):
        said = f"{exc.error_count()} fields are wrong or missing"
    elif not isinstance(exc, ModelAPIError | UnexpectedModelBehavior):
        said = f"{type(exc).__name__}: {said}"
    return ModelBehaviorError(f"the answer of {caller.label} cannot be read: {_tidy(said, caller)}")


def _is_unreadable(exc: ModelAPIError) -> bool:
    """Whether the provider answered, but not with JSON."""
    undecoded = isinstance(exc.__cause__, json.JSONDecodeError | UnicodeDecodeError)
    return undecoded or exc.message.startswith("Expected a JSON response")


def _caused(
    error: EkidenError,
    cause: Exception,
    caller: ModelEndpoint,
    *,
    again: bool,
    retry_after: float | None = None,
) -> AttemptFailure:
    """The failure with its cause, unless a text in the chain of causes holds the key."""
    error.__cause__ = None if _holds(cause, caller.secret) else cause
    error.__suppress_context__ = True
    return AttemptFailure(error=error, again=again, retry_after=retry_after)


def _holds(exc: BaseException | None, secret: str | None) -> bool:
    while exc is not None and secret:
        if secret in str(exc) or secret in repr(exc):
            return True
        exc = exc.__cause__ or exc.__context__
    return False


def _said(body: object) -> str | None:
    """The message in an error's body, whichever provider's shape it has."""
    found: Any = body
    for _ in range(3):
        if isinstance(found, list) and found:
            found = found[0]
        if not isinstance(found, dict):
            break
        message = found.get("message") or found.get("detail")
        if isinstance(message, str):
            return message
        found = found.get("error")
    return found if isinstance(found, str) and found else None


def _tidy(text: str, caller: ModelEndpoint) -> str:
    """One bounded line without the key."""
    if caller.secret:
        text = text.replace(caller.secret, HIDDEN)
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
