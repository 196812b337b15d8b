"""Extensions."""

from ekiden.compat.agents.extensions.tool_output_trimmer import ToolOutputTrimmer

__all__ = ["ToolOutputTrimmer"]
