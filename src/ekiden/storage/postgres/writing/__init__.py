"""Writing exactly once, whatever happens to the connection."""
