"""Reads docker/cagent files as workflow files: agents with models, toolsets and sub-agents, with or without a workflow."""
