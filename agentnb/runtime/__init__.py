"""What an orchestrator (an agent's loop, a workflow) needs to run: lifecycle, model calls, tool calls, budgets, threads."""
