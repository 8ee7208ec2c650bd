"""The table of usage: one row per model call, with its purpose, attempts, usage and cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import folded
from agentnb.core.run.timeline import CLARIFY_BLANK
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import DOLLARS, ROUNDS, SECONDS, TIME, TOKENS, UTC, Column, number_of
from agentnb.tables.folders import frame_of
from agentnb.tables.frames import Table
from agentnb.tables.model_calls import NESTED, Call, model_calls

if TYPE_CHECKING:
    import pandas as pd

USED = "model_replied.usage"
COLUMNS: list[Column[Call]] = [
    Column("run_id", "str", lambda call: call.run.id, "The run", "event.run_id"),
    Column(
        "round",
        "Int64",
        lambda call: number_of(call.round),
        "The round; missing before the first",
        "round_started.index",
        ROUNDS,
    ),
    Column(
        "operation",
        "str",
        lambda call: call.operation,
        "What it was for: chat (the loop; planner_stream in a run with a profile), final_answer (at a limit), compaction, or "
        "a word of its own such as planner; clarify_blank: a canned answer to a blank message, without a model; nested: all "
        "calls of a nested run whose log is not among those read",
        "model_called.operation, or the event that it belongs to",
    ),
    Column(
        "profile",
        "str",
        lambda call: call.profile or None,
        "The profile whose model it is: speed, balanced or quality; missing outside of contexts",
        "run_started.settings, model_called.profile",
    ),
    Column(
        "context",
        "str",
        lambda call: call.context or None,
        "Context type in force when it was made",
        "run_started.context_type, context_shifted.context_type",
    ),
    Column(
        "execution_mode",
        "str",
        lambda call: call.execution_mode or None,
        "How the plan is executed that it was made for; of the loop's calls, the last plan of the run before",
        "model_called.execution_mode",
    ),
    Column(
        "conversation",
        "str",
        lambda call: call.conversation or call.run.conversation,
        "First run of its conversation",
        "run_started.conversation, run_started.settings",
    ),
    Column(
        "call_id",
        "str",
        lambda call: call.call_id or None,
        "The tool call that it was made in, if any",
        "model_called.call_id",
    ),
    Column(
        "model",
        "str",
        lambda call: None if call.nested_run or call.operation == CLARIFY_BLANK else call.model or call.run.model,
        "The model that was called; missing for a nested run, and where none was called",
        "run_started.model, model_called.model",
    ),
    Column(
        "answered_by",
        "str",
        lambda call: _answered_by(call.metadata),
        "The model as its provider reported it",
        "model_replied.metadata",
    ),
    Column(
        "author",
        "str",
        lambda call: call.author or None,
        "Who replied, where several agents share a conversation",
        "model_replied.message",
    ),
    Column(
        "attempts",
        "Int64",
        lambda call: None if _is_untold(call) else call.attempts,
        "Attempts made: 1 if the first succeeded",
        "retry_scheduled.attempt",
        "attempts",
    ),
    Column(
        "waited",
        "float64",
        lambda call: None if _is_untold(call) else call.waited,
        "Time between the attempts, which is part of seconds",
        "retry_scheduled.seconds",
        SECONDS,
    ),
    Column(
        "seconds",
        "float64",
        lambda call: call.seconds if call.replied else None,
        "Time from the request to the whole reply; missing if none came",
        "model_replied.seconds, context_compacted.seconds, model_called.seconds",
        SECONDS,
    ),
    Column(
        "input_tokens", "Int64", lambda call: call.usage.input, "Tokens sent, cached ones included", f"{USED}.input", TOKENS
    ),
    Column(
        "output_tokens",
        "Int64",
        lambda call: call.usage.output,
        "Tokens received, reasoning included",
        f"{USED}.output",
        TOKENS,
    ),
    Column(
        "cache_read_tokens",
        "Int64",
        lambda call: call.usage.cache_read,
        "Tokens read from the provider's cache",
        f"{USED}.cache_read",
        TOKENS,
    ),
    Column(
        "cache_write_tokens",
        "Int64",
        lambda call: call.usage.cache_write,
        "Tokens written to the provider's cache",
        f"{USED}.cache_write",
        TOKENS,
    ),
    Column(
        "reasoning_tokens",
        "Int64",
        lambda call: call.usage.reasoning,
        "Tokens of the model's thinking",
        f"{USED}.reasoning",
        TOKENS,
    ),
    Column(
        "estimated",
        "bool",
        lambda call: call.usage.estimated,
        "Whether any of its token counts is agentnb's estimate",
        f"{USED}.estimated",
    ),
    Column("cost", "float64", lambda call: call.usage.cost, "Its cost; missing if unknown", f"{USED}.cost", DOLLARS),
    Column(
        "stop_reason",
        "str",
        lambda call: call.stop_reason,
        "Why the reply ended, in the provider's words; broken_off also if the time limit cut it off",
        "model_replied.stop_reason, limit_reached.limit",
    ),
    Column(
        "error",
        "str",
        lambda call: call.error,
        "Why no whole reply came",
        "error_raised.error, model_called.error, context_compacted.problem, run_finished.stop_reason",
    ),
    Column(
        "nested_run",
        "str",
        lambda call: call.nested_run,
        "The nested run whose calls the row sums up; missing for a call of the run itself",
        "spent_besides.nested_run",
    ),
    Column(
        "started_at",
        TIME,
        lambda call: call.started_at,
        "When it began; missing for calls besides the loop",
        "round_started.at, compaction_started.at",
        UTC,
    ),
]


def _is_untold(call: Call) -> bool:
    """Return whether the number of attempts is unknown: in traces of other products, and in rows that sum up calls."""
    return call.nested_run is not None or (call.run.origin is not None and not call.retries)


def _rows(run: RunFacts) -> Iterator[Call]:
    """Yield the model calls of a run, and a row for each nested run."""
    yield from model_calls(run)
    for run_id, nested in run.nested_usage.items():
        if run_id:  # earlier versions logged no id
            yield Call(
                run,
                None,
                NESTED,
                None,
                replied=False,
                failed=False,
                retries=(),
                usage=nested.usage,
                seconds=None,
                stop_reason=None,
                metadata={},
                not_waited=0.0,
                nested_run=run_id,
            )


def _answered_by(metadata: dict[str, Any]) -> str | None:
    name = metadata.get("model")
    return name if isinstance(name, str) and name else None


TABLE = Table("usage", COLUMNS, _rows, folded)


def usage(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per model call, in order, including failed ones.

    The calls of a nested run are rows of its own log; if that is not read, one row of the run around it sums them up. Sums
    count each call once.
    """
    return _drop_repeated(frame_of(source, TABLE, cache))


def _drop_repeated(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the table without rows for nested runs whose own calls it has, or which several runs around them sum up."""
    nested = calls["nested_run"]
    if not nested.notna().any():
        return calls
    is_twice = nested.notna() & (nested.isin(calls["run_id"].unique()) | nested.duplicated())
    return calls[~is_twice].reset_index(drop=True)
