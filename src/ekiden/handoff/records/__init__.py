"""Handoffs on record: their life, and finding them."""
