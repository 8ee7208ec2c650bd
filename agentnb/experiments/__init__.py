"""Experiments: variants of guidance, policy, settings or agents, compared on the same tasks in random order."""
