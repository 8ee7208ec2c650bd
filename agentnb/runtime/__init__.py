"""Services underlying every orchestrator (an agent's loop, a workflow): lifecycle, model calls, tool calls, budgets,
threads.
"""
