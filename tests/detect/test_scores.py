"""Tables of agreement between detectors and labels."""

from __future__ import annotations

import pytest
from run_builder import Calls

from agentnb.core.run.facts import RunFacts
from agentnb.detect import Run, detector, score, sweep
from agentnb.detect.blocks import RepeatedCall
from agentnb.detect.intervals import auc, f1_interval, mean_interval, wilson
from agentnb.errors import SettingsError


def run_of(name: str, letters: str) -> Run:
    return Calls.of(letters, run_id=name).run


LETTERS = {"loop": "AAAA", "turns": "ABABABAB", "long": "ABCDEFGHIJ", "short": "AB", "missed": "ABC", "disputed": "XXX"}
LABELS = {"loop": 1, "turns": True, "long": 0, "short": 0, "missed": 1, "disputed": 0}
RUNS = [run_of(name, letters) for name, letters in LETTERS.items()]


def test_interval_of_a_mean_matches_the_textbook_and_is_deterministic() -> None:
    values = [float(number % 10) for number in range(400)]
    error = (sum((value - 4.5) ** 2 for value in values) / len(values)) ** 0.5 / len(values) ** 0.5
    found = mean_interval(values)
    assert found.value == 4.5 and found == mean_interval(values)
    assert found.low == pytest.approx(4.5 - 1.96 * error, abs=0.03) and found.high == pytest.approx(
        4.5 + 1.96 * error, abs=0.03
    )
    assert mean_interval([]) == (None, None, None) and mean_interval([3]) == (3, None, None)
    assert mean_interval([2, 2, 2]) == (2, 2, 2)


def test_wilson_intervals_match_the_textbook() -> None:
    assert [round(one or 0, 3) for one in wilson(17, 20)] == [0.85, 0.640, 0.948]
    assert (wilson(0, 5)[:2], wilson(5, 5)[0], wilson(5, 5)[2]) == ((0.0, 0.0), 1.0, 1.0)
    assert [round(one or 0, 4) for one in wilson(0, 10)] == [0, 0, 0.2775]
    assert wilson(0, 0) == (None, None, None)


def test_interval_of_f1_contains_f1_within_0_and_1() -> None:
    value, low, high = f1_interval(8, 2, 1)
    assert value == pytest.approx(16 / 19) and 0 < (low or 0) < value < (high or 0) < 1


def test_auc_is_the_chance_that_a_positive_scores_higher() -> None:
    assert auc([(3, True), (1, False), (2, False)]) == 1
    assert auc([(1, True), (1, False)]) == 0.5
    assert auc([(1, True)]) is None


def test_score_counts_hits_alarms_and_misses_beside_baselines() -> None:
    table = score(RUNS, LABELS)
    assert [*table["detector"]] == ["default", "naive_row", "naive_window", "naive_turns", "naive_texts", "run_length"]
    ours = table.iloc[0]
    assert (ours["runs"], ours["positives"], ours["hits"], ours["false"], ours["misses"]) == (6, 3, 2, 1, 1)
    assert ours["precision"] == ours["recall"] == ours["f1"] == pytest.approx(2 / 3)
    assert ours["precision_low"] < ours["precision"] < ours["precision_high"]
    assert (ours["negative_rounds"], ours["false_per_100_rounds"]) == (15, pytest.approx(100 / 15))
    naive = table.set_index("detector").loc["naive_turns"]
    assert (naive["hits"], naive["false"], naive["misses"]) == (1, 0, 2)


def test_rounds_of_healthy_runs_with_findings_are_false_alarms() -> None:
    row = score([run_of("a", "AAAAAA"), run_of("b", "ABCD")], [0, 0], [RepeatedCall], baselines=False).iloc[0]
    assert (row["false"], row["negative_rounds"]) == (1, 10) and row["false_per_100_rounds"] == pytest.approx(40)


def test_run_length_is_a_baseline_with_its_best_threshold() -> None:
    length = score(RUNS, LABELS).set_index("detector").loc["run_length"]
    assert length["rounds_from"] == 3  # with 3 rounds or more: all three positives and two negatives
    assert (length["hits"], length["false"], length["misses"]) == (3, 2, 0)
    assert length["auc"] == pytest.approx(5.5 / 9)


def test_labels_may_be_a_list_and_unlabelled_runs_are_omitted() -> None:
    assert score(RUNS, [*LABELS.values()]).iloc[0]["hits"] == 2
    assert score(RUNS, [1, None, None, 0, None, None]).iloc[0]["runs"] == 2
    assert score(RUNS, {"loop": 1, "short": 0}).iloc[0]["runs"] == 2


def test_labels_that_match_no_run_are_refused() -> None:
    for labels, words in (({"other": 1}, "has a label"), ([1, 0], "2 labels for 6 runs")):
        with pytest.raises(SettingsError, match=words):
            score(RUNS, labels)


def test_groups_have_separate_rows() -> None:
    table = score(RUNS, LABELS, groups={name: "a" if name in ("loop", "short") else "b" for name in LETTERS})
    rows = table[table["detector"] == "default"].set_index("group")
    assert [*rows.index] == ["all", "a", "b"] and [*rows["hits"]] == [2, 1, 1]
    lengths = table[table["detector"] == "run_length"]
    assert set(lengths["rounds_from"]) == {3}  # one threshold for all


def test_presets_and_custom_detectors_have_separate_rows() -> None:
    @detector
    def two_calls(run: RunFacts) -> str | None:
        return "two rounds" if len(run.rounds) == 2 else None

    table = score(RUNS, LABELS, ["openhands", two_calls], baselines=False)
    assert [*table["detector"]] == ["openhands", "two_calls"]
    assert table.iloc[1]["hits"] == 3


def test_only_loop_and_stall_findings_count() -> None:
    story = Calls(run_id="failing")
    for number in range(6):
        story.call("fetch", f"error {number}", error="tool_error", n=number)
    assert score([story.run], [0]).iloc[0]["false"] == 0
    assert score([story.run], [0], families=["failure"]).iloc[0]["false"] == 1


def test_sweep_has_a_row_for_each_threshold_value() -> None:
    table = sweep(RUNS, LABELS, RepeatedCall, times=[2, 3, 4, 5])
    assert [*table["value"]] == [2, 3, 4, 5] and set(table["threshold"]) == {"times"}
    assert [(row["hits"], row["false"]) for _, row in table.iterrows()] == [(1, 1), (1, 1), (1, 0), (0, 0)]
    with pytest.raises(SettingsError, match="2 thresholds"):
        sweep(RUNS, LABELS, RepeatedCall, times=[2], severity=["stop"])
