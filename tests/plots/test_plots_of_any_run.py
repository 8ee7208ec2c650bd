"""Every plot can be made of any run: whole, cut off anywhere, or of an earlier version."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from generated_runs import Plan, plans, really_run
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples, size

from agentnb import Run, Store, load_traces, plots
from agentnb.plots.drawing.plot_spans import spans_of

OLDER = Path(__file__).parents[1] / "store" / "older_logs"


@pytest.mark.slow("runs random runs and draws each seven times")
@examples(size(3, nightly=6))
@given(plan=plans, share=st.floats(0, 1))
def test_every_plot_can_draw_a_truncated_random_run(plan: Plan, share: float) -> None:
    with TemporaryDirectory() as folder:
        whole = really_run(plan, Store(Path(folder)))[0]
    for run in (whole, Run.from_events(whole.events[: max(1, int(len(whole.events) * share))])):
        for name in sorted({*plots.__all__} - plots.OF_A_TABLE - plots.OF_EXPERIMENTS):
            assert getattr(plots, name)(run).axes
        spans = spans_of(run)
        assert all(0 <= span.start <= span.end for span in spans.spans)
        assert all(start <= end for _, start, end in spans.rounds)


@pytest.mark.nightly("by day plots are drawn of random runs, and older logs are read by the store")
@pytest.mark.slow("draws the logs of all versions")
def test_every_plot_can_draw_logs_of_earlier_versions() -> None:
    runs = load_traces(OLDER)
    assert len(runs) == 10
    for name in sorted({*plots.__all__} - plots.OF_A_TABLE - plots.OF_EXPERIMENTS):
        for source in runs if name in plots.OF_ONE_RUN else [runs]:
            getattr(plots, name)(source).savefig(BytesIO())
