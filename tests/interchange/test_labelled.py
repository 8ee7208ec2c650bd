"""Labels by hand decide the outcome of runs: those beside the files, and those given."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from run_builder import RunBuilder

from agentnb import Run, Store, label, load_traces, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import Assessment
from agentnb.errors import SettingsError, StoreError
from agentnb.store.run_labels import Label, append_label

AT = datetime(2026, 1, 1, tzinfo=UTC)
REWARD = Assessment("failed", "trace", "reward", 0.0)


def saved(path: Path, run_id: str, *said: Assessment) -> Path:
    builder = RunBuilder("go", run_id=run_id).round("Done.")
    for one in said:
        builder.add(w.OutcomeGiven, assessment=one)
    return save_trace(builder.add(e.RunFinished, status="completed", stop_reason="natural").run, path)


def outcomes(runs: list[Run]) -> dict[str, tuple[str, str | None]]:
    return {run.id: (run.outcome, run.outcome_from) for run in runs}


def test_labels_beside_a_file_or_in_its_folder_are_used(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    saved(tmp_path / "inner" / "a.jsonl", "a", REWARD)
    saved(tmp_path / "b.jsonl", "b", REWARD)
    append_label(tmp_path / "labels.csv", Label("a", "healthy", None, AT))
    append_label(tmp_path / "labels.csv", Label("b", "healthy", None, AT))
    both = {"a": ("passed", "label"), "b": ("passed", "label")}
    assert outcomes(load_traces(tmp_path)) == both
    assert outcomes(load_traces(tmp_path / "b.jsonl")) == {"b": ("passed", "label")}
    assert outcomes(load_traces(tmp_path / "inner")) == {"a": ("failed", "trace")}  # the outer folder was not named
    append_label(tmp_path / "inner" / "labels.csv", Label("a", "failed", None, AT))
    assert outcomes(load_traces(tmp_path)) == both | {"a": ("failed", "label")}  # the nearer label


def test_given_labels_replace_those_beside_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    saved(folder / "a.jsonl", "a", REWARD)
    append_label(folder / "labels.csv", Label("a", "failed", None, AT))
    append_label(tmp_path / "mine.jsonl", Label("a", 0, None, AT, "ada", "healthy"))
    assert outcomes(load_traces(folder, labels={"a": "healthy"})) == {"a": ("passed", "label")}
    (run,) = load_traces(folder, labels=tmp_path / "mine.jsonl")
    assert run.assessment == Assessment("passed", "label", "ada") and REWARD in run.assessments
    assert outcomes(load_traces(folder, labels={"a": "odd", "b": None})) == {"a": ("failed", "label")}
    with pytest.raises(SettingsError, match="is neither a dict of labels"):
        load_traces(folder, labels=["healthy"])  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="cannot be read"):
        load_traces(folder, labels=tmp_path / "none.csv")


def test_user_threshold_turns_scores_into_outcomes(tmp_path: Path) -> None:
    saved(tmp_path / "a.jsonl", "a", Assessment("unknown", "trace", "reward", 0.5))
    assert [run.outcome for run in load_traces(tmp_path)] == ["unknown"]
    assert [run.outcome for run in load_traces(tmp_path, threshold=0.5)] == ["passed"]
    assert [run.outcome for run in load_traces(tmp_path, threshold=0.6)] == ["failed"]


def test_cached_tables_and_lists_have_the_current_label(tmp_path: Path) -> None:
    store = Store(tmp_path)
    saved(tmp_path / "a.jsonl", "a", REWARD)
    saved(tmp_path / "b.jsonl", "b")

    def rows(source: object) -> list[list[object]]:
        frame = tables.runs(source, cache=True)  # type: ignore[arg-type]
        return frame[["run_id", "outcome", "outcome_from"]].fillna("").to_numpy().tolist()

    for source in (store, tmp_path):
        assert rows(source) == [["a", "failed", "trace"], ["b", "unknown", ""]]
    append_label(tmp_path / "labels.csv", Label("a", "healthy", None, AT))
    for source in (store, tmp_path):
        assert rows(source) == [["a", "passed", "label"], ["b", "unknown", ""]]
    assert tables.runs(store, cache=True).score.isna().all()
    assert {summary.id: summary.outcome for summary in store.summaries()} == {"a": "passed", "b": "unknown"}
    assert store.load("a").outcome == "passed"
    append_label(tmp_path / "labels.csv", Label("a", None, None, AT))
    assert rows(store)[0] == ["a", "failed", "trace"]
    assert tables.runs(store, cache=True).end.tolist() == ["Done", "Done, not checked"]
    append_label(tmp_path / "labels.csv", Label("b", "healthy", None, AT))
    assert tables.runs(store, cache=True).end.tolist() == ["Done", "Done"]
    append_label(tmp_path / "labels.csv", Label("b", None, None, AT))
    assert {summary.id: summary.outcome for summary in store.summaries()} == {"a": "failed", "b": "unknown"}


def test_widget_labels_the_shown_runs_beside_their_files(tmp_path: Path) -> None:
    saved(tmp_path / "a.jsonl", "a", REWARD)
    bench = label(tmp_path)
    bench.judge(1)
    assert bench.path == tmp_path / "labels.csv" and bench.subjects[0].run.outcome == "passed"
    assert outcomes(load_traces(tmp_path)) == {"a": ("passed", "label")}
    bench.judge(2)
    assert bench.subjects[0].run.outcome == "failed"
    bench.undo()
    assert outcomes([*[subject.run for subject in bench.subjects], *load_traces(tmp_path)]) == {"a": ("passed", "label")}
    bench.undo()
    assert outcomes([*[subject.run for subject in bench.subjects], *load_traces(tmp_path)]) == {"a": ("failed", "trace")}
    other = label(load_traces(tmp_path), labels={"fine": 0, "loop": 1}, who="bob")
    other.judge(2)
    assert other.path == Path("labels.csv") and other.subjects[0].run.outcome_from == "trace"
