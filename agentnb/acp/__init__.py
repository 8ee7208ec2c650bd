"""External agents in their own processes, connected by the Agent Client Protocol (ACP). The loop treats them as models."""
