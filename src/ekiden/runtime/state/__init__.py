"""A run in memory and in the store: its parts, the records of a step, and the commit."""
