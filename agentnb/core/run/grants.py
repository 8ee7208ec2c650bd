"""Grants: the calls that the person has allowed without another question."""

from __future__ import annotations

from agentnb.core.log.events import QuestionAnswered
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.questions import WaitingOnUser
from agentnb.core.run.approvals import given_grant

SINCE = 6
"""The first schema in which such an answer is followed by an event of its own."""


def grant_in_answer(question: WaitingOnUser, event: QuestionAnswered) -> GrantGiven | None:
    """Return the grant that an answer gives in a log from before there were grants; None if it gives none."""
    given = None if event.declined or event.cancelled or event.withdrawn else given_grant(question, event.answer)
    if given is None:
        return None
    return GrantGiven(
        event.seq,
        event.at,
        event.run_id,
        event.parent_id,
        grant_id=question.id,
        tool=given.rule,
        by=event.by,
        question_id=question.id,
    )
