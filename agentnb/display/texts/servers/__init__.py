"""Texts about MCP servers: files that configure them, and their changes."""
