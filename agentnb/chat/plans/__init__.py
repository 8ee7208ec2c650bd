"""Plans as a tool in a chat: made by a model, judged by a reviewer or the person, and run as a nested workflow."""
