"""Expectations about runs: invariants to check. An error names the round in which each of them broke.

They are in this package rather than a lower one so that ``loops`` counts the same findings as `tables.loops`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, overload

import msgspec

from agentnb.advice import sentences
from agentnb.agent.extension import Extension, logged_extensions
from agentnb.core.expressions import evaluate, names_in, paths_in
from agentnb.core.log.events import RunFinished
from agentnb.core.log.outcome import Assessment
from agentnb.detect.agent_runs import works_in_steps
from agentnb.detect.run import Run
from agentnb.errors import ExpectationFailed, ExpressionError, SettingsError, suggest_names
from agentnb.interchange.files import Runs, RunSource, load_traces
from agentnb.rerun.run_values import NAMES, RunAfterRound, RunValues, UnknownValue, after_each_round, at_the_end, check_names

Expectation: TypeAlias = str | Callable[[Run], Any]
"""An expression over the names in `NAMES`, or a function of a run that returns its verdict."""
EXTENSION = "expect"
"""Name of the extension that logs the expectations of a run's cell."""
EXPLAINED_BY = {"todos_closed": "todos_open", "followed_rate": "guidance_given"}
"""Values to show in addition to one that is unclear on its own."""
MAX_VALUE = 80
"""Maximum characters of a value in a message."""
MAX_RUNS = 10
"""Maximum number of runs described in a message; any more are only counted."""


class Outcome(NamedTuple):
    """Result of an expectation for one run."""

    expectation: str
    holds: bool
    found: str
    """The values that were read, such as ``loops is 2``, or the reason why a value is missing."""
    round: int | None = None
    """Round, counted from 1, that broke the expectation for good, or None if it holds or never held."""
    at_end: bool = False
    """True if the value exists only once the run has ended."""
    has_value: bool = True
    """True if this run has a value; if not, `found` has the reason."""

    @property
    def sentence(self) -> str:
        """A sentence with the expectation, its values, and the round that broke it."""
        if self.holds:
            return f"{self.expectation} ({self.found})" if self.found else self.expectation
        where = ", and it never held" if self.has_value and not self.at_end else ""
        if self.round is not None:
            where = f", at the end, after round {self.round}" if self.at_end else f", broken in round {self.round}"
        return f"{self.expectation}: {self.found}{where}"


@overload
def expect(source: Run, *expectations: Expectation) -> Run: ...
@overload
def expect(source: RunSource, *expectations: Expectation) -> Run | Runs: ...
def expect(source: RunSource, *expectations: Expectation) -> Run | Runs:
    """Check expectations and return the run. Raises `ExpectationFailed` with every failed expectation and its round.

    ``source``: a run, live or loaded, of any product; or several, in any form that `load_traces` accepts, which are
    returned as a list. An expectation is an expression such as ``"loops == 0"`` over the names in docs/expect.md, or
    a function of the run. An unknown value, such as the cost of a model without a price, fails the expectation.
    Unknown names raise `ExpressionError`.
    """
    __tracebackhide__ = True  # pytest and IPython show the calling line, not ours
    check_expectations(expectations)
    runs = Runs([source]) if isinstance(source, Run) else load_traces(source)
    if not runs:
        raise SettingsError("There are no runs to check", "Give one or more runs, or a path to runs")
    failed = {}
    for run in runs:
        wrong = tuple([outcome for outcome in outcomes_of(run, expectations) if not outcome.holds])
        if wrong:
            failed[run.id] = (run, wrong)
    if failed:
        raise _failure(failed, len(runs))
    return source if isinstance(source, Run) else runs


def check_expectations(expectations: Sequence[Expectation]) -> None:
    """Raise `SettingsError` for invalid expectations: unknown names, syntax errors, or an empty list."""
    if not expectations:
        raise SettingsError("expect() needs an expectation", 'Write expect(run, "loops == 0", "todos_closed")')
    for expectation in expectations:
        if isinstance(expectation, str):
            check_names(expectation, names_in(expectation))
        elif not callable(expectation):
            raise SettingsError(
                f"{expectation!r} is neither an expression nor a function", 'Write a string, such as "loops == 0"'
            )


def check_steps(expectations: Iterable[str], known: Collection[str]) -> None:
    """Raise `ExpressionError` for an unknown step. ``known``: the step paths of the workflow.

    For a path that exists only at run time, such as the map item in ``steps["each/2"]``, the enclosing step must be
    known.
    """
    for expression in expectations:
        for name in _steps_in(expression):
            parts = name.split("/")
            if not any("/".join(parts[:end]) in known for end in range(1, len(parts) + 1)):
                raise ExpressionError(f"{expression.strip()}: the workflow has no step {name}", suggest_names(name, known))


def _steps_in(expression: str) -> Iterator[str]:
    """Yield the step ids named in an expression."""
    for path in paths_in(expression):
        for node in ast.walk(ast.parse(path, mode="eval")):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "steps":
                yield node.attr
            elif (
                isinstance(node, ast.Subscript) and ast.unparse(node.value) == "steps" and isinstance(node.slice, ast.Constant)
            ):
                yield str(node.slice.value)


def outcomes_of(run: Run, expectations: Iterable[Expectation]) -> tuple[Outcome, ...]:
    """Check expectations of a run in its current state. Rounds are replayed once, and only if an expectation fails."""
    whole = at_the_end(run)
    checks = [(expectation, _check(expectation, whole)) for expectation in expectations]
    failing = [expectation for expectation, check in checks if not check.holds]
    broken = dict(zip(map(id, failing), _rounds_that_broke(run, failing), strict=True))
    return tuple(
        [
            Outcome(_text(expectation), check.holds, check.found, *broken.get(id(expectation), (None, False)), check.has_value)
            for expectation, check in checks
        ]
    )


class _Check(NamedTuple):
    """Result of evaluating an expectation once."""

    holds: bool
    found: str
    has_value: bool = True


def _check(expectation: Expectation, at: RunAfterRound) -> _Check:
    """Evaluate an expectation after this round."""
    if not isinstance(expectation, str):
        return _check_function(expectation, at.run)
    values = RunValues(at)
    try:
        value = evaluate(expectation, values)
    except UnknownValue as unknown:
        return _Check(False, unknown.what, has_value=False)
    except ExpressionError as error:
        return _Check(False, sentences(error.why or error.what, error.hint), has_value=False)
    if not isinstance(value, bool):
        return _Check(
            False, f"its value is {_format(value)}, neither true nor false. Compare the value with something", has_value=False
        )
    return _Check(value, ", ".join([text for path in _read(expectation) if (text := _describe(path, values))]))


def _read(expression: str) -> list[str]:
    """Return the paths whose values explain the expression."""
    return [name for path in paths_in(expression) for name in (path, EXPLAINED_BY.get(path, "")) if name]


def _check_function(function: Callable[[Run], Any], run: Run) -> _Check:
    try:
        value = function(run)
    except Exception as error:  # also AssertionError, from the person's own check
        return _Check(False, f"it raised {type(error).__name__}: {error}".partition("\n")[0][:300], has_value=False)
    if value is None:
        return _Check(False, "it returned None. Return True or False", has_value=False)
    return _Check(bool(value), f"it returned {_format(value)}")


def _rounds_that_broke(run: Run, failing: Sequence[Expectation]) -> list[tuple[int | None, bool]]:
    """Return, for each expectation, the round (from 1) that broke it for good, and whether only the ended run has the value."""
    at_end = [
        works_in_steps(run) or (isinstance(expectation, str) and _waits_for_the_end(expectation)) for expectation in failing
    ]
    last_held = [-1] * len(failing)
    if not all(at_end):
        for at in after_each_round(run):
            for index, expectation in enumerate(failing):
                if not at_end[index] and _holds(expectation, at):
                    last_held[index] = at.rounds
    count = len(run.rounds)
    broke = [count if ends else held + 1 if held >= 0 else None for ends, held in zip(at_end, last_held, strict=True)]
    return [(round_number or None, ends) for round_number, ends in zip(broke, at_end, strict=True)]


def _waits_for_the_end(expression: str) -> bool:
    """True if the expression has no value before the run has ended, or if it comes from a log and cannot be read."""
    try:
        return any(name not in NAMES or NAMES[name].at_end for name in names_in(expression))
    except ExpressionError:
        return True


def _holds(expectation: Expectation, at: RunAfterRound) -> bool:
    """True if the expectation holds after this round; gives no explanation, because it is evaluated after every round."""
    if not isinstance(expectation, str):
        return _check_function(expectation, at.run).holds
    try:
        return evaluate(expectation, RunValues(at)) is True
    except ExpressionError:
        return False


def _describe(path: str, values: RunValues) -> str:
    try:
        return f"{path} is {_format(evaluate(path, values))}"
    except ExpressionError:  # a part that was not evaluated
        return ""


def _format(value: Any) -> str:
    text = repr(value) if isinstance(value, float) else msgspec.json.encode(value, enc_hook=repr).decode()
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."


def _text(expectation: Expectation) -> str:
    """Return the expectation as written: for a function its name, for a lambda its source."""
    if isinstance(expectation, str):
        return expectation.strip()
    name = getattr(expectation, "__name__", type(expectation).__name__)
    if name != "<lambda>":
        return str(name)
    try:
        line = inspect.getsource(expectation)
    except (OSError, TypeError):
        return "lambda run: ..."
    line = line[line.find("lambda") :].partition("\n")[0]
    ends = range(min(len(line), MAX_VALUE), len("lambda"), -1)
    return next((line[:end] for end in ends if _is_lambda(line[:end])), "lambda run: ...").strip()


def _is_lambda(text: str) -> bool:
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.Lambda)
    except (SyntaxError, ValueError):
        return False


def _failure(failed: Mapping[str, tuple[Run, tuple[Outcome, ...]]], count: int, variable: str = "run") -> ExpectationFailed:
    runs = [*failed.values()]
    lines = []
    for run, wrong in runs[:MAX_RUNS]:
        lines += [f"Run {run.id} is not as expected:", *[f"  {outcome.sentence}" for outcome in wrong]]
    if len(runs) > MAX_RUNS:
        lines.append(f"and {len(runs) - MAX_RUNS:,} more runs: see .failed for all")
    head = [f"{len(runs):,} of {count:,} runs are not as expected"] if count > 1 else []
    first, wrong = runs[0]
    round_number = min((outcome.round for outcome in wrong if outcome.round is not None), default=None)
    table = "steps" if works_in_steps(first) else "rounds"
    hint = (
        f"See round {round_number}: {variable}.rounds[{round_number - 1}]"
        if round_number
        else f"See the {table}: tables.{table}({variable})"
    )
    if count > 1:
        hint = "See the runs: tables.runs(runs)"
    error = ExpectationFailed("\n".join([*head, *lines]), hint, run=first)
    error.failed = MappingProxyType({run_id: wrong for run_id, (_, wrong) in failed.items()})
    return error


def expectations_extension(texts: Sequence[str]) -> Extension:
    """Return an extension that logs these expectations with a run. Raises `SettingsError` for invalid ones."""
    check_expectations(texts)
    return Extension(name=EXTENSION, settings={"texts": [*texts]})


def logged_outcomes(run: Run) -> tuple[Outcome, ...]:
    """Return the outcomes of the expectations in a run's log; empty before the run has ended, or if the log has no
    expectations.
    """
    return () if run.should_continue else outcomes_of(run, _logged_expectations(run))


def _logged_expectations(run: Run) -> list[Expectation]:
    kept = logged_extensions(run).get(EXTENSION, {}).get("settings")
    texts = kept.get("texts") if isinstance(kept, dict) else None
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []


def expected_outcome(run: Run, end: RunFinished) -> tuple[Assessment, ...]:
    """Assess a run that ends in this way: all expectations in its log must hold."""
    texts = _logged_expectations(run)
    if not texts:
        return ()
    outcomes = outcomes_of(Run.from_events([*run.events, end]), texts)
    wrong = [outcome.expectation for outcome in outcomes if not outcome.holds]
    names = wrong or [outcome.expectation for outcome in outcomes]
    return (Assessment("failed" if wrong else "passed", "expectation", ", ".join(names)),)


def check_logged(run: Run, variable: str = "run") -> None:
    """Raise `ExpectationFailed` if the ended run breaks the expectations in its log. ``variable``: name of the
    variable that holds the run.
    """
    wrong = tuple([outcome for outcome in logged_outcomes(run) if not outcome.holds])
    if wrong:
        raise _failure({run.id: (run, wrong)}, 1, variable)
