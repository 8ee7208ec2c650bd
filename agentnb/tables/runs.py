"""The table of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import msgspec

from agentnb.core.log.outcome import Assessment, deciding
from agentnb.core.run.inner_calls import outer_calls
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.todos import has_open, open_todos
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, labels_beside
from agentnb.tables.columns import (
    COUNTED,
    DOLLARS,
    ROUNDS,
    SECONDS,
    SHARE,
    TIME,
    TOKENS,
    UTC,
    Column,
    counted,
    number_of,
    success_of,
)
from agentnb.tables.folders import frame_of
from agentnb.tables.frames import Table

if TYPE_CHECKING:
    import pandas as pd


def _json(value: Any) -> str | None:
    return msgspec.json.encode(value).decode() if value else None


def _has_end(run: Run) -> bool:
    return not run.should_continue and run.status != "interrupted"


def _compactions(one: WorkflowRound) -> int:
    return sum(each.compacted is not None for each in one.compactions)


def _violations(run: Run) -> int | None:
    violations = sum(len(one.todo_violations) for one in run.rounds)
    return violations if run.todos else counted(run, violations)


def _followed(run: Run) -> int | None:
    followed = sum(verdict.followed is True for one in run.rounds for verdict in one.followed)
    return followed if any(one.guidance for one in run.rounds) else counted(run, 0)


def _amount(value: Any) -> float | None:
    """Return a setting if it is a number, else None: logs may hold anything."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


SETTING = "run_started.settings"
OWN = "model_replied.usage, context_compacted.usage, spent_besides.usage, model_called.usage"
USED = f"{OWN}, spent_besides.nested"
COLUMNS: list[Column[Run]] = [
    Column("run_id", "str", lambda run: run.id, "The run", "event.run_id"),
    Column("started_at", TIME, lambda run: run.started_at, "When it began", "run_started.at", UTC),
    Column("ended_at", TIME, lambda run: run.ended_at, "When it ended", "run_finished.at", UTC),
    Column("agent", "str", lambda run: run.agent, "Name of the agent", "run_started.agent"),
    Column("model", "str", lambda run: run.model, "Name of the model", "run_started.model"),
    Column("policy", "str", lambda run: run.settings.get("policy", {}).get("name"), "Name of its policy", SETTING),
    Column("guidance", "str", lambda run: run.settings.get("guidance", {}).get("set"), "Name of its guidance set", SETTING),
    Column(
        "guidance_version",
        "str",
        lambda run: run.settings.get("guidance", {}).get("version"),
        "Content hash of its guidance set",
        SETTING,
    ),
    Column(
        "guidance_propensity",
        "float64",
        lambda run: run.drawn.propensity if run.drawn else None,
        "Probability with which its guidance set was drawn, if it was drawn at random",
        "guidance_drawn.propensity",
        SHARE,
    ),
    Column("status", "str", lambda run: run.status, "How it stands: completed, failed and so on", "run_finished.status"),
    Column("stop_reason", "str", lambda run: run.stop_reason, "Why it ended", "run_finished.stop_reason"),
    Column(
        "outcome",
        "str",
        lambda run: run.outcome,
        "Whether it did what it should: passed, failed or unknown; never guessed from the status",
        "outcome_given.assessment, store.labels",
    ),
    Column(
        "score",
        "float64",
        lambda run: run.score,
        "The score that decides the outcome, such as a reward; missing without one",
        "outcome_given.assessment.score",
        "that of the score",
    ),
    Column(
        "outcome_from",
        "str",
        lambda run: run.outcome_from,
        "What the outcome comes from: trace, expectation, check or label; a later one wins; missing if nothing says it",
        "outcome_given.assessment.source, store.labels",
    ),
    Column(
        "limit", "str", lambda run: run.limit.limit if run.limit else None, "The limit that ended it", "limit_reached.limit"
    ),
    Column(
        "limit_value",
        "float64",
        lambda run: run.limit.value if run.limit else None,
        "What the limit that ended it was set to",
        "limit_reached.value",
        "that of the limit",
    ),
    Column(
        "recovered",
        "Int64",
        lambda run: counted(run, run.times_recovered),
        "How often another process resumed it",
        COUNTED,
        "times",
    ),
    Column("rounds", "int64", lambda run: len(run.rounds), "Rounds, failed ones included", COUNTED, "rounds"),
    Column("steps", "int64", lambda run: run.step_count, "Steps of a workflow that began or were skipped", COUNTED, "steps"),
    Column(
        "compactions",
        "Int64",
        lambda run: counted(run, sum(_compactions(one) for one in run.rounds)),
        "How often its conversation was compacted",
        COUNTED,
        "times",
    ),
    Column(
        "retries",
        "Int64",
        lambda run: counted(run, sum(one.failed_attempts for one in run.rounds)),
        "Model calls that failed and were retried",
        COUNTED,
        "attempts",
    ),
    Column(
        "tool_calls",
        "int64",
        lambda run: sum(1 for _ in outer_calls(run)),
        "Tool calls of the model and of steps",
        COUNTED,
        "calls",
    ),
    Column(
        "tool_errors",
        "int64",
        lambda run: sum(success_of(record) is False for record in outer_calls(run)),
        "Tool calls of the model and of steps that failed",
        COUNTED,
        "calls",
    ),
    Column(
        "calls_blocked",
        "Int64",
        lambda run: counted(run, sum(bool(record.rule) for record in outer_calls(run))),
        "Tool calls of the model and of steps that a gate blocked",
        COUNTED,
        "calls",
    ),
    Column("todos", "Int64", lambda run: counted(run, len(run.todos)), "Todos in its list at the end", COUNTED, "todos"),
    Column(
        "todos_completed",
        "Int64",
        lambda run: len(run.todos) - len(open_todos(run.todos)) if run.todos else counted(run, 0),
        "Todos in its list that are completed at the end",
        COUNTED,
        "todos",
    ),
    Column(
        "all_completed",
        "boolean",
        lambda run: not has_open(run.todos) if run.todos else None,
        "Whether all todos are completed; missing if it kept no list",
        COUNTED,
    ),
    Column(
        "breaches",
        "Int64",
        _violations,
        "Breaches of the list's discipline, as in the table of todos",
        "judged by detect.judgements",
        "breaches",
    ),
    Column(
        "guidance_given",
        "Int64",
        lambda run: counted(run, sum(len(one.guidance) for one in run.rounds)),
        "How often guidance was given",
        COUNTED,
        "times",
    ),
    Column(
        "guidance_followed",
        "Int64",
        _followed,
        "How often guidance was followed",
        "judged by detect.rules",
        "times",
    ),
    Column(
        "input_tokens",
        "Int64",
        lambda run: run.usage.input,
        "Tokens sent, cached ones included, also by its nested runs",
        USED,
        TOKENS,
    ),
    Column(
        "output_tokens",
        "Int64",
        lambda run: run.usage.output,
        "Tokens received, reasoning included, also by its nested runs",
        USED,
        TOKENS,
    ),
    Column(
        "own_input_tokens",
        "Int64",
        lambda run: run.own_usage.input,
        "Tokens sent by its own model calls: add these up over runs, so that no nested run counts twice",
        OWN,
        TOKENS,
    ),
    Column("own_output_tokens", "Int64", lambda run: run.own_usage.output, "Tokens received by its own calls", OWN, TOKENS),
    Column(
        "tokens_estimated",
        "bool",
        lambda run: run.usage.estimated,
        "Whether any of its token counts is agentnb's estimate",
        "model_replied.usage.estimated",
    ),
    Column(
        "cost",
        "float64",
        lambda run: run.cost,
        "Cost of all model calls, its own and those of its nested runs; missing if the price of any is unknown",
        USED,
        DOLLARS,
    ),
    Column(
        "own_cost",
        "float64",
        lambda run: run.own_cost,
        "Cost of its own model calls: add these up over runs, so that no nested run counts twice; missing if any is unknown",
        OWN,
        DOLLARS,
    ),
    Column(
        "spent",
        "float64",
        lambda run: run.spent or counted(run, 0),
        "Cost of the model calls whose price is known, its own and those of its nested runs",
        USED,
        DOLLARS,
    ),
    Column("budget", "float64", lambda run: _amount(run.settings.get("budget")), "Its budget, if it had one", SETTING, DOLLARS),
    Column(
        "seconds",
        "float64",
        lambda run: run.seconds if _has_end(run) else None,
        "Wall time; missing until it has ended, and where nobody knows",
        "run_finished.seconds",
        SECONDS,
    ),
    Column("prompt", "str", lambda run: run.prompt, "What the person asked", "run_started.prompt"),
    Column("text", "str", lambda run: run.text, "The last text of the model", "model_replied.message"),
    Column("error", "str", lambda run: str(run.error) if run.error else None, "The error that ended it", "error_raised.error"),
    Column("parent_id", "str", lambda run: run.parent_id, "The run whose tool started it", "event.parent_id"),
    Column(
        "continued_from",
        "str",
        lambda run: run.continued_from,
        "The run whose conversation it continues",
        "run_started.continued_from",
    ),
    Column("conversation", "str", lambda run: run.conversation, "First run of its conversation", "run_started.conversation"),
    Column("kind", "str", lambda run: run.kind, "What kind of run it is, such as agent or judge", "run_started.run_kind"),
    Column("tags", "str", lambda run: ", ".join(run.tags) or None, "Its tags", "run_started.tags"),
    Column(
        "context_type",
        "str",
        lambda run: run.context_type or None,
        "Kind of task, if it was named",
        "run_started.context_type, context_shifted.context_type",
    ),
    Column(
        "entity",
        "str",
        lambda run: run.entity or None,
        "What the task is about, if it was named",
        "run_started.entity, context_shifted.entity",
    ),
    Column(
        "origin_format",
        "str",
        lambda run: run.origin.format if run.origin else None,
        "Trace format, if another product recorded it",
        "run_started.origin.format",
    ),
    Column(
        "origin_file",
        "str",
        lambda run: run.origin.file or None if run.origin else None,
        "The file it was read from",
        "run_started.origin.file",
    ),
    Column(
        "origin_position",
        "str",
        lambda run: run.origin.position or None if run.origin else None,
        "Its place in the file that it was read from",
        "run_started.origin.position",
    ),
    Column(
        "task",
        "str",
        lambda run: run.origin.task or None if run.origin else None,
        "Id of the benchmark's task that it worked on",
        "run_started.origin.task",
    ),
    Column(
        "trial",
        "str",
        lambda run: run.origin.trial or None if run.origin else None,
        "Which attempt at its task it was",
        "run_started.origin.trial",
    ),
    Column(
        "recorded",
        "str",
        lambda run: _json(run.settings.get("recorded")),
        "What else its trace says of it, such as a reward, scores or labels, as JSON",
        "run_started.settings",
    ),
    Column(
        "forked_from",
        "str",
        lambda run: run.forked_from.run_id if run.forked_from else None,
        "The run that a fork repeats",
        "run_started.forked_from.run_id",
    ),
    Column(
        "forked_at_round",
        "Int64",
        lambda run: number_of(run.forked_from.round) if run.forked_from else None,
        "First round that a fork made itself",
        "run_started.forked_from.round",
        ROUNDS,
    ),
]


TABLE = Table("runs", COLUMNS, lambda run: [run])


def runs(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per run: what it was, how it ended, what it took."""
    frame = frame_of(source, TABLE, cache)
    return _with_labels(frame, labels_beside(source))


def _with_labels(frame: pd.DataFrame, labels: Mapping[str, Sequence[Assessment]]) -> pd.DataFrame:
    """Return the table with these labels, by run: those of now also where its rows were kept before."""
    decided = {run_id: label for run_id, given in labels.items() if (label := deciding(given)) is not None}
    labelled = frame["run_id"].isin(decided)
    given = [decided[run_id] for run_id in frame.loc[labelled, "run_id"]]
    frame.loc[labelled, "outcome"] = [label.outcome for label in given]
    frame.loc[labelled, "score"] = [nan if label.score is None else label.score for label in given]
    frame.loc[labelled, "outcome_from"] = [label.source for label in given]
    return frame
