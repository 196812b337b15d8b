"""The commands, their help pages, and shell completion."""
