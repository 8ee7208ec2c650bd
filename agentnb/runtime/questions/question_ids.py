"""Ids of questions to the person: ``q1``; in a nested run, prefixed with the path of the awaiting step, ``researcher/q1``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentnb.core.log.event import Event
from agentnb.core.log.events import QuestionAsked

_NUMBERED = re.compile(r"(.*)q(\d{1,9})", re.DOTALL)


class QuestionIds:
    """Question ids of one run. Questions forwarded from nested runs keep their ids, and every id is unique."""

    def __init__(self, prefix: str, logged: Iterable[Event], around: QuestionIds | None = None) -> None:
        """``prefix``: the prefix of all its ids; ``logged``: the events so far; ``around``: the ids of the run that
        awaits this run.
        """
        self.prefix = prefix
        self._around = around
        self._last: dict[str, int] = {}
        """Highest number used so far, by prefix."""
        for event in logged:
            if isinstance(event, QuestionAsked):
                self.note(event.question.id)

    def new(self) -> str:
        """Return an id that is not in the log of this run or of its parent runs."""
        return f"{self.prefix}q{self._last_number(self.prefix) + 1}"

    def note(self, question_id: str) -> None:
        """Note a logged id, so that it is not used again."""
        if match := _NUMBERED.fullmatch(question_id):
            self._last[match[1]] = max(int(match[2]), self._last.get(match[1], 0))

    def is_own(self, question_id: str) -> bool:
        """Return whether this question was asked by the run itself, not by a nested run."""
        match = _NUMBERED.fullmatch(question_id)
        return match is not None and match[1] == self.prefix

    def _last_number(self, prefix: str) -> int:
        around = 0 if self._around is None else self._around._last_number(prefix)
        return max(around, self._last.get(prefix, 0))
