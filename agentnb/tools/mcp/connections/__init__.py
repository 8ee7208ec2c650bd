"""Connections to MCP servers: begun, owned and ended by one task each."""
