"""Input of a chat: the prompt with completion and history, or lines of a pipe."""
