"""Numbers of calls to models that a person may want to change: places, retries, sizes."""

from __future__ import annotations

MAX_TOKENS = 32_000
"""Tokens of a reply of an Anthropic model: the API requires a limit. A thinking budget comes on top: thinking counts."""
MAX_AT_ONCE = 32
"""Calls of one key at one address at the same time; a rate limit halves the number."""
LONGEST_CLOSED = 3600.0
"""Seconds that calls of a key are held back at most, whatever the provider asks for: the limit may have been raised."""
MAX_TURNS = 10
"""Requests for one reply that the provider keeps pausing."""
