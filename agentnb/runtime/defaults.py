"""Settings of runs that users may want to change."""

from __future__ import annotations

MAX_REPLY = 1_000_000
"""Maximum estimated tokens of a reply: several times as many as any model can write."""
MARGIN = 2
"""Factor by which a reply may exceed the remaining tokens, since replies may overrun a limit and estimates may be off."""
ROUNDS_BETWEEN = 6
"""Minimum number of rounds between two compactions triggered by context size alone, unless much can be replaced."""
SPARE = 1_000
"""Tokens that every reply may have, however few remain."""
SPARE_OF_AN_END = 16_000
"""Tokens that a reply after a limit may have, such as a final answer or a summary."""
