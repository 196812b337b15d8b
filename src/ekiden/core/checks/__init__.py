"""Checks of what people write: fields, names, addresses, schemas."""
