"""MCP servers: settings, connections, tools and results."""
