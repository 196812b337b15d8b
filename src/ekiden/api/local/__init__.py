"""Implements the interface on a store in this process."""
