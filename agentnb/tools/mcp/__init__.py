"""Tools of MCP servers: their settings, connections, tools and results."""
