"""Running a session in front of somebody: here, or at a server."""
