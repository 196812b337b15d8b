"""Guardrails of a run, for inputs, tools, handoffs and answers."""
