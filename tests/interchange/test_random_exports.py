"""Random runs round-trip through the richest forms."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from generated_runs import Plan, plans, really_run
from hypothesis import given
from property_settings import examples
from round_trips import HOLDS, check

from agentnb import Store, load_trace, save_trace


@examples(60)
@given(plans)
def test_random_runs_round_trip_through_every_format(plan: Plan) -> None:
    with TemporaryDirectory() as folder:
        for run in really_run(plan, Store(Path(folder) / "runs")):
            for form in ("otel", "openinference"):
                back = load_trace(save_trace(run, Path(folder) / "run", form))
                check(run, back, HOLDS[form] - {"followed"})  # round statuses are judged too
            assert load_trace(save_trace(run, Path(folder) / "run.parquet")) == run
