"""Labels by hand: an append-only file that survives a killed process."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from asserted_sentences import Snapshot

from agentnb import labels
from agentnb.errors import StoreError, TraceError
from agentnb.store.run_labels import Label, append_label, assessments_in, read_labels

AT = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl"])
def test_last_label_of_each_annotator_counts_unless_withdrawn(name: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / name
    odd = 'a, "b"\nc'
    for run_id, value, who in [("a", 1, ""), (odd, 0, "ada"), ("a", 0, ""), ("b", 1, ""), ("b", None, ""), (odd, 1, "bob")]:
        append_label(path, Label(run_id, value, 2.5, AT, who))
    assert read_labels(path) == [Label("a", 0, 2.5, AT), Label(odd, 0, 2.5, AT, "ada"), Label(odd, 1, 2.5, AT, "bob")]
    frame = labels(path)
    assert [*frame.columns] == ["run_id", "label", "seconds", "at", "who", "word", "reminder"]
    assert [str(kind) for kind in frame.dtypes] == ["str", "int64", "float64", "datetime64[us, UTC]", "str", "str", "str"]
    assert [*frame.label] == [0, 0, 1] and frame["at"][0].to_pydatetime() == AT
    assert [*labels(path, who="bob").run_id] == [odd] and len(labels(path, who="eve")) == 0


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl"])
def test_truncated_line_is_omitted_and_the_next_is_complete(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    append_label(path, Label("a", "fine", 1.0, AT))
    whole = path.read_bytes()
    append_label(path, Label("b", "loop", 1.0, AT))
    last = path.read_bytes()[len(whole) :]
    for length in range(1, len(last) - 1):
        path.write_bytes(whole + last[:length])
        append_label(path, Label("c", "fine", 1.0, AT))
        found = {label.run_id: label.label for label in read_labels(path)}
        assert found["a"] == found["c"] == "fine" and found.keys() <= {"a", "b", "c"}
    assert labels(path).label.iloc[0] == "fine"


def test_file_without_labels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("name,age\nada,36\n")
    (tmp_path / "other.jsonl").write_text('{"name": "ada"}\n')
    for name in ("other.csv", "other.jsonl"):
        with pytest.raises(TraceError, match="Choose a file written by label"):
            labels(tmp_path / name)
    with pytest.raises(StoreError, match="label\\(runs, path\\) writes it"):
        labels(tmp_path / "none.csv")
    with pytest.raises(StoreError, match="cannot be saved"):
        append_label(tmp_path, Label("a", 1))


def test_file_of_an_earlier_version_keeps_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("run_id,label,seconds,at,who\na,1,2.5,,ada\n")
    append_label(path, Label("b", 0, 1.0, AT, "ada", "healthy"))
    assert [(label.run_id, label.label, label.who, label.word) for label in read_labels(path)] == [
        ("a", 1, "ada", ""),
        ("b", 0, "ada", ""),
    ]


def test_only_healthy_and_failed_labels_determine_an_outcome(subtests: pytest.Subtests) -> None:
    cases = {
        "the word of a key": (Label("a", 1, word="failed"), "failed"),
        "the other": (Label("a", 0, word="healthy"), "passed"),
        "a text alone": (Label("a", "Failed "), "failed"),
        "a number alone": (Label("a", 1), None),
        "another word": (Label("a", 1, word="loop"), None),
        "another word for it": (Label("a", "failed", word="gave up"), None),
    }
    for name, (given, outcome) in cases.items():
        with subtests.test(name):
            said = given.assessment
            assert (said and said.outcome) == outcome and (said is None or said.source == "label")


def test_hand_typed_label_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes(b"\xef\xbb\xbfrun_id,label,at\r\na,healthy,yesterday\r\nb,failed,\r\n")
    assert {run_id: said[0].outcome for run_id, said in assessments_in(tmp_path).items()} == {"a": "passed", "b": "failed"}


def test_unrelated_file_beside_runs_is_ignored(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, data in {
        "other columns": b"name,age\nada,36\n",
        "bytes": b"\x00\xff" * 9,
        "a huge cell": b"run_id,label\n" + b"x" * 200_000,
    }.items():
        with subtests.test(name):
            (tmp_path / "labels.csv").write_bytes(data)
            assert assessments_in(tmp_path) == {}
    (tmp_path / "labels.csv").unlink()
    (tmp_path / "labels.csv").mkdir()
    assert assessments_in(tmp_path) == {}


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl"])
def test_reminder_labels_do_not_affect_run_outcomes(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for one in (Label("a", 1, word="failed"), Label("a", 0, word="failed", reminder="2.1"), Label("a", 1, reminder="2.1")):
        append_label(path, one)
    assert [(label.label, label.reminder) for label in read_labels(path)] == [(1, ""), (1, "2.1")]
    assert labels(path).reminder.tolist()[1:] == ["2.1"] and labels(path).reminder.isna().tolist() == [True, False]
    assert Label("a", 0, word="failed", reminder="2.1").assessment is None


def test_reminder_label_is_refused_in_a_file_without_its_column(tmp_path: Path, snapshot: Snapshot) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("run_id,label\na,1\n", encoding="utf-8")
    with pytest.raises(StoreError) as error:
        append_label(path, Label("a", 0, reminder="2.1"))
    assert str(error.value).replace(str(tmp_path), "FOLDER") == snapshot
    assert path.read_text(encoding="utf-8") == "run_id,label\na,1\n"
