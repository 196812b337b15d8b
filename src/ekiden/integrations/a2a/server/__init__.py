"""The team and its agents as A2A agents."""
