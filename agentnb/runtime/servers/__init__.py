"""MCP servers for runs: connections that outlive individual runs, and the tools that a run gets from them."""
