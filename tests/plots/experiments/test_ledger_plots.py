"""The ledger by round."""

from __future__ import annotations

from pathlib import Path

import pytest
from plotted_variants import ran, words
from run_builder import RunBuilder

from agentnb import Run, compare, load_traces, plots
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage


def spent(name: str, variant: str, *usages: Usage, planned: Usage | None = None) -> Run:
    """Build a run of a variant with this usage by round."""
    builder = RunBuilder(run_id=name, tags=(f"variant:{variant}",) if variant else ())
    if planned is not None:
        builder.add(w.ModelCalled, operation="planner", usage=planned)
    for index, usage in enumerate(usages):
        builder.add(e.RoundStarted, index=index, reason="prompt")
        builder.add(e.ModelReplied, message=Message("assistant", (Text("Well."),)), usage=usage)
        builder.add(e.RoundFinished, index=index, status="success")
    return builder.add(e.RunFinished, status="completed", stop_reason="natural").run


def curves(figure: object, panel: int) -> dict[str, list[tuple[int, float]]]:
    """Return the points of each curve of a panel, by label."""
    found = figure.axes[panel].lines  # type: ignore[attr-defined]
    return {line.get_label(): [*zip(line.get_xdata(), line.get_ydata(), strict=True)] for line in found}


FREE = Usage(90, 10, cost=0.0)
RUNS = (spent("r-1", "new", FREE), spent("r-2", "new", Usage(190, 10, cost=0.0), FREE), spent("r-3", "old", FREE, FREE, FREE))


def test_ongoing_shares_and_tokens_are_drawn_by_round_and_variant() -> None:
    figure = plots.ledger(RUNS)
    assert curves(figure, 0) == {
        "new (n = 2 runs)": [(1, 1.0), (2, 0.5)],
        "old (n = 1 run)": [(1, 1.0), (2, 1.0), (3, 1.0)],
    }
    assert curves(figure, 1)["new (n = 2 runs)"] == [(1, 150), (2, 100)]
    assert not any(text.get_visible() and text.get_text() for text in figure.axes[0].get_xticklabels()), "below only"
    said = words(figure)
    assert "n = 3 runs" in said and "Tokens instead of cost: the cost is 0, or unknown for some model calls" in said
    assert "new: 2 runs, 200 tokens a run" in repr(figure)


def test_fully_known_cost_is_drawn_including_early_calls() -> None:
    priced = Usage(90, 10, cost=0.5)
    planned = spent("r-1", "", priced, priced, planned=Usage(10, 10, cost=0.25))
    figure = plots.ledger(planned)
    assert curves(figure, 1) == {"1 run": [(1, 0.75), (2, 0.5)]}
    assert figure.axes[1].get_ylabel() == "US dollars\nof a round" and "Tokens, not cost" not in " ".join(words(figure))
    unpriced = plots.ledger([planned, spent("r-2", "", Usage(90, 10))])
    assert unpriced.axes[1].get_ylabel() == "tokens\nof a round"


def test_unknown_round_is_omitted_and_counted_not_zero() -> None:
    figure = plots.ledger(spent("r-1", "", FREE, Usage(), FREE))
    assert curves(figure, 1) == {"1 run": [(1, 100), (3, 100)]}
    assert "Not recorded: the tokens of 1 round" in words(figure)


def test_results_comparisons_and_their_folder_yield_equal_curves(tmp_path: Path) -> None:
    results = ran(folder=tmp_path / "experiment")
    drawn = [curves(plots.ledger(each), 0) for each in (results, compare(results, "matrix", "off"), tmp_path / "experiment")]
    assert drawn[0] == drawn[1] == drawn[2] and {*drawn[0]} == {"off (n = 12 runs)", "matrix (n = 12 runs)"}
    lengths = [len(run.rounds) for run in load_traces(tmp_path / "experiment") if "variant:off" in run.tags]
    share = sum(length >= 5 for length in lengths) / 12
    assert dict(drawn[0]["off (n = 12 runs)"])[5] == pytest.approx(share)


def test_runs_without_a_variant_are_drawn_beside_the_others() -> None:
    figure = plots.ledger([*RUNS, spent("r-4", "", FREE)])
    assert next(iter(curves(figure, 0))) == "(no variant) (n = 1 run)"
    assert "There are no rounds." in words(plots.ledger([]))
    many = [spent(f"r-{number}", f"v{number}", FREE) for number in range(7)]
    assert "1 more variant is not drawn" in words(plots.ledger(many)) and len(curves(plots.ledger(many), 0)) == 6
