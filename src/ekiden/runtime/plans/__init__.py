"""A supervisor's turn: a request is split among agents, and their results become one answer."""
