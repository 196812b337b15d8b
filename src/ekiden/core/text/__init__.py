"""Texts: suggestions, patterns, keywords, and names in files and other programs."""
