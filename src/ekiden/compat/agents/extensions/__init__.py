"""Filters and prompts for handoffs."""
