"""The log of A2A's library: mistakes of callers are told to them, and are none of ours."""

from __future__ import annotations

import logging
from typing import Final

_LOGGERS: Final = (
    "a2a.server.routes.jsonrpc_dispatcher",
    "a2a.server.routes.rest_dispatcher",
    "a2a.compat.v0_3.jsonrpc_adapter",
    "a2a.utils.error_handlers",
)


class OnlyOurMistakes(logging.Filter):
    """Lets through what failed unexpectedly.

    The library logs every request that it refuses, with a stack, and on its lowest level whole
    bodies with what was said in them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether somebody has to look at it."""
        return bool(record.exc_info) and not str(record.msg).startswith("Failed to ")


def keep_quiet() -> None:
    """Put the filter on the library's loggers, once."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, OnlyOurMistakes) for each in logger.filters):
            logger.addFilter(OnlyOurMistakes())
