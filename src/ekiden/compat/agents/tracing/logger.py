"""The logger of the SDK's tracing."""

import logging

logger = logging.getLogger("openai.agents.tracing")
