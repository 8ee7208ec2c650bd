"""The table of rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agentnb.core.log.events import RoundStarted, RunStarted, TodosChanged
from agentnb.core.run.rounds import CONTEXT_TOKENS, WorkflowRound
from agentnb.core.todos import open_todos
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import (
    COUNTED,
    DOLLARS,
    JSON,
    ROUNDS,
    SECONDS,
    SHARE,
    TIME,
    TOKENS,
    UTC,
    Column,
    number_of,
    success_of,
)
from agentnb.tables.folders import frame_of
from agentnb.tables.frames import Table
from agentnb.tables.windows import context_window

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A round, its run, its usage, and what was decided on after it."""

    run: Run
    round: WorkflowRound
    usage: Usage
    todos_open: int | None
    workflow_mode: bool | None
    window: int | None

    @property
    def went_on(self) -> bool | None:
        """Whether another round followed; None while nobody can know."""
        if self.round.index + 1 < len(self.run.rounds):
            return True
        return None if self.run.should_continue or self.run.status in ("interrupted", "unknown") else False

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the conversation with the reply; a reply that took several calls says them itself."""
        told = self.round.metadata.get(CONTEXT_TOKENS)
        if isinstance(told, int) and not isinstance(told, bool):
            return told
        sent, received = self.usage.input, self.usage.output
        return None if sent is None or received is None else sent + received

    @property
    def context_share(self) -> float | None:
        """Share of the window that they fill."""
        tokens = self.context_tokens
        return None if tokens is None or not self.window else tokens / self.window

    @property
    def is_foreign(self) -> bool:
        """Whether another product recorded it: then what a trace does not say is unknown, and not false."""
        return self.run.origin is not None


REPLY = "model_replied.usage"
COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run.id, "The run", "event.run_id"),
    Column("round", "int64", lambda row: number_of(row.round.index), "The round", "round_started.index", ROUNDS),
    Column(
        "reason",
        "str",
        lambda row: row.round.reason,
        "Why it began: prompt, tool_results, said, or a policy's reason to continue",
        "round_started.reason",
    ),
    Column("status", "str", lambda row: row.round.status, "How the round ended", "round_finished.status"),
    Column(
        "stop_reason",
        "str",
        lambda row: row.round.stop_reason,
        "Why the reply ended, in the provider's words",
        "model_replied.stop_reason",
    ),
    Column(
        "author",
        "str",
        lambda row: (row.round.reply.author or None) if row.round.reply else None,
        "Who replied, where several agents share a conversation",
        "model_replied.message",
    ),
    Column("text", "str", lambda row: row.round.text, "Text of the reply", "model_replied.message"),
    Column(
        "tools_called",
        "boolean",
        lambda row: None if row.round.reply is None else bool(row.round.records),
        "First question after a round: were tools called; missing if no reply came",
        "model_replied.message",
    ),
    Column(
        "todos_open",
        "Int64",
        lambda row: row.todos_open,
        "Second question: how many todos were open after it; missing as long as there was no list",
        "todos_changed.todos, run_started.todos",
        "todos",
    ),
    Column(
        "workflow_mode",
        "boolean",
        lambda row: row.workflow_mode,
        "Third question: was workflow mode on; missing if the run's policy has no such mode, or is unknown",
        "run_started.settings",
    ),
    Column(
        "went_on",
        "boolean",
        lambda row: row.went_on,
        "Fourth question: did the run go on after it; missing while it runs, and if its log breaks off",
        "round_started.index, run_finished.status",
    ),
    Column(
        "attempts",
        "Int64",
        lambda row: None if row.is_foreign and not row.round.failed_attempts else 1 + row.round.failed_attempts,
        "Attempts to call the model: 1 if the first succeeded",
        "retry_scheduled.attempt",
        "attempts",
    ),
    Column(
        "compacted",
        "boolean",
        lambda row: any(each.compacted is not None for each in row.round.compactions) or (None if row.is_foreign else False),
        "Whether the conversation was compacted before its request",
        "context_compacted.compacted",
    ),
    Column(
        "recovered",
        "boolean",
        lambda row: row.round.recovered or (None if row.is_foreign else False),
        "Whether the process died in it, or right before it, and another resumed the run",
        "run_recovered.at",
    ),
    Column(
        "guidance_cells",
        "str",
        lambda row: ", ".join(given.cell for given in row.round.guidance) or None,
        "Cells of the guidance that the model got for it; missing if there was none",
        "guidance_given.guidance.cell",
    ),
    Column("tool_calls", "int64", lambda row: len(row.round.records), "Tool calls of the model", COUNTED, "calls"),
    Column(
        "tool_errors",
        "int64",
        lambda row: sum(success_of(record) is False for record in row.round.records),
        "Tool calls of the model that failed",
        COUNTED,
        "calls",
    ),
    Column(
        "metadata",
        "str",
        lambda row: msgspec.json.encode(row.round.metadata).decode() if row.round.metadata else None,
        "What came with the reply; of a simulated persona, its fault and whether it followed the guidance",
        "model_replied.metadata",
        JSON,
    ),
    Column("input_tokens", "Int64", lambda row: row.usage.input, "Tokens sent, cached ones included", f"{REPLY}.input", TOKENS),
    Column(
        "output_tokens",
        "Int64",
        lambda row: row.usage.output,
        "Tokens received, reasoning included",
        f"{REPLY}.output",
        TOKENS,
    ),
    Column(
        "tokens_estimated",
        "bool",
        lambda row: row.usage.estimated,
        "Whether any of its token counts is agentnb's estimate",
        f"{REPLY}.estimated",
    ),
    Column(
        "context_tokens",
        "Int64",
        lambda row: row.context_tokens,
        "Tokens of the conversation with the reply",
        f"{REPLY}.input + {REPLY}.output, model_replied.metadata",
        TOKENS,
    ),
    Column(
        "context_window",
        "Int64",
        lambda row: row.window,
        "Tokens that the model can take; missing if unknown",
        "run_started.settings, models.prices",
        TOKENS,
    ),
    Column(
        "context_share",
        "float64",
        lambda row: row.context_share,
        "Share of the window that the conversation with the reply fills",
        "context_tokens / context_window",
        SHARE,
    ),
    Column("cost", "float64", lambda row: row.usage.cost, "Cost of its model call", f"{REPLY}.cost", DOLLARS),
    Column(
        "model_seconds",
        "float64",
        lambda row: None if row.round.reply is None else row.round.model_seconds,
        "Time from the request to the whole reply; missing if no reply came",
        "model_replied.seconds",
        SECONDS,
    ),
    Column(
        "seconds",
        "float64",
        lambda row: None if row.round.status == "running" else row.round.seconds,
        "Time of the whole round; missing until it has ended",
        "round_finished.seconds",
        SECONDS,
    ),
    Column("started_at", TIME, lambda row: row.round.started_at, "When it began", "round_started.at", UTC),
    Column("ended_at", TIME, lambda row: row.round.ended_at, "When it ended", "round_finished.at", UTC),
]


def _rows(run: Run) -> Iterator[Row]:
    mode = run.settings.get("policy", {}).get("workflow_mode")
    left, window = _open_after(run), context_window(run)
    for one in run.rounds:
        yield Row(run, one, one.usage or UNKNOWN, left.get(one.index), mode if isinstance(mode, bool) else None, window)


def _open_after(run: Run) -> dict[int, int]:
    """Return how many todos were open after each round, when it was decided whether to go on; none before there is a list."""
    found: dict[int, int] = {}
    known: int | None = None
    for event in run.events:
        if isinstance(event, RoundStarted):
            if known is not None and event.index:
                found[event.index - 1] = known
        elif isinstance(event, TodosChanged) or (isinstance(event, RunStarted) and event.todos):
            known = len(open_todos(event.todos))
    if known is not None and run.rounds:
        found[len(run.rounds) - 1] = known
    return found


TABLE = Table("rounds", COLUMNS, _rows)


def rounds(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per round (a model call with its tool calls), including failed ones."""
    return frame_of(source, TABLE, cache)
