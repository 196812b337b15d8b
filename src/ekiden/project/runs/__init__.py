"""Runs that the server and the client start: begun, watched, read and stopped."""
