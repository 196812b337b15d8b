"""The logger of the SDK's tracing."""

import logging

__all__ = ["logger"]

logger = logging.getLogger("openai.agents.tracing")
