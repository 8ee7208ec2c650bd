"""Plots of detections."""

from __future__ import annotations

import pytest
from plotted_runs import names, words
from run_builder import Calls

from agentnb import Run, plots, survey
from agentnb.core.log.events import RunFinished
from agentnb.detect import blocks, detector, sweep
from agentnb.errors import SettingsError


def told(name: str, letters: str) -> Run:
    return Calls.of(letters, run_id=name).run


def test_every_rule_of_a_preset_has_a_detection_lane() -> None:
    figure = plots.detections(told("r", "QAAAAA"), ["default", "openhands"])
    assert names(figure) == ["default: nothing_new", "openhands: repeated_action_observation"]
    assert {"stop", "n = 1 run"} & {*words(figure)} and "6 rounds, 2 findings" in " ".join(words(figure))
    bars = [(bar.get_x(), bar.get_width()) for bar in figure.axes[0].patches]
    assert bars == [(1.5, 5), (1.5, 5)]  # rounds 2 to 6


def test_custom_detector_is_drawn_like_a_preset() -> None:
    @detector(family="mine", severity="block")
    def third(run: Run) -> str | None:
        return "The third round" if len(run.rounds) == 3 else None

    figure = plots.detections(told("r", "QAAAAA"), ["default", third])
    assert names(figure) == ["third: third", "default: nothing_new"] and "block" in words(figure)
    curve = plots.survival([told("a", "ABC"), told("b", "AB")], third, families=["mine"])
    assert "n = 2 runs: 1 with a loop by third, 0 completed without a loop, 1 censored" in words(curve)


def test_similarity_map_compares_every_pair_of_rounds() -> None:
    figure = plots.similarity(told("r", "ABAB"))
    (image,) = figure.axes[0].images
    table = image.get_array()
    assert table.shape == (4, 4) and table[0][2] == table[1][3] == table[0][0] == 100 and table[0][1] < 100
    assert "n = 4 rounds" in " ".join(words(figure))


def test_long_run_is_drawn_with_a_sample_of_its_rounds() -> None:
    story = Calls()
    for number in range(301):
        story.call("look", str(number))
    figure = plots.similarity(story.run)
    assert figure.axes[0].images[0].get_array().shape == (151, 151) and "One round in 2 is drawn." in words(figure)


def test_completed_runs_have_no_loop_and_interrupted_are_censored() -> None:
    ended = []
    for letters, status, reason in (
        ("AAA", "completed", "natural"),
        ("ABCDE", "completed", "natural"),
        ("ABC", "limited", "max_rounds"),
    ):
        story = Calls.of(letters, run_id=letters)
        story.add(RunFinished, status=status, stop_reason=reason)
        ended.append(story.run)
    figure = plots.survival([*ended, told("d", "ABCD")])
    assert "n = 4 runs: 1 with a loop by default, 1 completed without a loop, 2 censored" in words(figure)
    curve, marks = figure.axes[0].lines
    assert [*curve.get_ydata()] == [0, 0.25, 0.25] and ([*marks.get_xdata()], [*marks.get_ydata()]) == ([3, 4], [0.25, 0.25])


def test_sweep_draws_precision_recall_and_f1_with_run_counts() -> None:
    runs = [told("a", "AAAA"), told("b", "ABCD"), told("c", "AABB")]
    table = sweep(runs, [1, 0, 0], blocks.RepeatedCall, times=[2, 3, 4])
    figure = plots.sweep(table)
    assert [line.get_label() for line in figure.axes[0].lines] == ["precision", "recall", "F1"]
    assert [*figure.axes[0].lines[0].get_ydata()] == [0.5, 1, 1]
    assert "RepeatedCall: n = 3 runs, 1 of them positive" in words(figure)
    with pytest.raises(SettingsError, match="is not from a sweep"):
        plots.sweep(runs)  # type: ignore[arg-type]


def test_survey_draws_shares_and_rounds_per_variant_with_intervals() -> None:
    runs = [told("a", "AAAAAA"), told("b", "ABCDEF"), told("c", "AABBCC")]
    table = survey(runs, policy=["matrix"], detect=[None, "default", "smolagents"], failed={"a": True, "b": False, "c": False})
    figure = plots.survey(table)
    assert names(figure) == [f"detect {name}" for name in ("its own", "default", "smolagents")]
    shares, rounds = figure.axes
    assert [line.get_xdata()[0] for line in shares.lines] == [*table["caught_share"], *table["disturbed_share"]]
    drawn = sorted(
        (collection.get_segments()[0][0][0], collection.get_segments()[0][1][0]) for collection in shares.collections
    )
    lows, highs = ([*table[f"caught_share_{end}"], *table[f"disturbed_share_{end}"]] for end in ("low", "high"))
    assert drawn == sorted(zip(lows, highs, strict=True))
    assert [line.get_xdata()[0] for line in rounds.lines] == [*table["rounds_saved_mean"], *table["rounds_cut_mean"]]
    assert "n = 3 runs: 1 failed, 2 healthy; how turns end: logged 3" in words(figure) and "disturbed 0 of 2" in repr(figure)
    with pytest.raises(SettingsError, match="is not from a survey"):
        plots.survey(runs)  # type: ignore[arg-type]


def test_survey_of_one_run_or_many_variants_is_drawn() -> None:
    run = told("a", "AB")
    (shares, _) = plots.survey(survey([run], failed={"a": False})).axes
    assert len(shares.lines) == 1, "there are no failed runs"
    figure = plots.survey(survey([run], limits=[{"max_rounds": most} for most in range(1, 18)], failed={"a": True}))
    assert len(names(figure)) == 15 and "2 more variants are not drawn." in words(figure)
    assert "The table has no rows." in words(plots.survey(survey([run], failed={"a": True}).head(0)))
