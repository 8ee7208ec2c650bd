"""Default limits of chats that users may want to change."""

from __future__ import annotations

MAX_CHARACTERS = 20_000
"""Maximum number of characters of text about an entity in a system prompt; longer text is truncated."""
ATTEMPTS = 2
"""Maximum number of attempts by a planner to produce a valid plan."""
