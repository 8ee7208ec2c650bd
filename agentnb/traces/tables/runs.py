"""The table of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentnb.core.rounds import WorkflowRound
from agentnb.core.todos import has_open, open_todos
from agentnb.detect.run import Run
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import TIME, Column, table

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: list[Column[Run]] = [
    Column("run_id", "str", lambda run: run.id),
    Column("started_at", TIME, lambda run: run.started_at),
    Column("agent", "str", lambda run: run.agent),
    Column("model", "str", lambda run: run.model),
    Column("policy", "str", lambda run: run.settings.get("policy", {}).get("name")),
    Column("guidance", "str", lambda run: run.settings.get("guidance", {}).get("set")),
    Column("guidance_version", "str", lambda run: run.settings.get("guidance", {}).get("version")),
    Column("status", "str", lambda run: run.status),
    Column("stop_reason", "str", lambda run: run.stop_reason),
    Column("limit", "str", lambda run: run.limit.limit if run.limit else None),
    Column("limit_value", "float64", lambda run: run.limit.value if run.limit else None),
    Column("recovered", "int64", lambda run: run.times_recovered),
    Column("rounds", "int64", lambda run: len(run.rounds)),
    Column("compactions", "int64", lambda run: sum(_compactions(one) for one in run.rounds)),
    Column("retries", "int64", lambda run: sum(one.failed_attempts for one in run.rounds)),
    Column("tool_calls", "int64", lambda run: sum(len(one.records) for one in run.rounds)),
    Column("tool_errors", "int64", lambda run: sum(result.is_error for one in run.rounds for result in one.results)),
    Column("calls_blocked", "int64", lambda run: sum(bool(record.rule) for one in run.rounds for record in one.records)),
    Column("todos", "int64", lambda run: len(run.todos)),
    Column("todos_completed", "int64", lambda run: len(run.todos) - len(open_todos(run.todos))),
    Column("all_completed", "boolean", lambda run: not has_open(run.todos) if run.todos else None),
    Column("breaches", "int64", lambda run: sum(len(one.todo_violations) for one in run.rounds)),
    Column("guidance_given", "int64", lambda run: sum(len(one.guidance) for one in run.rounds)),
    Column(
        "guidance_followed",
        "int64",
        lambda run: sum(verdict.followed is True for one in run.rounds for verdict in one.followed),
    ),
    Column("input_tokens", "Int64", lambda run: run.usage.input),
    Column("output_tokens", "Int64", lambda run: run.usage.output),
    Column("tokens_estimated", "bool", lambda run: run.usage.estimated),
    Column("cost", "float64", lambda run: run.cost),
    Column("spent", "float64", lambda run: run.spent),
    Column("budget", "float64", lambda run: _amount(run.settings.get("budget"))),
    Column("seconds", "float64", lambda run: run.seconds if _has_end(run) else None),
    Column("prompt", "str", lambda run: run.prompt),
    Column("text", "str", lambda run: run.text),
    Column("error", "str", lambda run: str(run.error) if run.error else None),
    Column("parent_id", "str", lambda run: run.parent_id),
    Column("continued_from", "str", lambda run: run.continued_from),
    Column("conversation", "str", lambda run: run.conversation),
    Column("kind", "str", lambda run: run.kind),
    Column("tags", "str", lambda run: ", ".join(run.tags) or None),
    Column("context_type", "str", lambda run: run.context_type or None),
    Column("entity", "str", lambda run: run.entity or None),
    Column("origin_format", "str", lambda run: run.origin.format if run.origin else None),
    Column("origin_file", "str", lambda run: run.origin.file or None if run.origin else None),
    Column("origin_position", "str", lambda run: run.origin.position or None if run.origin else None),
    Column("forked_from", "str", lambda run: run.forked_from.run_id if run.forked_from else None),
    Column("forked_at_round", "Int64", lambda run: run.forked_from.round if run.forked_from else None),
]


def runs(source: RunSource) -> pd.DataFrame:
    """Return one row per run: its prompt, its end, its usage. ``cost`` in US dollars, ``seconds`` of wall time.

    ``limit`` and ``limit_value``: the limit that ended it, if one did. ``spent``: US dollars for the calls with a known price,
    even if ``cost`` is unknown; ``budget``: its own, if it had one. ``recovered``: how often another process resumed it;
    ``compactions``: how often its conversation was compacted. ``calls_blocked``: tool calls blocked by a gate. ``retries``:
    model calls that failed and were retried. ``todos_completed`` of ``todos`` is its completion rate; ``all_completed`` is
    missing if it kept no list; ``breaches`` are the todo violations in `tables.todos`. ``conversation``: the id of the first
    run of its conversation; ``origin_...``: where it was read from, if another product recorded it; ``forked_from``: the run
    that it repeats up to ``forked_at_round``. ``seconds`` is missing where nobody knows how long it took.
    """
    return table(load_traces(source), COLUMNS)


def _has_end(run: Run) -> bool:
    return not run.should_continue and run.status != "interrupted"


def _compactions(one: WorkflowRound) -> int:
    return sum(each.compacted is not None for each in one.compactions)


def _amount(value: Any) -> float | None:
    """Return a setting if it is a number, else None: logs may hold anything."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
