"""Models of other providers."""
