"""MCP servers of runs: connections that outlive single runs, and the tools that a run gets from them."""
