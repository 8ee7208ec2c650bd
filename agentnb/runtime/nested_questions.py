"""Questions that nested runs leave open: the run of their step waits for them too, and takes their answers for them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from agentnb.core.approvals import answerable_later
from agentnb.core.questions import AskedQuestion
from agentnb.detect.run import Run
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.run_options import RunOptions


def resumed_with(elicitation: Elicitation, log: EventLog, before: Run) -> RunOptions:
    """Return the options with which a nested run is resumed: with the answers to its questions.

    ``elicitation`` and ``log`` are those of the run around it; ``before``: the nested run as its process left it.
    """
    logged = {one.question.id: one.answer for one in log.run.questions if one.outcome == "answered"}
    given = {**logged, **elicitation.given}  # logged: the process died before the nested run had taken it
    answers: dict[str, Any] = {}
    waiting = answerable_later(before)
    for question in waiting:
        if question.id in given:
            answers[question.id] = given[question.id]
            if elicitation.is_open(question.id):
                elicitation.log_answer(question.id, answer=given[question.id])
    return RunOptions(suspend=elicitation.suspends or before.is_suspended or bool(waiting), answers=answers or None)


def share_questions(elicitation: Elicitation, log: EventLog, run: Run, path: str) -> None:
    """Log in the run around it what a nested run waits for, and that it no longer waits for the rest.

    ``path``: that of the step that awaits it. The ids are the same in both logs.
    """
    own = [question for question in log.run.waiting if question.call_id == path]
    asked = {one.question.id: one for one in run.questions}
    for question in own:
        if question.id in asked and asked[question.id].outcome != "open":
            elicitation.log_answer(question.id, **_outcome(asked[question.id]))
    known = {question.id for question in own}
    for question in run.waiting if run.is_suspended else ():
        if question.id not in known:
            elicitation.keep_open(replace(question, call_id=path))


def _outcome(asked: AskedQuestion) -> dict[str, Any]:
    if asked.outcome == "withdrawn":
        return {"withdrawn": True}
    return {"answer": asked.answer, "declined": asked.outcome == "declined", "by": asked.by}
