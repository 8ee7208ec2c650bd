"""``%agent answer``: answers the question that a run asks the person."""

from __future__ import annotations

from agentnb.core.questions import choice_in_words, choices
from agentnb.display.labels import clean, first_line
from agentnb.errors import SettingsError
from agentnb.session.session import Session

DECLINE = "--decline"
MAX_OF_A_QUESTION = 200
"""Characters of a question that are repeated in a message."""


def answered(session: Session, text: str) -> str:
    """Answer the oldest question of the newest waiting run; return a line that says what was done."""
    live = session.waiting_for_answer()
    if not text:
        asked = first_line(clean(live.run.waiting[0].message), MAX_OF_A_QUESTION)
        raise SettingsError(f"There is no answer in the line. It asks: {asked}", f"Write: %agent answer TEXT, or {DECLINE}")
    if text == DECLINE:
        live.decline()
        return f"Run {live.run_id} goes on without an answer"
    live.answer_in_words(text)
    return f"Run {live.run_id} goes on with your answer"


def offered(session: Session) -> list[str]:
    """Return the choices of the open question, if it has any."""
    asked = [question for live in session.running()[::-1] for question in live.run.waiting[:1]]
    return [choice_in_words(choice) for choice in choices(asked[0].schema)] if asked else []
