"""Scripted local servers with the APIs of providers. Use them to test real clients."""
