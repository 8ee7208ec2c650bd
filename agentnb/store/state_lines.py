"""Log lines that determine the state and outcome of a run whose log has no totals."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import msgspec

from agentnb.core.log.outcome import Assessment, deciding_assessment
from agentnb.core.run.rounds import STATES_OF_ERRORS
from agentnb.core.todos import Todo

SUSPENDED = b'{"kind":"run_suspended"'
"""Prefix of the last line of a run that waits for an answer while no process runs it."""
RECOVERED = b'{"kind":"run_recovered"'
_LIMIT, _TODOS, _OUTCOME = b'{"kind":"limit_reached"', b'{"kind":"todos_changed"', b'{"kind":"outcome_given"'
_QUESTION, _COMMAND = b'{"kind":"question_', b'{"kind":"command_received"'
_ASKED, _ANSWERED = b'{"kind":"question_asked"', b'{"kind":"question_answered"'
_PAUSE, _RESUME = b'"command":"pause"', b'"command":"resume"'
"""Fields of commands; inside a string, the quotation marks would be escaped."""
_REFUSED = b'"consent":"refused"'
_ENDED = (b'{"kind":"tool_finished"', b'{"kind":"call_blocked"')
_IS_ERROR = b'"is_error":true'
_PLANS = (b'{"kind":"plan_proposed"', b'{"kind":"plan_edited"', b'{"kind":"plan_approved"', b'{"kind":"plan_rejected"')
BEGINNINGS = (_LIMIT, _TODOS, _OUTCOME, _QUESTION, _COMMAND, SUSPENDED, RECOVERED, *_ENDED, *_PLANS)
"""The beginnings of the lines that matter here."""


class _Limit(msgspec.Struct, gc=False):
    """The part of ``limit_reached`` that is needed here."""

    value: float


class _Todos(msgspec.Struct, gc=False):
    """The part of ``todos_changed`` that is needed here."""

    todos: tuple[Todo, ...]


class _Outcome(msgspec.Struct, gc=False):
    """The part of ``outcome_given`` that is needed here."""

    assessment: Assessment


class _Question(msgspec.Struct, gc=False):
    """The part of a question that is needed here."""

    id: str


class _Asked(msgspec.Struct, gc=False):
    """The part of ``question_asked`` that is needed here."""

    question: _Question


class _Answered(msgspec.Struct, gc=False):
    """The part of ``question_answered`` that is needed here."""

    question_id: str


class _Result(msgspec.Struct, gc=False):
    """The part of a call's result that is needed here."""

    is_error: bool = False
    error_code: str | None = None


class _Ended(msgspec.Struct, gc=False):
    """The part of a call's end that is needed here."""

    result: _Result
    parent_call: str = ""


class _Plan(msgspec.Struct, gc=False):
    """The part of a plan's event that is needed here."""

    plan_id: str


_limit, _todos, _outcome = map(msgspec.json.Decoder, (_Limit, _Todos, _Outcome))
_asked, _answered = msgspec.json.Decoder(_Asked), msgspec.json.Decoder(_Answered)
_ended, _plan = msgspec.json.Decoder(_Ended), msgspec.json.Decoder(_Plan)


class StateLines:
    """The state and outcome of a run, computed from these lines."""

    def __init__(self) -> None:
        self.questions: set[str] = set()
        """Ids of open questions."""
        self.limit_value: float | None = None
        self._assessments: dict[tuple[str, str], Assessment] = {}
        self._is_paused = self._is_suspended = False
        self._todos = b""
        self._errors: Counter[str] = Counter()
        """Number of calls that ended with an error, by state."""
        self._plans: dict[str, bool] = {}
        """By plan id: True if the plan was rejected."""

    def take(self, beginning: bytes, line: bytes) -> None:
        """Read the next of these lines; a line that cannot be read changes nothing."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if beginning is _TODOS:
                self._todos = line  # only the last is decoded
            elif beginning is _LIMIT:
                self.limit_value = _limit.decode(line).value
            elif beginning is _OUTCOME:
                assessment = _outcome.decode(line).assessment
                self._assessments[assessment.source, assessment.name] = assessment
            elif beginning is _COMMAND:
                self._is_paused = (self._is_paused or _PAUSE in line) and _RESUME not in line
            elif beginning is _QUESTION:
                self._take_question(line)
            elif beginning in _ENDED:
                self._take_result(line)
            elif beginning in _PLANS:
                self._plans[_plan.decode(line).plan_id] = beginning is _PLANS[-1]
            else:
                self._take_process(beginning, line)

    def _take_question(self, line: bytes) -> None:
        if line.startswith(_ASKED):
            self.questions.add(_asked.decode(line).question.id)
        elif line.startswith(_ANSWERED):
            self.questions.discard(_answered.decode(line).question_id)

    def _take_result(self, line: bytes) -> None:
        """Count a call that failed or was refused, as the fold does: calls made by a tool are not counted as the run's."""
        if _IS_ERROR in line and not (call := _ended.decode(line)).parent_call:
            self._errors[STATES_OF_ERRORS.get(call.result.error_code or "", "failed")] += 1

    def _take_process(self, beginning: bytes, line: bytes) -> None:
        """Note that a process left or resumed the run; questions stay open only if it was suspended."""
        if beginning is RECOVERED:
            if not self._is_suspended or _REFUSED in line:
                self.questions.clear()
            self._is_paused = False
        self._is_suspended = beginning is SUSPENDED

    @property
    def failed_calls(self) -> int:
        """Number of calls that failed."""
        return self._errors["failed"]

    @property
    def blocked_calls(self) -> int:
        """Number of calls that a gate, a limit or the person refused."""
        return self._errors["blocked"]

    @property
    def is_plan_rejected(self) -> bool:
        """True if the last plan was rejected."""
        return bool(self._plans) and next(reversed(self._plans.values()))

    @property
    def waits(self) -> bool:
        """True if a question is open or the run is paused."""
        return bool(self.questions) or self._is_paused

    @property
    def assessment(self) -> Assessment | None:
        """The assessment that determines the outcome."""
        return deciding_assessment(self._assessments.values())

    def todos(self, first: tuple[Todo, ...]) -> tuple[Todo, ...]:
        """Return the last todo list; ``first``: the initial list."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _todos.decode(self._todos).todos if self._todos else first
        return first
