"""Custom detectors: functions of the run so far, marked with `detector`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar, get_args, overload

from agentnb.core.log.events import AnyEvent, CallEnd, RoundFinished
from agentnb.core.log.work_events import FindingMade, Severity
from agentnb.core.run.facts import RunFacts
from agentnb.detect.detector import Finding, finding_of
from agentnb.errors import SettingsError

F = TypeVar("F", bound=Callable[..., Any])


Ask = Callable[..., Awaitable[str]]
"""Asks a model: ``await ask(text)`` or ``await ask(text, system="...")`` returns its answer."""


class FunctionDetector:
    """A `DetectorMaker` for a function that is called after each finished round, or each finished call of a step."""

    def __init__(self, function: Callable[..., Any], name: str, family: str, severity: Severity) -> None:
        self.function, self.name, self.family, self.severity = function, name, family, severity
        self.asks_model = inspect.iscoroutinefunction(function)
        """True if async: it may ask a model and runs between live rounds; a replay reads its recorded findings."""
        self.__name__, self.__doc__ = name, function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__

    def __call__(self, run: RunFacts | None = None, *more: Any) -> Any:
        """Return a new detector or, if a run is passed, call the function on it."""
        if run is not None:
            return self.function(run, *more)
        return _Recorded(self.name) if self.asks_model else _OfFunction(self)

    def __repr__(self) -> str:
        return f"<detector {self.name}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by name if the name refers to this maker rather than to its function, as after ``@detector``."""
        module = sys.modules.get(self.__module__)
        can_be_imported = self.__module__ != "__main__" or hasattr(module, "__file__")  # not defined in a notebook
        try:
            importable = attrgetter(self.__qualname__)(module)
        except AttributeError:
            importable = None
        if importable is self and can_be_imported:
            return str(self.__qualname__)
        return FunctionDetector, (self.function, self.name, self.family, self.severity)


class _OfFunction:
    def __init__(self, made_of: FunctionDetector) -> None:
        self._of = made_of
        self.name = made_of.name

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Call the function after a finished round or call of a step."""
        if isinstance(event, RoundFinished):
            return findings_of(self._of.function(run), self._of, run.last_round.index)
        if isinstance(event, CallEnd) and event.step and not event.parent_call:
            return findings_of(self._of.function(run), self._of, len(run.step_calls) - 1)
        return ()


class _Recorded:
    """Reads the recorded findings of a detector that asks a model, without asking again."""

    def __init__(self, rule: str) -> None:
        self._rule = rule

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Return this detector's finding if the event is one."""
        if not isinstance(event, FindingMade) or event.rule != self._rule:
            return ()
        return (finding_of(event),)


def findings_of(returned: Any, made_of: FunctionDetector, index: int) -> list[Finding]:
    """Convert a function's return value (None, a sentence, a `Finding`, or several of these) to findings.

    Raises `SettingsError` for anything else.
    """
    if returned is None or returned is False:
        return []
    if isinstance(returned, str):
        return [Finding(made_of.name, made_of.family, index, index, made_of.severity, returned)] if returned else []
    if isinstance(returned, Finding):
        return [returned]
    if isinstance(returned, Iterable):
        return [finding for item in returned for finding in findings_of(item, made_of, index)]
    raise SettingsError(
        f"The detector {made_of.name} returned {returned!r}", "Return None, a sentence, a Finding, or a list of these"
    )


@overload
def detector(function: Callable[..., Any], /) -> FunctionDetector: ...
@overload
def detector(
    *, name: str = "", family: str = "loop", severity: Severity = "notice"
) -> Callable[[Callable[..., Any]], FunctionDetector]: ...
def detector(
    function: Callable[..., Any] | None = None, /, *, name: str = "", family: str = "loop", severity: Severity = "notice"
) -> FunctionDetector | Callable[[Callable[..., Any]], FunctionDetector]:
    """Make a detector from a function of the run so far, called after each finished round.

    In a workflow's run, it is called after each call of a step (``run.step_calls``); findings are then numbered by call, not by
    round.

    It returns None, a sentence, a `Finding` or several. A sentence is about the round that has just ended, ``run.last_round``.
    ``name``: the rule of its findings, by default the function's name. ``family``: loop, stall, discipline, failure, or a word
    of your own. ``severity``: notice, nudge, block or stop.

    An async function also gets ``ask``: ``await ask(text, system="...")`` returns the answer of the agent's model, logged as a
    model call with the operation "detector". It runs between the rounds of a live run; on a recorded run it returns the
    recorded findings without asking. Raises `SettingsError` for an unknown severity.
    """
    if severity not in get_args(Severity):
        raise SettingsError(f"severity={severity!r} is not one of {', '.join(get_args(Severity))}")

    def make(given: Callable[..., Any]) -> FunctionDetector:
        return FunctionDetector(given, name or given.__name__, family, severity)

    return make if function is None else make(function)
