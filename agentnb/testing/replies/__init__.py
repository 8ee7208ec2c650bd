"""Replies as each wire writes them, and how they may misbehave."""
