"""Guardrails at the joints of a run: inputs, tools, handoffs and answers."""
