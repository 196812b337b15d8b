"""Embeddings: texts as vectors, computed on this machine or by a vendor."""
