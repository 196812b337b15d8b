"""Functions on texts: suggestions for misspelt names, patterns, keywords, and names."""
