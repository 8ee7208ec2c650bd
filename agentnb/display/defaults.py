"""Limits of cards, lists and pages that a person may want to change."""

from __future__ import annotations

MAX_AT_ONCE = 4_000
"""Maximum characters of a result or argument shown at once, beginning and end; a button or a page has more."""
MAX_OF_ALL = 2_000_000
"""Maximum characters of a result or argument on request, and in a page."""
MAX_OF_A_TEXT = 100_000
"""Maximum characters of a prompt, or of a text of the model."""
MAX_OF_THINKING = 40_000
"""Maximum characters of a round's thinking."""
MAX_STEPS = 60
"""Maximum steps listed; beyond it, the first, the last, and those that failed or are open."""
MAX_OF_PICTURES = 4_000_000
"""Maximum bytes of a run's pictures saved in the notebook; beyond it, only the last ones are shown."""
MAX_SAVED_ROUNDS = 400
"""Maximum last rounds of a run in a saved notebook; the first twenty are kept too."""
MAX_ROUND_BYTES = 300_000
"""Maximum bytes of HTML for rounds in a saved notebook, without pictures; earlier rounds become a line each."""
MAX_REQUEST_BYTES = 80_000
"""Maximum bytes of HTML for the requests of the last rounds and the first."""
MAX_OF_A_SENT_RESULT = 300
"""Maximum characters of a tool result in a request; the previous round shows it too."""
MAX_OF_A_SENT_TEXT = 2_000
"""Maximum characters of other conversation text in a request; it is shown elsewhere too."""
MAX_FIGURES = 6
"""Maximum pictures shown above the transcript; the last ones."""
RUNS_IN_A_PAGE = 100
"""Runs per page of the list."""
MAX_TODOS = 40
"""Maximum todos shown of a list."""
