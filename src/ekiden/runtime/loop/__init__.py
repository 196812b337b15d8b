"""`advance`, and what it takes to begin with a session and to wait for others."""
