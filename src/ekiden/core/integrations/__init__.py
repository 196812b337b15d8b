"""Loads integrations by name on first use, and defines the contract of agents of other
frameworks."""
