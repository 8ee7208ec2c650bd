"""Services that an orchestrator (an agent's loop, a workflow) runs on: lifecycle, model calls, tool calls, budgets, threads."""
