"""The terminal: output, tables, lines about events, and prompts."""
