"""The table of runs: one row per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import msgspec

from agentnb.core.log.outcome import Assessment, deciding_assessment
from agentnb.core.run.inner_calls import outer_calls
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.schema.json_schema import json_of
from agentnb.core.todos import has_open, open_todos
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.detect.run_states import RunState, end_word, state_of
from agentnb.interchange.files import RunSource, labels_beside
from agentnb.tables.columns import Column, columns_of, count_or_unknown, success_of
from agentnb.tables.folders import frame_of
from agentnb.tables.model_call_rows import model_calls
from agentnb.tables.table_values import Table
from agentnb.tables.usage_table import is_copy

if TYPE_CHECKING:
    import pandas as pd


def _has_end(run: Run) -> bool:
    return not run.should_continue and run.status != "interrupted"


def _compactions(one: WorkflowRound) -> int:
    return sum([compaction.compacted is not None for compaction in one.compactions]) if one.compactions else 0


def _violations(run: Run) -> int | None:
    violations = sum([len(current.todo_violations) for current in run.rounds])
    return violations if run.todos else count_or_unknown(run, violations)


def _guidance(run: Run, field: str) -> str | None:
    """Return the name or version of the run's guidance set, or None if a set was drawn for each round."""
    if run.drawn is None:
        value: str | None = run.settings.get("guidance", {}).get(field)
        return value
    return None if run.drawn.round else getattr(run.drawn, field)


def _count_followed(run: Run) -> int | None:
    followed = sum([verdict.followed is True for current in run.rounds for verdict in current.followed])
    return followed if any(current.guidance for current in run.rounds) else count_or_unknown(run, 0)


def _stated_usage(run: Run) -> Usage:
    """Return the total usage stated in the run's trace."""
    return (run.origin.stated if run.origin else None) or UNKNOWN


def _replies(run: Run) -> str | None:
    """Return, as JSON, the model calls that the run may share with other runs."""
    if run.forked_from is None and not any("response_id" in item.metadata for item in run.rounds):
        return None
    calls = [call for call in model_calls(run) if call.response_id or call.copied_from]
    rows = [
        (item.round, item.response_id, item.copied_from, item.usage.input, item.usage.output, item.usage.cost) for item in calls
    ]
    return json_of(rows) if rows else None


def _amount(value: Any) -> float | None:
    """Return a setting if it is a number, otherwise None, since logs may contain any value."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


COLUMNS: list[Column[Run]] = columns_of(
    "runs",
    {
        "end": lambda run: end_word(state_of(run)),
        "policy": lambda run: run.settings.get("policy", {}).get("name"),
        "guidance": lambda run: _guidance(run, "set"),
        "guidance_version": lambda run: _guidance(run, "version"),
        "guidance_propensity": lambda run: run.drawn.propensity if run.drawn and not run.drawn.round else None,
        "recovered": lambda run: count_or_unknown(run, run.times_recovered),
        "rounds": lambda run: len(run.rounds),
        "compactions": lambda run: count_or_unknown(run, sum([_compactions(current) for current in run.rounds])),
        "retries": lambda run: count_or_unknown(run, sum([current.failed_attempts for current in run.rounds])),
        "tool_calls": lambda run: sum(1 for _ in outer_calls(run)),
        "tool_errors": lambda run: sum([success_of(record) is False for record in outer_calls(run)]),
        "calls_blocked": lambda run: count_or_unknown(run, sum([bool(record.rule) for record in outer_calls(run)])),
        "todos": lambda run: count_or_unknown(run, len(run.todos)),
        "todos_completed": lambda run: len(run.todos) - len(open_todos(run.todos)) if run.todos else count_or_unknown(run, 0),
        "all_completed": lambda run: not has_open(run.todos) if run.todos else None,
        "breaches": _violations,
        "guidance_given": lambda run: count_or_unknown(run, sum([len(current.guidance) for current in run.rounds])),
        "guidance_followed": _count_followed,
        "spent": lambda run: run.spent or count_or_unknown(run, 0),
        "stated_input_tokens": lambda run: _stated_usage(run).input,
        "stated_output_tokens": lambda run: _stated_usage(run).output,
        "stated_cost": lambda run: _stated_usage(run).cost,
        "budget": lambda run: _amount(run.settings.get("budget")),
        "seconds": lambda run: run.seconds if _has_end(run) else None,
        "error": lambda run: str(run.error) if run.error else None,
        "tags": lambda run: ", ".join(run.tags) or None,
        "recorded": lambda run: json_of(recorded) if (recorded := run.settings.get("recorded")) else None,
    },
)


TABLE = Table("runs", COLUMNS, lambda run: [run])
_HIDDEN: list[Column[Run]] = [
    Column("replies", "str", _replies, "", ""),
    Column("state", "str", lambda run: json_of(state_of(run)), "", ""),
]
_END = [column.name for column in COLUMNS].index("end")
WITH_HIDDEN = TABLE._replace(name="runs_with_hidden", columns=[*COLUMNS[:_END], *COLUMNS[_END + 1 :], *_HIDDEN])
"""The table with hidden columns, which `_without_copies` and `_with_labels` replace."""


def runs(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per run: its settings, its outcome and its usage."""
    frame = _without_copies(frame_of(source, WITH_HIDDEN, cache))
    return _with_labels(frame, labels_beside(source))


def _without_copies(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every reply counted as own usage only once, in the first run that has it."""
    import pandas as pd

    kept = frame.pop("replies").dropna()
    names = ["place", "run_id", "round", "response_id", "copied_from", "input_tokens", "output_tokens", "cost"]
    rows = [(position, frame["run_id"][position], *row) for position, text in kept.items() for row in msgspec.json.decode(text)]
    calls = pd.DataFrame(rows, columns=names)
    copies = calls[is_copy(calls, frame["run_id"])].groupby("place")[names[-3:]].sum()
    for name in names[-3:]:
        frame.loc[copies.index, f"own_{name}"] -= copies[name].astype(frame[f"own_{name}"].dtype)
    return frame


def _with_labels(frame: pd.DataFrame, labels: Mapping[str, Sequence[Assessment]]) -> pd.DataFrame:
    """Return the table with the current labels, even in cached rows."""
    decided = {
        run_id: label for run_id, assessments in labels.items() if (label := deciding_assessment(assessments)) is not None
    }
    labelled, states = frame["run_id"].isin(decided), frame.pop("state")
    words = {state: end_word(RunState(*msgspec.json.decode(state))) for state in states.unique()}  # few
    frame.insert(_END, "end", states.map(words).astype("str"))
    assessments = [decided[run_id] for run_id in frame.loc[labelled, "run_id"]]
    frame.loc[labelled, "outcome"] = [label.outcome for label in assessments]
    frame.loc[labelled, "score"] = [nan if label.score is None else label.score for label in assessments]
    frame.loc[labelled, "outcome_from"] = [label.source for label in assessments]
    decoded = [RunState(*msgspec.json.decode(state)) for state in states[labelled]]
    pairs = zip(decoded, assessments, strict=True)
    frame.loc[labelled, "end"] = [end_word(state._replace(outcome=label.outcome)) for state, label in pairs]
    return frame
