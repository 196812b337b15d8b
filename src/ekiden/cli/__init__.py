"""The `ekiden` command."""
