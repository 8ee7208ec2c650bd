"""Numbers of chats that a person may want to change."""

from __future__ import annotations

MAX_CHARACTERS = 20_000
"""Characters of the text about an entity in a system prompt; the rest is cut."""
ATTEMPTS = 2
"""Attempts of a planner to make a plan that can run."""
