"""The team as an MCP server: sessions, handoffs and the inbox as tools; needs `ekiden[mcp]`."""
