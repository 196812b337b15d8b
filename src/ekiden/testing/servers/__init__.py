"""Servers on loopback that speak the wire formats of others, to test real clients."""
