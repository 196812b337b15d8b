"""Chats with a team: in a terminal, or line by line through a pipe."""
