"""Names that expectations can use, with their values after each round of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec

from agentnb.core.expressions import evaluate, names_in, paths_in
from agentnb.core.log.events import RoundStarted
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.todos import open_todos
from agentnb.detect import presets
from agentnb.detect.run import Run
from agentnb.detect.timelines import Detection, detections
from agentnb.errors import ExpressionError, suggest_names, suggest_similar
from agentnb.tables.columns import count_or_unknown, success_of
from agentnb.tables.loops_table import LOOP, STALL, Row, find_loops

FAMILIES = (LOOP, STALL, "discipline", "failure", "limit", "end")
"""Families of findings that have a count even if there are no findings."""
ANY = "all"
"""Name for the total number of a preset's findings."""
DETECTED = "detected"


class CountsByName(dict[str, int]):
    """Counts by name: 0 for a name that is missing, unless it looks like a misspelling of one that exists."""

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (isinstance(name, str) and not suggest_similar(name, self))

    def __missing__(self, name: str) -> int:
        return 0


class Detected(dict[str, dict[str, int]]):
    """Findings of presets in a run up to some round: by preset, then by family, by rule, and in total."""

    def __init__(self, find: Callable[[str], Iterable[Detection]], rounds: int) -> None:
        super().__init__()
        self._found, self._rounds = find, rounds

    def __contains__(self, name: object) -> bool:
        return name in presets.names()

    def __iter__(self) -> Iterator[str]:
        return iter(presets.names())

    def __missing__(self, name: str) -> dict[str, int]:
        counts = dict.fromkeys((ANY, *FAMILIES, *presets.describe(name).rule_names), 0)
        for detection in self._found(name):
            if detection.made < self._rounds:
                for key in dict.fromkeys((ANY, detection.family, detection.rule)):
                    counts[key] = counts.get(key, 0) + 1
        return counts


class RunAfterRound:
    """State of a run after a round, with counts that are updated from round to round."""

    def __init__(self, run: Run, whole: Run) -> None:
        """``whole``: the complete run, whose findings count from their rounds onwards."""
        self.run = run
        self.detected: Callable[[str], list[Detection]] = cache(partial(detections, whole))
        """Findings of a preset in the complete run."""
        self.rounds = self.tool_calls = self.tool_errors = self.calls_blocked = self.todo_violations = 0
        self.guidance_given = self.guidance_judged = self.guidance_followed = 0
        self.max_consecutive_assistant = 0
        self.round_seconds: float | None = 0.0
        self.calls: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self._consecutive = 0
        self._messages = 0
        self._found_in: dict[int, list[Row]] = defaultdict(list)
        for row in find_loops(whole):
            self._found_in[row.last].append(row)

    def catch_up(self) -> None:
        """Count the rounds and messages that the run has gained."""
        for index in range(self.rounds, len(self.run.rounds)):
            self._count(self.run.rounds[index])
        first = max(self._messages, self.run.inherited)
        for index in range(first, len(self.run.messages)):
            message = self.run.messages[index]
            self._consecutive = self._consecutive + 1 if message.role == "assistant" and not message.calls else 0
            self.max_consecutive_assistant = max(self.max_consecutive_assistant, self._consecutive)
        self._messages = max(first, len(self.run.messages))

    def _count(self, round_: WorkflowRound) -> None:
        self.rounds += 1
        self.tool_calls += len(round_.records)
        for record in round_.records:
            self.calls[record.call.name] += 1
            self.tool_errors += success_of(record) is False
            self.calls_blocked += bool(record.rule)
        self.todo_violations += len(round_.todo_violations)
        self.guidance_given += len(round_.guidance)
        self.guidance_judged += sum(verdict.followed is not None for verdict in round_.followed)
        self.guidance_followed += sum(verdict.followed is True for verdict in round_.followed)
        is_known = self.round_seconds is not None and round_.seconds is not None
        self.round_seconds = self.round_seconds + round_.seconds if is_known else None  # type: ignore[operator]  # both are known
        for row in self._found_in.pop(round_.index, ()):
            self.found[row.family] += 1
            if row.rule != row.family:
                self.found[row.rule] += 1


def at_the_end(run: Run) -> RunAfterRound:
    """Return the run in its current state, with everything counted."""
    whole = RunAfterRound(run, run)
    whole.catch_up()
    return whole


def after_each_round(run: Run) -> Iterator[RunAfterRound]:
    """Yield the run before its first round and after each round except the last; it is the same, growing object each time."""
    growing = RunAfterRound(Run(), run)
    for event in run.events:
        if isinstance(event, RoundStarted) and event.index == len(growing.run.rounds):
            growing.catch_up()
            yield growing
        growing.run.apply(event)


class Name(NamedTuple):
    """A name that expectations can use."""

    meaning: str
    value: Callable[[RunAfterRound], Any]
    unknown: str = ""
    """Reason why a value may be unknown; empty if None is a normal value."""
    at_end: bool = False
    """True if the value exists only once the run has ended."""


NOT_RECORDED = "the trace does not record it"
NO_PRICE = "a model call has no known price"
NO_TOKENS = "the model does not report it"


def _seconds(at: RunAfterRound) -> float | None:
    return at.round_seconds if at.run.should_continue or at.run.status == "interrupted" else at.run.seconds


def _followed_rate(at: RunAfterRound) -> float | None:
    return at.guidance_followed / at.guidance_judged if at.guidance_judged else None


def _todo_violations(at: RunAfterRound) -> int | None:
    return at.todo_violations if at.run.todos else count_or_unknown(at.run, at.todo_violations)


def _steps(at: RunAfterRound) -> Any:
    return msgspec.to_builtins(dict(at.run.step_records), enc_hook=str)


def _output(at: RunAfterRound) -> Any:
    """Return the answer as plain data, even if the run converts it to an instance of a type."""
    return at.run.output if at.run.output_schema is None else Run.from_events(at.run.events).output


NAMES: Mapping[str, Name] = {
    "rounds": Name("rounds, failed ones included", lambda at: at.rounds),
    "tool_calls": Name("tool calls of the model", lambda at: at.tool_calls),
    "tool_errors": Name("tool calls of the model that failed", lambda at: at.tool_errors),
    "calls_blocked": Name(
        "tool calls of the model that a gate blocked", lambda at: count_or_unknown(at.run, at.calls_blocked), NOT_RECORDED
    ),
    "tools": Name("names of the tools that were called, in the order of their first calls", lambda at: [*at.calls]),
    "calls": Name(
        'calls by tool: `calls["web_search"]`, 0 for a tool that was not called',
        lambda at: CountsByName(dict.fromkeys([tool.name for tool in at.run.tools], 0) | at.calls),
    ),
    "loops": Name("findings of the family `loop`, as in `tables.loops`", lambda at: at.found[LOOP]),
    "findings": Name(
        'findings by family and by rule: `findings.stall`, `findings["already_said"]`, 0 for what was not found',
        lambda at: CountsByName(dict.fromkeys(FAMILIES, 0) | at.found),
    ),
    DETECTED: Name(
        "findings of a preset of [detectors](detect.md), whether or not it ran with the run, by family, by rule "
        'and `all`: `detected.default.loop`, `detected.openhands.all`, `detected.qwen["same_tool"]`',
        lambda at: Detected(at.detected, at.rounds),
    ),
    "todos": Name("todos in its list", lambda at: count_or_unknown(at.run, len(at.run.todos)), NOT_RECORDED),
    "todos_open": Name("todos that are not completed, blocked ones included", lambda at: len(open_todos(at.run.todos))),
    "todos_closed": Name("whether no todo is open", lambda at: not open_todos(at.run.todos)),
    "todo_violations": Name(
        "times that work or a completion did not follow the todo list: `breaches` in `tables.runs`",
        _todo_violations,
        NOT_RECORDED,
    ),
    "max_consecutive_assistant": Name(
        "most consecutive text-only messages of the model, without a tool call or a user message between them",
        lambda at: at.max_consecutive_assistant,
    ),
    "guidance_given": Name("times guidance was given", lambda at: count_or_unknown(at.run, at.guidance_given), NOT_RECORDED),
    "guidance_followed": Name(
        "times guidance was followed",
        lambda at: at.guidance_followed if at.guidance_given else count_or_unknown(at.run, 0),
        NOT_RECORDED,
    ),
    "followed_rate": Name(
        "share of the guidance judged that was followed, from 0 to 1",
        _followed_rate,
        "no guidance was given that can be judged",
    ),
    "cost": Name("US dollars of all model calls, with those of nested runs", lambda at: at.run.cost, NO_PRICE),
    "input_tokens": Name("tokens sent, including cached tokens and nested runs", lambda at: at.run.usage.input, NO_TOKENS),
    "output_tokens": Name("tokens received, with reasoning and nested runs", lambda at: at.run.usage.output, NO_TOKENS),
    "seconds": Name("wall time; before the run ends, that of its rounds", _seconds, NOT_RECORDED),
    "status": Name(
        "status of the run, such as `completed` or `failed`; `unknown` if its trace does not record its end",
        lambda at: at.run.status,
        at_end=True,
    ),
    "stop_reason": Name("why it ended; null while it runs", lambda at: at.run.stop_reason, at_end=True),
    "text": Name("the last text of the model", lambda at: at.run.text),
    "output": Name(
        "the answer as plain data, or the result that a workflow names; null without a valid answer",
        _output,
        at_end=True,
    ),
    "steps": Name(
        'steps by id: `steps.qa.attempts`, `.times`, `.status`, `.kind`, `.output`, `.error`, `.seconds`; `steps["my-step"]`',
        _steps,
    ),
}
"""Names that an expectation can use, and their meaning."""


class UnknownValue(ExpressionError):
    """Raised for an expectation that reads an unknown value."""


class RunValues(Mapping[str, Any]):
    """The values of all names, computed when they are read; an unknown value raises `UnknownValue`."""

    def __init__(self, at: RunAfterRound) -> None:
        self._at = at

    def __getitem__(self, name: str) -> Any:
        entry = NAMES[name]
        value = entry.value(self._at)
        if value is None and entry.unknown:
            raise UnknownValue(f"{name} is not known: {entry.unknown}")
        return value

    def __contains__(self, name: object) -> bool:
        return name in NAMES  # the inherited method would read the value

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


def check_names(expression: str, names: Iterable[str]) -> None:
    """Raise `ExpressionError` for the first unknown name or preset."""
    for name in names:
        if name not in NAMES:
            raise ExpressionError(f"{expression}: {name} is unknown", suggest_names(name, NAMES, most=4))
    for path in paths_in(expression):
        if names_in(path) == (DETECTED,):
            evaluate(path, {DETECTED: Detected(lambda _: (), 0)})  # evaluated for a run without findings
