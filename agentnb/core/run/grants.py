"""Grants: the tools whose calls the person has allowed without another question."""

from __future__ import annotations

from agentnb.core.log.events import QuestionAnswered
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.questions import WaitingOnUser

ALWAYS = "always"
"""The answer to a question of an approval mode that allows all calls of the tool."""
ASKED_BY_MODE = "ask"
"""The rule of questions that an approval mode asks: only they take ``always`` as a grant."""
SINCE = 6
"""The first schema in which such an answer is followed by an event of its own."""


def allows_all(question: WaitingOnUser, answer: object) -> bool:
    """Return whether the answer to a question allows all calls of the tool that it is about."""
    if answer != ALWAYS or question.kind != "approval" or question.about is None:
        return False
    return question.about.rule == ASKED_BY_MODE


def grant_in_answer(question: WaitingOnUser, event: QuestionAnswered) -> GrantGiven | None:
    """Return the grant that an answer gives in a log from before there were grants; None if it gives none."""
    if question.about is None or event.declined or event.withdrawn or not allows_all(question, event.answer):
        return None
    return GrantGiven(
        event.seq,
        event.at,
        event.run_id,
        event.parent_id,
        grant_id=question.id,
        tool=question.about.tool,
        by=event.by,
        question_id=question.id,
    )
