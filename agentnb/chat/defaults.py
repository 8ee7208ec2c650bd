"""Default limits of chats that people may want to change."""

from __future__ import annotations

MAX_CHARACTERS = 20_000
"""Maximum characters of the text about an entity in a system prompt; longer text is cut."""
ATTEMPTS = 2
"""Maximum attempts of a planner at a valid plan."""
