"""Who calls, by which name of the server, and what that one may do."""
