"""Answers that the person gave to tools of a process that died: served again, or told to the model."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.events import AnyEvent, QuestionAsked, ToolAdmitted, ToolStarted
from agentnb.core.questions import AskedQuestion, WaitingOnUser
from agentnb.detect.run import Run


def asked_by_tools(run: Run, events: Iterable[AnyEvent]) -> dict[str, list[AskedQuestion]]:
    """Return what tools asked while they ran, by the id of the call, in order; what gates asked about a call is left out.

    ``events``: those of the open round. What was asked for a call that a tool made itself counts for that tool's call too.
    """
    parents: dict[str, str] = {}
    started: set[str] = set()
    found: dict[str, list[AskedQuestion]] = {}
    current = run.open_round
    asked = {one.question.id: one for one in run.questions_of(current.index)} if current is not None else {}
    for event in events:
        if isinstance(event, ToolAdmitted | ToolStarted):
            parents[event.call.id] = event.parent_call
            if isinstance(event, ToolStarted):
                started.add(event.call.id)
        elif isinstance(event, QuestionAsked) and event.question.id in asked:
            call_id = event.question.call_id
            while call_id:
                if call_id in started:
                    found.setdefault(call_id, []).append(asked[event.question.id])
                call_id = parents.get(call_id, "")
    return found


class EarlierAnswers:
    """The questions of one call in the processes that died, in order, with their answers."""

    def __init__(self, asked: Iterable[AskedQuestion]) -> None:
        self._left: list[AskedQuestion] = []
        for one in asked:
            # What nobody had answered when its process died may have been asked again by the next.
            again = (place for place, other in enumerate(self._left) if not _has_answer(other) and _same(one, other.question))
            place = next(again, len(self._left))
            self._left[place : place + 1] = [one]

    def __bool__(self) -> bool:
        return bool(self._left)

    def next(self, question: WaitingOnUser) -> AskedQuestion | None:
        """Return the answer if this question comes next and had one. Once another is asked, all that follow are asked anew."""
        if not self._left:
            return None
        if not _same(self._left[0], question):
            self._left.clear()
            return None
        asked = self._left.pop(0)
        return asked if _has_answer(asked) else None


def _has_answer(asked: AskedQuestion) -> bool:
    return asked.outcome in ("answered", "declined")


def _same(asked: AskedQuestion, question: WaitingOnUser) -> bool:
    before = asked.question
    return _identity(before) == _identity(question)


def _identity(question: WaitingOnUser) -> tuple[object, ...]:
    return question.kind, question.message, question.schema, question.about
