"""Handoffs between agents: their policy, their tool, and requests for them."""
