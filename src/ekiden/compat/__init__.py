"""Modules with the names of other SDKs; their classes and functions are Ekiden's."""
