"""The person's run logs on disk."""
