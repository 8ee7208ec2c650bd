"""Plans as a tool of a chat: made by a model, judged by a reviewer or the person, run as a nested workflow."""
