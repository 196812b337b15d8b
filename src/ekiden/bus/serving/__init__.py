"""Agents that this process serves: messages are taken, handled and settled."""
