"""Equations between the table of calls and the table of runs."""

from __future__ import annotations

import pandas as pd
import pytest

from agentnb import Run, tables


def check_sums(runs: list[Run]) -> None:
    """Assert that the calls' usage adds up to the run's."""
    calls, totals = tables.usage(runs), tables.runs(runs)
    for _, total in totals.iterrows():
        mine = calls[calls.run_id == total.run_id]
        chats = mine[mine.operation == "chat"]  # a process may also die in a compaction
        never_made = (chats.error == "cancelled") & (chats.waited > 0)  # stopped while it waited for it
        assert len(chats) == total.rounds
        assert chats.attempts.sum() in (total.rounds + total.retries, total.rounds + total.retries - never_made.sum())
        for name in ("input_tokens", "output_tokens"):
            assert mine[name].sum() == (0 if pd.isna(total[name]) else total[name])
        assert mine.estimated.any() == total.tokens_estimated
        replied = mine[mine.stop_reason.notna()]
        assert replied.cost.isna().any() == pd.isna(total.cost)
        assert pd.isna(total.cost) or replied.cost.sum() == pytest.approx(total.cost)
