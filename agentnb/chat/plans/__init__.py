"""Plans as a tool of a chat: made by a model, judged by a reviewer, run as a nested workflow."""
