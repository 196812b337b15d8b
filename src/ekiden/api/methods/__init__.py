"""Declares, checks and calls the methods of the interface, and defines their shared types."""
