"""Agents that do not think with a model of ours: code, people, and agents elsewhere."""
