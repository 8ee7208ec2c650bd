"""MCP servers of runs: connections that live across runs, and the tools that a run gets from them."""
