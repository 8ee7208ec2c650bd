"""Limits for cards, lists and pages that a person may want to change."""

from __future__ import annotations

MAX_AT_ONCE = 4_000
"""Maximum characters of a result or argument shown at once, split between beginning and end. A button or a page shows more."""
MAX_OF_ALL = 2_000_000
"""Maximum characters of a result or argument when all of it is requested, and in a page."""
MAX_OF_A_TEXT = 100_000
"""Maximum characters of a prompt, or of text from the model."""
MAX_OF_THINKING = 40_000
"""Maximum characters of a round's thinking."""
MAX_STEPS = 60
"""Maximum steps listed; a longer list shows only the first, the last, and those that failed or are open."""
MAX_OF_PICTURES = 4_000_000
"""Maximum bytes of a run's pictures saved in the notebook; beyond it, only the most recent pictures are shown."""
MAX_SAVED_ROUNDS = 400
"""Maximum number of recent rounds of a run in a saved notebook, in addition to the first twenty."""
MAX_ROUND_BYTES = 300_000
"""Maximum bytes of HTML for the rounds in a saved notebook, excluding pictures; earlier rounds are reduced to a line each."""
MAX_REQUEST_BYTES = 80_000
"""Maximum bytes of HTML for the requests of the most recent rounds and the first round."""
MAX_OF_A_SENT_RESULT = 300
"""Maximum characters of a tool result in a request; the previous round shows the result, too."""
MAX_OF_A_SENT_TEXT = 2_000
"""Maximum characters of any other conversation text in a request; the text is shown elsewhere, too."""
MAX_FIGURES = 6
"""Maximum pictures shown above the transcript, counted from the most recent."""
RUNS_IN_A_PAGE = 100
"""Number of runs per page of the list."""
MAX_TODOS = 40
"""Maximum todos shown of a list."""
