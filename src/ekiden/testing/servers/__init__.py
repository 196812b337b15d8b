"""Scripted local servers with the APIs of providers, to test real clients."""
