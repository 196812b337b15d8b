"""Handoffs between agents: their terms, and requests for them."""
