"""The logger of the SDK's name."""

import logging
import sys

from ekiden.compat.agents.not_supported import placeholders

__all__ = ["enable_verbose_stdout_logging", "logger"]

logger = logging.getLogger("openai.agents")
_handlers: list[logging.Handler] = []


def enable_verbose_stdout_logging() -> None:
    """Print everything that is logged; a second call changes nothing."""
    logger.setLevel(logging.DEBUG)
    if not _handlers:
        _handlers.append(logging.StreamHandler(sys.stdout))
        logger.addHandler(_handlers[0])


__getattr__ = placeholders(__name__)
