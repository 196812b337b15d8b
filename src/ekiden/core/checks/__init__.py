"""Checks of user input: fields, names, addresses, schemas."""
