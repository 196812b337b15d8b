"""Small questions about texts: what was meant, how they compare, which patterns can be used."""
