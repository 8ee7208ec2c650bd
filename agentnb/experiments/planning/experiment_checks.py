"""Checks of an experiment: they decide whether a run did its task. Each returns true, false, a number, or None for unknown."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any, TypeAlias

from agentnb.core.expressions import names_in
from agentnb.core.todos import open_todos
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, suggest_names
from agentnb.experiments.planning.columns import COLUMNS
from agentnb.experiments.planning.content_hash import content_hash, source_of
from agentnb.experiments.planning.judge_verdicts import AskedCheck
from agentnb.rerun.expect import check_expectations, outcomes_of
from agentnb.store.check_values import CUT_SHORT, Value, settle_value
from agentnb.tables.loops_table import find_loops

CheckFunction: TypeAlias = Callable[..., Any]
"""A function of the run, or of the run and the task's row."""


def passed(run: Run) -> bool | None:
    """Return whether the outcome of the run is passed, or None if unknown."""
    return None if run.outcome == "unknown" else run.outcome == "passed"


def score(run: Run) -> float | None:
    """Return the score of the run, such as a reward, or None if it has none."""
    return run.score


def answered(run: Run) -> bool:
    """True if the run completed with a text, whatever the text says."""
    is_over = run.status == "completed" or (run.status == "unknown" and run.is_answered)
    return is_over and bool(run.text.strip())


def todos_closed(run: Run) -> bool:
    """True if no todo is open."""
    return not open_todos(run.todos)


def no_loops(run: Run) -> bool:
    """True if no loop was found, as defined by `tables.loops`."""
    return not [*find_loops(run)]


@dataclass(frozen=True, slots=True)
class within:  # noqa: N801  # written like the other checks: checks=[within(cost=0.05)]
    """Checks that a run stays within maximum dollars, rounds and seconds. If the cost or time is unknown, so is the result."""

    cost: float | None = None
    rounds: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.cost is None and self.rounds is None and self.seconds is None:
            raise SettingsError("within() needs a limit", "Write within(cost=0.05, rounds=8)")

    @property
    def __name__(self) -> str:
        limits = {"cost": self.cost, "rounds": self.rounds, "seconds": self.seconds}
        return "within " + ", ".join(f"{name} {value:g}" for name, value in limits.items() if value is not None)

    def __call__(self, run: Run) -> bool | None:
        """Return whether the run stayed within all limits, or None if unknown."""
        kept = [
            None if value is None else value <= limit
            for value, limit in ((run.cost, self.cost), (len(run.rounds), self.rounds), (run.seconds, self.seconds))
            if limit is not None
        ]
        return False if False in kept else None if None in kept else True


SHIPPED: dict[str, CheckFunction] = {check.__name__: check for check in (passed, score, answered, todos_closed, no_loops)}
"""Checks that can be given by name, as text."""
MEASURES = ("cost", "rounds", "seconds", "tokens")
"""Columns that can be the primary measure although no check returns them. Lower is better."""


OF_RESULT = frozenset({"text", "output", "steps", "todos", "todos_open", "todos_closed"})
"""Names in expectations that refer to the result of a run; all other names refer to its activity."""
RAISED = (Exception, SystemExit, CancelledError)
"""Exceptions that a user's check may raise: all except an interrupt."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check and its name."""

    name: str
    function: CheckFunction
    takes_row: bool
    content: str

    @property
    def is_shipped(self) -> bool:
        """True if it is agentnb's own check, which returns quickly."""
        return SHIPPED.get(self.name) is self.function or isinstance(self.function, within | Expected)

    @property
    def is_asked(self) -> bool:
        """True if it asks a model. That costs money, so the check runs only once, in the process of the experiment."""
        return isinstance(self.function, AskedCheck)

    @property
    def is_binary(self) -> bool:
        """True for built-in checks, expectations, and functions annotated ``-> bool``."""
        if self.function is score:
            return False
        hint = getattr(self.function, "__annotations__", {}).get("return")
        says_so = hint is bool or str(hint).partition(" ")[0] == "bool"
        return says_so or self.name in SHIPPED or isinstance(self.function, within | Expected | AskedCheck)

    @property
    def is_of_record(self) -> bool:
        """True if it depends on the run's activity rather than its result: `no_loops`, `within`, and most expectations."""
        if isinstance(self.function, Expected):
            return OF_RESULT.isdisjoint(names_in(self.function.text))
        return self.function is no_loops or isinstance(self.function, within)

    def settle(self, run: Run, value: Value, status: str) -> Value:
        """Return the value that counts for a run with this status. Recorded outcomes count whatever the status."""
        has_outcome = self.function in (passed, score) and run.assessment is not None
        if has_outcome or (status in CUT_SHORT and self.is_of_record):
            return value
        return settle_value(False if value is None and self.is_binary and status in CUT_SHORT else value, status)


@dataclass(frozen=True, slots=True)
class Expected:
    """A check that an expectation holds."""

    text: str

    def __call__(self, run: Run) -> bool | None:
        """Return whether the expectation holds, or None if it has no value for this run."""
        (outcome,) = outcomes_of(run, [self.text])
        return outcome.holds if outcome.has_value else None


def read_checks(checks: Any, primary: Any, problems: list[str]) -> tuple[tuple[Check, ...], str]:
    """Return the checks, including the primary, and the primary's name; problems are appended."""
    if isinstance(checks, str) or callable(checks):
        checks = (checks,)
    if not isinstance(checks, Iterable):
        problems.append(f"checks={checks!r} is not a list of checks")
        checks = ()
    read: dict[str, Check] = {}
    for item in checks:
        check = _check(item, problems)
        if check is not None and read.setdefault(check.name, check) != check:
            problems.append(f"Two checks are named {check.name}. Rename one of them")
    if isinstance(primary, str) and (primary in read or primary in MEASURES):
        return tuple(read.values()), primary
    if isinstance(primary, str) and primary not in SHIPPED and primary.isidentifier():
        names = [*read, *SHIPPED, *MEASURES]
        problems.append(str(SettingsError(f"There is no check {primary!r} for the primary", suggest_names(primary, names))))
        return tuple(read.values()), primary
    check = _check(primary, problems)
    if check is None:
        return tuple(read.values()), str(primary)
    if read.setdefault(check.name, check) != check:
        problems.append(f"The primary and a check are both named {check.name}. Rename one of them")
    return tuple(read.values()), check.name


def value_of(check: Check, run: Run, row: Mapping[str, Any]) -> Value:
    """Return the check's value for a run. Raises what the check raises, and `SettingsError` if the value is unusable."""
    value = check.function(run, row) if check.takes_row else check.function(run)
    if value is None or isinstance(value, bool):
        return value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if isinf(value):
            raise SettingsError(f"{check.name} returned {value}", "Return a finite number, or None for unknown")
        return None if isnan(value) else float(value)
    raise SettingsError(f"{check.name} returned {value!r}", "Return True, False, a number, or None for unknown")


def values_of(checks: Iterable[Check], run: Run, row: Mapping[str, Any]) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the checks' values for a run, and the errors that checks raised; the values of those checks are unknown."""
    values: dict[str, Value] = {}
    errors: dict[str, str] = {}
    for check in checks:
        try:
            values[check.name] = value_of(check, run, row)
        except RAISED as error:
            values[check.name] = None
            errors[check.name] = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
    return values, errors


def _check(definition: Any, problems: list[str]) -> Check | None:
    if isinstance(definition, Check):
        return definition
    if isinstance(definition, str):
        if definition in SHIPPED:
            return Check(definition, SHIPPED[definition], takes_row=False, content=definition)
        try:
            check_expectations([definition])
        except AgentnbError as error:
            problems.append(str(error))
            return None
        return Check(definition.strip(), Expected(definition.strip()), takes_row=False, content=definition.strip())
    return _of_function(definition, problems)


def _of_function(function: Any, problems: list[str]) -> Check | None:
    name = str(getattr(function, "__name__", type(function).__name__))
    problem = ""
    if not callable(function):
        problem = f"{function!r} is neither a check nor an expectation. Give a function of the run, or a string"
    elif name in COLUMNS:
        problem = f"The check {name} has the same name as a column. Rename it"
    elif inspect.iscoroutinefunction(function):
        problem = f"The check {name} is async. A check is a plain function of the run"
    if problem:
        problems.append(problem)
        return None
    if isinstance(function, AskedCheck):
        return Check(name, function, takes_row=False, content=function.content)
    settings = repr(function) if isinstance(function, within) else ""
    return Check(name, function, _takes_row(function), content_hash(name, source_of(function), settings))


def _takes_row(function: CheckFunction) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    return len(positional) > 1
