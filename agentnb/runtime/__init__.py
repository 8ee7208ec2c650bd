"""What any orchestrator needs to run something."""
