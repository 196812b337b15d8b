"""Code that is found by name and loaded on first use, and agents of other frameworks."""
