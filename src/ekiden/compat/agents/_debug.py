"""Switches for logging; Ekiden never logs what a model or a tool said, so they change nothing."""

DONT_LOG_MODEL_DATA = True
DONT_LOG_TOOL_DATA = True
