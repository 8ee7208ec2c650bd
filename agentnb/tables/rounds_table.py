"""The table of rounds: one row per round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.run.fold import todo_changes, todos_at_start
from agentnb.core.run.rounds import CONTEXT_TOKENS, WorkflowRound
from agentnb.core.schema.json_schema import json_of
from agentnb.core.todos import open_todos
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of, success_of
from agentnb.tables.context_windows import context_window
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A round, its run, its usage, and later decisions about the round."""

    run: Run
    round: WorkflowRound
    usage: Usage
    todos_open: int | None
    workflow_mode: bool | None
    window: int | None

    @property
    def went_on(self) -> bool | None:
        """True if another round followed, or None while undecided."""
        if self.round.index + 1 < len(self.run.rounds):
            return True
        return None if self.run.should_continue or self.run.status in ("interrupted", "unknown") else False

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the conversation including the reply, as recorded if the reply took several calls, otherwise computed."""
        recorded = self.round.metadata.get(CONTEXT_TOKENS)
        if isinstance(recorded, int) and not isinstance(recorded, bool):
            return recorded
        sent, received = self.usage.input, self.usage.output
        return None if sent is None or received is None else sent + received

    @property
    def context_share(self) -> float | None:
        """Share of the context window that is in use."""
        tokens = self.context_tokens
        return None if tokens is None or not self.window else tokens / self.window

    @property
    def is_foreign(self) -> bool:
        """True for other products' traces, where unrecorded values are unknown rather than false."""
        return self.run.origin is not None


COLUMNS: list[Column[Row]] = columns_of(
    "rounds",
    {
        "tools_called": lambda row: None if row.round.reply is None else bool(row.round.records),
        "attempts": lambda row: None if row.is_foreign and not row.round.failed_attempts else 1 + row.round.failed_attempts,
        "compacted": lambda row: (
            any(compaction.compacted is not None for compaction in row.round.compactions) or (None if row.is_foreign else False)
        ),
        "recovered": lambda row: row.round.recovered or (None if row.is_foreign else False),
        "guidance_cells": lambda row: ", ".join(item.cell for item in row.round.guidance) or None,
        "tool_calls": lambda row: len(row.round.records),
        "tool_errors": lambda row: sum(success_of(record) is False for record in row.round.records),
        "metadata": lambda row: json_of(row.round.metadata) if row.round.metadata else None,
        "model_seconds": lambda row: None if row.round.reply is None else row.round.model_seconds,
        "seconds": lambda row: None if row.round.status == "running" else row.round.seconds,
    },
)


def _rows(run: Run) -> Iterator[Row]:
    mode = run.settings.get("policy", {}).get("workflow_mode")
    open_after, window = _open_after(run), context_window(run)
    for current in run.rounds:
        yield Row(
            run,
            current,
            current.usage or UNKNOWN,
            open_after.get(current.index),
            mode if isinstance(mode, bool) else None,
            window,
        )


def _open_after(run: Run) -> dict[int, int]:
    """Return the number of open todos after each round, at the time of its verdict; rounds before the first list are
    left out.
    """
    counts: dict[int, int] = {}
    at_start = todos_at_start(run)
    count = len(open_todos(at_start)) if at_start else None
    counts_by_round = {index or 0: len(open_todos(change.todos)) for index, change in todo_changes(run)}
    for current in run.rounds:
        count = counts_by_round.get(current.index, count)
        if count is not None:
            counts[current.index] = count
    return counts


TABLE = Table("rounds", COLUMNS, _rows)


def rounds(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per round (a model call with its tool calls), including failed ones."""
    return frame_of(source, TABLE, cache)
