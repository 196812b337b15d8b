"""Live streams of runs and sessions, as server-sent events and WebSockets."""
