"""Agents of others, in processes of their own, that speak the Agent Client Protocol: each stands in the loop as a model."""
