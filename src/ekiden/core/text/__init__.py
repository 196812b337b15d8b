"""Texts: suggestions for misspelt names, comparison, patterns."""
