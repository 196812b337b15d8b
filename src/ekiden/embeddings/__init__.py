"""Vectors of texts, computed on this machine."""
