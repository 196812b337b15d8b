"""Questions to agents and to people."""
