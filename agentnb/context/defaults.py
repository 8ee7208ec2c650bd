"""Default sizes of requests that users may want to change."""

from __future__ import annotations

RESULT_CHARACTERS = 8_192
"""Characters above which a tool result is truncated for the model; the log keeps all of it."""
SHARE = 0.8
"""Share of the model's window above which a conversation is compacted."""
KEEP_RECENT = 10
"""Number of messages at the end of a conversation that compaction keeps."""
MAX_INSTRUCTIONS = 32_000
"""Maximum characters of repository instructions in a system prompt, since every request pays for them."""
HEAD = 3_000
"""Maximum characters shown to the model from the start of a long result; fewer under a low limit."""
TAIL = 1_000
"""Maximum characters shown from the end of a long result."""
