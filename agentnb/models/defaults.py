"""Settings of model calls that users may want to change: limits, retries, sizes."""

from __future__ import annotations

MAX_TOKENS = 32_000
"""Maximum tokens of an Anthropic model's reply, since the API requires a limit. A thinking budget is added, because thinking
counts towards it.
"""
MAX_AT_ONCE = 32
"""Maximum concurrent calls per key and address; a rate limit halves the number."""
LONGEST_CLOSED = 3600.0
"""Maximum seconds that calls with a key are held back, whatever the provider asks for: its limit may have been raised since."""
MAX_TURNS = 10
"""Maximum number of requests for one reply that the provider keeps pausing."""
RATE_LIMIT_SECONDS = 4.0
"""Seconds before the first retry after a rate limit; each further wait is twice as long."""
RATE_LIMIT_RETRIES = 5
"""Retries after rate limits; the waits total two minutes."""
TROUBLE_SECONDS = 2.0
"""Seconds before the first retry after another transient error; each further wait is twice as long."""
TROUBLE_RETRIES = 4
"""Retries after other transient errors."""
LONGEST_WAIT = 120.0
"""Maximum seconds for a single wait; if the provider asks for a longer wait, the call fails at once."""
MAX_WAITING = 300.0
"""Maximum total seconds of a call's waits."""
MAX_RETRY_SECONDS = 600.0
"""Maximum seconds from the first attempt to the start of the last."""
