"""Texts as vectors: on this machine, or by a vendor."""
