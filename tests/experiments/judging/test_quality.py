"""The quality of a judge: its verdicts against human labels, from rows, folders and recorded runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from judges import RUBRIC, judge_by, judge_of_calls, verdict
from small_experiments import small, was_called

from agentnb import Judge, compare, label, labels, load_traces
from agentnb.errors import SettingsError, TraceError
from agentnb.store.run_labels import Label, append_label


def labelled(folder: Path, truth: dict[str, bool], who: str = "ada") -> Path:
    for run_id, is_healthy in truth.items():
        append_label(
            folder / "labels.csv", Label(run_id, int(not is_healthy), who=who, word="healthy" if is_healthy else "failed")
        )
    return folder / "labels.csv"


def test_judge_quality_is_measured_on_the_verdicts_that_count(
    tmp_path: Path, subtests: pytest.Subtests, snapshot: Snapshot
) -> None:
    """The called tools are the truth; the judge passes and fails fixed tasks."""

    def answer(text: str) -> str:
        was_made = '"tool": "check_line"' in text and "check_line('3')" not in text
        return verdict("passed" if was_made or "check_line('2')" in text else "failed")

    judge, _ = judge_by(answer)
    results = small(8, folder=tmp_path / "exp", primary=judge, checks=[was_called]).run_sync(show=False)
    truth = {row.run_id: bool(row.values["was_called"]) for row in results.rows}
    path = labelled(tmp_path / "exp", truth)
    found = judge.quality(path)
    with subtests.test("by plain code"):
        healthy = [row for row in results.rows if truth[row.run_id]]
        failed = [row for row in results.rows if not truth[row.run_id]]
        assert found.rates.sensitivity.value == sum(bool(row.values["judge"]) for row in healthy) / len(healthy) < 1
        assert found.rates.specificity.value == sum(not row.values["judge"] for row in failed) / len(failed)
        assert {*found.by_arm} == {"off", "matrix"} and len(found.judged) == 16
    with subtests.test("from a frame, and results"):
        assert judge.quality(labels(path), results).judged == judge.quality(path, tmp_path / "exp").judged
        assert sorted(judge.quality(labels(path), results).judged) == sorted(found.judged)
    with subtests.test("a comparison is corrected by it, to the truth if all is labelled"):
        exact = compare(results, "matrix", "off", primary="was_called")
        assert compare(results, "matrix", "off", quality=found).difference == pytest.approx(exact.difference)
        assert compare(results, "matrix", "off").difference != pytest.approx(exact.difference)
    with subtests.test("of another rubric it is refused"), pytest.raises(SettingsError, match="but the primary is"):
        compare(results, "matrix", "off", quality=Judge(judge.model, "Another.").quality(path, results))
    with subtests.test("another judge has no verdict in these results"):
        assert Judge(judge.model, "Another.").quality(path, results).unjudged == 16
    with subtests.test("what people disagree about is left out and said"):
        labelled(tmp_path / "exp", {results.rows[0].run_id: not truth[results.rows[0].run_id]}, who="bob")
        assert judge.quality(path).disputed == 1 and len(judge.quality(path).judged) == 15
        assert repr(judge.quality(path)) == snapshot


def test_quality_of_recorded_runs_needs_no_model_call(tmp_path: Path) -> None:
    small(3, folder=tmp_path / "exp").run_sync(show=False)
    judge, model = judge_of_calls()
    runs = load_traces(tmp_path / "exp")
    path = labelled(tmp_path / "exp", {run.id: was_called(run) for run in runs})
    assert judge.quality(path).unjudged == 6 and not model.requests
    asyncio.run(judge.assess(tmp_path / "exp"))
    count = len(model.requests)
    found = judge.quality(path)
    assert found.unjudged == 0 and len(model.requests) == count
    assert {one.is_healthy == one.is_passed for one in found.judged} == {True}
    assert {one.arm for one in found.judged} == {"off", "matrix"}
    assert Judge(model, f"{RUBRIC} Another.").quality(path).unjudged == 6


def test_labels_that_cannot_be_interpreted_are_refused(tmp_path: Path) -> None:
    judge, _ = judge_of_calls()
    runs = load_traces("healthy")
    label(runs, tmp_path / "labels.csv", labels=["good", "bad"]).judge(1)
    with pytest.raises(SettingsError, match="healthy or failed"):
        judge.quality(tmp_path / "labels.csv")
    with pytest.raises(SettingsError, match="do not identify their runs"):
        judge.quality(labels(tmp_path / "labels.csv"))
    with pytest.raises(TraceError, match="lacks the columns"):
        judge.quality(labels(tmp_path / "labels.csv").drop(columns="label"), runs)
