"""The steps table: a row for each attempt."""

from __future__ import annotations

import pytest
from run_builder import RunBuilder

from agentnb import tables
from agentnb.core.log import work_events as w


@pytest.mark.req("R4.31", "R4.33")
def test_attempts_and_skipped_steps_have_rows() -> None:
    built = RunBuilder(run_kind="workflow")
    built.add(w.StepStarted, step="a", step_kind="tool", iteration=1)
    built.add(w.StepAttempted, step="a", attempt=1, error="no", wait=2.0)
    built.add(w.StepStarted, step="b", step_kind="agent", iteration=1)
    built.add(w.StepStarted, step="a", step_kind="tool", iteration=1, attempt=2)
    built.add(w.StepFinished, step="a", output={"n": 1}, attempts=2)
    built.add(w.StepSkipped, step="c", reason="n > 5")
    built.add(w.StepStarted, step="a", step_kind="tool", iteration=2)
    built.add(w.StepFinished, step="a", status="failed", error="gone", attempts=1)
    built.add(w.StepSkipped, step="a", reason="n > 6")
    table = tables.steps(built.run).astype(object)
    columns = ["step", "iteration", "attempt", "status", "error", "wait", "output", "reason", "seconds"]
    rows = [tuple(row) for row in table[columns].where(table[columns].notna(), None).itertuples(index=False)]
    assert rows == [
        ("a", 1, 1, "retried", "no", 2.0, None, None, 1.0),
        ("b", 1, 1, "open", None, None, None, None, None),
        ("a", 1, 2, "completed", None, None, '{"n":1}', None, 1.0),
        ("c", None, None, "skipped", None, None, None, "n > 5", None),
        ("a", 2, 1, "failed", "gone", None, None, None, 1.0),
        ("a", None, None, "skipped", None, None, None, "n > 6", None),
    ]
