"""Workflows: agents, conditions, loops, parallel blocks and people, declared in YAML and run by a single engine."""
