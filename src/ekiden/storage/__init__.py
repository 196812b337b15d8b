"""Stores of sessions: the interfaces in `base`, and a module for each back end."""
