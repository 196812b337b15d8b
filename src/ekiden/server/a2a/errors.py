"""Our errors as those of A2A."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from ekiden.core.errors import EkidenError, SessionNotFound, StoreError
from ekiden.core.errors.server import Forbidden, RunNotFound, ServerStopping, TooManyRequests
from ekiden.server.problems import status_of, words_for

_log = logging.getLogger("ekiden.server.a2a")


@contextmanager
def translated() -> Iterator[None]:
    """What is raised inside is an `A2AError` outside, with our code in its data."""
    try:
        yield
    except EkidenError as exc:
        raise a2a_error(exc) from exc
    except A2AError:
        raise
    except Exception as exc:
        _log.exception("an A2A request failed")
        raise InternalError("a mistake in Ekiden; the server's log says more") from exc


def a2a_error(error: EkidenError) -> A2AError:
    """The error of the protocol that fits best."""
    facts, told = {"code": error.code}, words_for(error)
    if isinstance(error, RunNotFound | SessionNotFound):
        return TaskNotFoundError(told, data=facts)
    if isinstance(error, Forbidden | ServerStopping | TooManyRequests):
        return UnsupportedOperationError(told, data=facts)
    if isinstance(error, StoreError) or status_of(error) >= 500:
        return InternalError(told, data=facts)
    return InvalidParamsError(told, data=facts)
