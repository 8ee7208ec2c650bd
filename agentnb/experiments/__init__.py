"""Experiments, which compare variants of guidance, policy, settings or agents on the same tasks, in random order."""
