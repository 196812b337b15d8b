"""The logger of the SDK's name."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ekiden.compat.agents.not_supported import placeholders

logger = logging.getLogger("openai.agents")
_handlers: list[logging.Handler] = []


def enable_verbose_stdout_logging() -> None:
    """Print all log messages; a second call changes nothing."""
    logger.setLevel(logging.DEBUG)
    if not _handlers:
        _handlers.append(logging.StreamHandler(sys.stdout))
        logger.addHandler(_handlers[0])


def _hides(*kinds: str) -> bool:
    """Whether the environment forbids to log what models or tools said."""
    return any(os.environ.get(f"OPENAI_AGENTS_DONT_LOG_{kind}_DATA") != "0" for kind in kinds)


def _log(level: int, *kinds: str) -> Callable[..., None]:
    def log(
        target_logger: logging.Logger,
        message: str,
        exc: BaseException,
        *,
        stacklevel: int = 3,
        diagnostic_extra: Callable[[], Mapping[str, object]] | None = None,
    ) -> None:
        """Log a failure; the exception only where what was said may be logged."""
        more: dict[str, Any] = {} if _hides(*kinds) else {"exc_info": exc}
        target_logger.log(level, "%s", message, stacklevel=stacklevel - 1, **more)

    return log


log_model_action_error = _log(logging.ERROR, "MODEL")
log_model_action_warning = _log(logging.WARNING, "MODEL")
log_model_action_debug = _log(logging.DEBUG, "MODEL")
log_tool_action_error = _log(logging.ERROR, "TOOL")
log_tool_action_warning = _log(logging.WARNING, "TOOL")
log_tool_action_debug = _log(logging.DEBUG, "TOOL")
log_model_and_tool_action_error = _log(logging.ERROR, "MODEL", "TOOL")
log_model_and_tool_action_warning = _log(logging.WARNING, "MODEL", "TOOL")
log_model_and_tool_action_debug = _log(logging.DEBUG, "MODEL", "TOOL")

__getattr__ = placeholders(__name__)
