"""Texts about MCP servers: files that name some, and what has changed."""
