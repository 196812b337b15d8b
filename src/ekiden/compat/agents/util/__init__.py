"""Small functions."""
