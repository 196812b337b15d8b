"""Declares, checks and calls the methods of the interface; their shared types."""
