"""A run in memory and in the store: its parts, what a step notes of them, and the commit."""
