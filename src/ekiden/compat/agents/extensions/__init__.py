"""Extensions."""

from ekiden.compat.agents.extensions.tool_output_trimmer import (
    ToolOutputTrimmer as ToolOutputTrimmer,
)
from ekiden.compat.agents.not_supported import names_of

__all__ = names_of(__name__)
