"""Surveys of many runs: failures caught and healthy runs disturbed by each variant."""

from __future__ import annotations

from pathlib import Path
from shutil import copy

import pytest
from recorded_runs import LOOK, foreign

from agentnb import Matrix, Run, ToolCall, examples, load_trace, survey
from agentnb.core.log.events import Origin
from agentnb.detect.intervals import wilson
from agentnb.errors import ExpressionError, SettingsError
from agentnb.interchange.conversion.run_writer import RunWriter

NAMES = ("complex-fails", "simple-fail", "didnt-close-out", "healthy")


@pytest.mark.req("R0.32", "R0.82", "R0.85", "R0.86")
def test_survey_counts_caught_failures_and_disturbed_runs_per_variant() -> None:
    runs = [load_trace(name) for name in NAMES]
    table = survey(runs, policy=["matrix", "minimal"], guidance=[None, "off"], failed=lambda run: run is not runs[-1])
    assert table[["guidance", "policy"]].values.tolist() == [
        ["its own", "matrix"],
        ["its own", "minimal"],
        ["off", "matrix"],
        ["off", "minimal"],
    ]
    # Only matrix has a guard against answers that repeat themselves.
    counts = table[["runs", "failures", "caught", "healthy", "disturbed"]].values.tolist()
    assert counts == [[4, 3, 1, 1, 0], [4, 3, 0, 1, 0]] * 2
    assert table["caught_share"].tolist() == [1 / 3, 0.0] * 2
    assert table["caught_share_low"][0] == pytest.approx(wilson(1, 3).low) and table["caught_share_low"][1] == 0.0
    assert table["disturbed_share"].tolist() == [0.0] * 4
    assert table["rounds_saved"].tolist() == [1, 0] * 2 and table["tokens_unknown"].tolist() == [1, 0] * 2
    assert table["caught_at_median"].dropna().tolist() == [4, 6]


def test_failures_are_determined_by_predicate_labels_or_status() -> None:
    runs = [load_trace(name) for name in NAMES]
    by_label = survey(runs, failed={runs[0].id: True, runs[3].id: False})
    assert by_label[["runs", "failures", "healthy"]].values.tolist() == [[2, 1, 1]]
    with pytest.raises(SettingsError, match="needs at least one run"):
        survey(runs)  # their ends are not recorded
    ended = [foreign("Done."), foreign(ToolCall("look", {}), status="failed"), *runs]
    assert survey(ended)[["runs", "failures", "healthy"]].values.tolist() == [[2, 1, 1]]


def test_recorded_outcomes_decide_and_unknown_ones_are_counted_separately(subtests: pytest.Subtests) -> None:
    def rewarded(reward: float) -> Run:
        writer = RunWriter(Origin("by_hand"), model="m")
        writer.say("Go")
        writer.reply("Done.")
        writer.assess("reward", reward)
        return writer.finish()

    columns = ["judged_by", "runs", "failures", "healthy", "unknown"]
    failed, passed, part, plain = rewarded(0.0), rewarded(1.0), rewarded(0.5), foreign("Done.", status="failed")
    cases = {
        "outcomes": ([failed, failed, passed], None, ["outcome", 3, 2, 1, 0]),
        "some are unknown": ([plain, failed, part], None, ["outcome", 1, 1, 0, 2]),
        "none is known": ([part, plain], None, ["end", 2, 1, 1, 0]),
        "the person says it": ([failed, passed], lambda run: run is passed or None, ["failed=", 1, 1, 0, 1]),
    }
    for name, (runs, judge, row) in cases.items():
        with subtests.test(name):
            assert survey(runs, failed=judge)[columns].values.tolist() == [row]


@pytest.mark.req("R0.82")
def test_expectations_separate_failures_from_healthy_runs() -> None:
    runs = [load_trace(name) for name in NAMES]
    assert survey(runs, failed="loops == 0")[["failures", "healthy"]].values.tolist() == [[1, 3]]
    assert survey(runs, failed="todos_closed")[["failures", "healthy"]].values.tolist() == [[2, 2]]
    several = survey(runs, failed=["loops == 0", "todos_closed", "detected.naive_texts.all == 0"])
    assert several[["failures", "caught", "healthy"]].values.tolist() == [[3, 1, 1]]
    with pytest.raises(ExpressionError, match="lops is unknown"):
        survey("no/such/folder", failed="lops == 0")
    with pytest.raises(SettingsError, match="needs an expectation"):
        survey(runs, failed=[])


def test_rounds_and_tokens_of_repeated_runs_have_intervals() -> None:
    runs = [foreign(*[ToolCall("look", {"at": at}) for at in range(count)], "A hat.") for count in (1, 3, 8)]
    row = survey(runs, limits=[{"max_rounds": 2}], failed=lambda one: True).iloc[0]
    assert (row.rounds_saved, row.rounds_saved_mean) == (9, 3.0) and row.tokens_saved == pytest.approx(
        3 * row.tokens_saved_mean
    )
    assert 0 <= row.rounds_saved_mean_low < 3 < row.rounds_saved_mean_high <= 7
    assert row.isna()[["rounds_cut_mean", "rounds_cut_mean_low"]].all(), "there are no healthy runs"


def test_survey_reports_rounds_and_tokens_saved_by_each_variant() -> None:
    run = foreign(*[ToolCall("look", {"at": at}) for at in range(6)], "A hat.")
    table = survey([run], limits=[{"max_rounds": 3}, {"max_rounds": 5}], failed=lambda one: True)
    assert table["limits"].tolist() == ["max_rounds=3", "max_rounds=5"]
    assert table[["rounds_saved", "tokens_saved"]].values.tolist() == [[4, 60], [2, 30]]


def test_survey_accepts_guards_and_detectors_as_variants() -> None:
    run = foreign(*[LOOK] * 4, "A hat.")
    table = survey([run], policy=[Matrix(guard=None)], detect=[None, "default"], failed=lambda one: True)
    assert table["detect"].tolist() == ["its own", "default"]
    assert table["caught"].tolist() == [0, 1]


def test_survey_reads_a_folder_run_by_run(tmp_path: Path) -> None:
    for name in NAMES[:2]:
        copy(examples.path(name), tmp_path)
    assert survey(tmp_path, failed="loops == 0")["runs"].tolist() == [2]


def test_survey_without_runs_is_refused() -> None:
    with pytest.raises(SettingsError, match="needs at least one run"):
        survey([load_trace("healthy")], failed={})
