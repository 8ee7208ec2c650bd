"""Workflows: agents, conditions, loops, parallel blocks and questions to people, declared in YAML, run by a single engine."""
