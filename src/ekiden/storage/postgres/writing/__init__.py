"""Writing exactly once, even when the connection breaks."""
