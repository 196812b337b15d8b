"""Runs that the server and the client start: started, followed, read and stopped."""
