"""A workflow as a graph: nodes, edges, their states."""
