"""Output of a chat: for a person at a terminal, for a pipe, or for a program."""
