"""Running a session at a terminal: locally, or at a server."""
