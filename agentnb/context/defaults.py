"""Default sizes of requests that users may want to change."""

from __future__ import annotations

RESULT_CHARACTERS = 8_192
"""Characters above which a tool result is kept whole in the log and truncated for the model."""
SHARE = 0.8
"""Share of the model's window above which a conversation is compacted."""
KEEP_RECENT = 10
"""Messages at the end of a conversation that compaction keeps."""
MAX_INSTRUCTIONS = 32_000
"""Maximum characters of repository instructions in a system prompt, which each request pays for."""
HEAD = 3_000
"""Maximum characters of the start of a long result for the model; fewer under a low limit."""
TAIL = 1_000
"""Maximum characters of its end."""
