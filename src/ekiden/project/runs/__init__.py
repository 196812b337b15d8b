"""Runs that a door starts for others: begun, watched, read and stopped."""
