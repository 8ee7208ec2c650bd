"""External agents in processes of their own, connected by the Agent Client Protocol (ACP). The loop treats them as models."""
