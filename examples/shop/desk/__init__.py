"""The service desk of a shop."""
