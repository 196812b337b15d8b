"""Routing: which agent takes a request."""
