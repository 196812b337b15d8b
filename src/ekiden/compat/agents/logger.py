"""The logger of the SDK's name."""

import logging

__all__ = ["logger"]

logger = logging.getLogger("openai.agents")
