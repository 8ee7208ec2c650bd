"""Numbers of runs that a person may want to change."""

from __future__ import annotations

MAX_REPLY = 1_000_000
"""Tokens of the longest reply, by estimate: several times what any model can write."""
MARGIN = 2
"""How many times over what was left a reply may go: a reply may exceed a limit, and estimates may be off."""
ROUNDS_BETWEEN = 6
"""Rounds in which the size of the context alone triggers no second compaction, unless there is much to replace."""
SPARE = 1_000
"""Tokens that every reply may have, whatever is left."""
SPARE_OF_AN_END = 16_000
"""Tokens that a reply after a limit may have: a final answer, a summary."""
