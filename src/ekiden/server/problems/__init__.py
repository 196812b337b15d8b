"""Errors as HTTP responses (`application/problem+json`)."""
