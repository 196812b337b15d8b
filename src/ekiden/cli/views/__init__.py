"""Output for people: one file for each resource."""
