"""Connections to MCP servers, each opened, owned and closed by one task."""
