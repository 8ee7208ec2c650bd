"""The questions that the log of a run has as open, and the answers that were given to them when it was resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.events import Event, QuestionAnswered
from agentnb.core.grants import allows_all
from agentnb.core.questions import Answer
from agentnb.core.work_events import GrantGiven
from agentnb.errors import StoreError
from agentnb.runtime.event_log import EventLog


class LoggedQuestions:
    """The questions of one run in its log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._given: dict[str, Answer] = {}
        """Answers to questions that a suspended run asked, by id."""
        self._failure: StoreError | None = None

    def check(self) -> None:
        """Raise the `StoreError` of a question that could not be logged: the tool that asked may have caught it."""
        if self._failure is not None:
            raise self._failure

    def is_open(self, question_id: str) -> bool:
        """Return whether the log has this question as open."""
        return any(question.id == question_id for question in self._log.run.waiting)

    def give(self, answers: Mapping[str, Any]) -> None:
        """Take the answers to questions that the run asked before it was suspended, or its process died."""
        self._given = {question_id: Answer(question_id, value) for question_id, value in answers.items()}

    @property
    def given(self) -> Mapping[str, Any]:
        """The answers to questions of a suspended run that nothing has taken yet, by the ids of the questions."""
        return {question_id: answer.value for question_id, answer in self._given.items()}

    def has_answer(self, question_id: str) -> bool:
        """Return whether the answer was given when the run was resumed."""
        return question_id in self._given

    def log_answer(self, question_id: str, **fields: Any) -> None:
        """Log the answer to an open question, and the grant that it gives if it allows all calls of a tool."""
        question = next((one for one in self._log.run.waiting if one.id == question_id), None)
        self._emit(QuestionAnswered, question_id=question_id, **fields)
        if question is not None and question.about is not None and allows_all(question, fields.get("answer")):
            grant = {"grant_id": question_id, "tool": question.about.tool, "by": fields.get("by", "person")}
            self._emit(GrantGiven, question_id=question_id, **grant)

    def _emit(self, kind: type[Event], **fields: Any) -> None:
        try:
            self._log.emit(kind, **fields)
        except StoreError as error:
            self._failure = error
            raise
