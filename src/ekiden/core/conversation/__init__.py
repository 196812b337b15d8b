"""Conversations: items, messages between agents, model calls and their usage."""
