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
RATE_LIMIT_SECONDS = 4.0
"""Seconds before the first retry after a rate limit; each further wait is twice as long."""
RATE_LIMIT_RETRIES = 5
"""Retries after rate limits: the waits come to two minutes."""
TROUBLE_SECONDS = 2.0
"""Seconds before the first retry after another transient error; each further wait is twice as long."""
TROUBLE_RETRIES = 4
"""Retries after other transient errors."""
LONGEST_WAIT = 120.0
"""Seconds of one wait; a call that the provider asks to wait longer fails at once."""
MAX_WAITING = 300.0
"""Seconds of all waits of a call."""
MAX_RETRY_SECONDS = 600.0
"""Seconds after the first attempt in which the last one begins."""
