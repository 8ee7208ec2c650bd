"""Files of docker/cagent, read as workflow files: agents with models, toolsets and sub-agents, with or without a workflow."""
