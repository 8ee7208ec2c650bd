"""A workflow as a graph: nodes, edges, states."""
