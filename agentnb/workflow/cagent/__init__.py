"""Files of docker/cagent as workflow files: agents with models, toolsets and sub-agents, with or without a workflow."""
