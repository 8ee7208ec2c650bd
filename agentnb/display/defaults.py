"""Numbers of what cards, lists and pages show, which a person may want to change."""

from __future__ import annotations

MAX_AT_ONCE = 4_000
"""Characters of a result or argument that are shown at once, beginning and end; a button or a page has more."""
MAX_OF_ALL = 2_000_000
"""Characters of a result or argument when all of it is requested, and in a page."""
MAX_OF_A_TEXT = 100_000
"""Characters of a prompt, or of a text of the model."""
MAX_OF_THINKING = 40_000
"""Characters of a round's thinking."""
MAX_STEPS = 60
"""Steps that are listed; of more, the first, the last, and those that failed or are open."""
MAX_OF_PICTURES = 4_000_000
"""Bytes of all pictures of a run, which are saved in the notebook; beyond that, only the last pictures are shown."""
MAX_SAVED_ROUNDS = 400
"""Rounds of a run that a saved notebook holds; of a longer run, the last and the first twenty."""
MAX_ROUND_BYTES = 300_000
"""Bytes of HTML for rounds in a saved notebook, without pictures: the last ones in full, the others a line each."""
MAX_REQUEST_BYTES = 80_000
"""Bytes of HTML for what the model saw, in the last rounds and the first."""
MAX_OF_A_SENT_RESULT = 300
"""Characters of a tool result that a saved notebook shows a second time: the round before shows it too."""
MAX_OF_A_SENT_TEXT = 2_000
"""Characters of other text of the conversation, which is shown elsewhere too."""
MAX_FIGURES = 6
"""Pictures shown above the transcript: the last ones."""
RUNS_IN_A_PAGE = 100
"""Runs in one page of the list."""
MAX_TODOS = 40
"""Todos shown of a list."""
