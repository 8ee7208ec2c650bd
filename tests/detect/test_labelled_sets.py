"""`make scores`: the detectors on every labelled set of a folder, beside the best naive rule and the run length."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_benchmark

from agentnb import examples

EXAMPLES = Path(examples.__file__).parent
COLUMNS = "run_id,repetition,label_kind,confidence,primary,file,run_selector\n"
ROWS = [
    "told:complex-fails,1,single-reader,high,0,complex-fails.json,",
    "told:healthy,0,single-reader,low,0,healthy-research.json,",
    "told:healthy,1,machine-self-report,low,0,healthy-research.json,",  # the agent's own words are not a label
    "quiet:simple,0,single-reader,high,0,gpt-simple-fail.json,",
]


BENCH = load_benchmark("detectors")


def labelled(folder: Path, rows: Sequence[str] = ROWS) -> Path:
    """Create a folder with the packaged examples and these labels."""
    folder.mkdir(exist_ok=True)
    for path in EXAMPLES.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "labels.csv").write_text(COLUMNS + "\n".join(rows) + "\n", encoding="utf-8")
    return folder


def scores(capsys: pytest.CaptureFixture[str], *given: str) -> list[str]:
    """Return the printed rows of the first table."""
    BENCH.main([*given])
    return [" ".join(line.split()) for line in capsys.readouterr().out.partition("\n\n")[0].splitlines()[1:]]


def test_labelled_set_has_a_line_with_hits_alarms_and_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = scores(capsys, str(labelled(tmp_path)))
    assert found[:3] == [
        "quiet no 1 0 of 1 0 (0-79)",
        "told no 2 1 of 1 1.00 (0.34-1.00) 0 of 1 0 (0-79) texts 1.00 (0.34-1.00) 0.67 (0.17-0.95) from 7",
        "told, sure no 1 1 of 1 1.00 (0.34-1.00) 0 of 0 texts 1.00 (0.34-1.00) 1.00 (0.34-1.00) from 7",
    ]
    assert [line.split(" 1 of 1")[0] for line in found[3:]] == ["all 3", "all, sure 2"]


def test_rule_findings_are_counted_for_failed_and_healthy_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BENCH.main([str(labelled(tmp_path, [*ROWS, "quiet:open,0,single-reader,high,0,complex-workflow-didn't-close-out.json,"]))])
    rules = [line.split() for line in capsys.readouterr().out.partition("rules of `default`:\n")[2].splitlines()]
    assert rules[0][:6] == ["rule", "family", "of", "1", "with", "a"]
    assert [line[:4] for line in rules[1:]] == [["claim_against_record", "end", "0", "1"], ["repeated_text", "loop", "1", "0"]]


def test_labels_in_their_own_folders_are_scored_with_alarms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled(tmp_path / "a", ROWS[:1])
    labelled(tmp_path / "b", ["calm:complex,0,single-reader,high,0,complex-fails.json,"])
    found = scores(capsys, str(tmp_path))
    assert [line.split()[0] for line in found] == ["calm", "told", "all"]
    assert found[0] == "calm no 1 1 of 1 100 (21-100)"


def test_run_name_decides_its_train_or_test_part(tmp_path: Path) -> None:
    rows = [f"many:{number},0,single-reader,high,0,gpt-simple-fail.json," for number in range(60)]
    folder = str(labelled(tmp_path, rows))
    parts = {part: len(BENCH.labelled_runs(folder, part=part)) for part in ("all", "train", "apart")}
    assert parts["train"] + parts["apart"] == parts["all"] == 60 and 10 <= parts["apart"] <= 30
    assert BENCH.part_of("many:1") == BENCH.part_of("many:1")


def test_certain_labels_can_be_selected(tmp_path: Path) -> None:
    folder = str(labelled(tmp_path))
    assert [len(BENCH.labelled_runs(folder, sure=sure)) for sure in (False, True)] == [3, 2]


def test_scoring_without_traces_names_the_missing_input(tmp_path: Path, subtests: pytest.Subtests, snapshot: Any) -> None:
    for name, given in {"nothing": "", "no folder": str(tmp_path / "gone"), "no labels": str(tmp_path)}.items():
        with subtests.test(name), pytest.raises(SystemExit) as error:
            BENCH.main([given])
        assert str(error.value) == snapshot(name, FOLDER=str(tmp_path))


def test_make_scores_names_the_missing_input() -> None:
    root = Path(__file__).parents[2]
    said = subprocess.run(["make", "-n", "scores", "TRACES=a folder"], cwd=root, capture_output=True, text=True, check=True)
    assert 'benchmarks/detectors.py "a folder"' in said.stdout


def test_thresholds_come_from_the_file_with_their_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BENCH.thresholds() == BENCH.chosen()["thresholds"] and BENCH.chosen()["preset"] == "default"
    folder = str(labelled(tmp_path, [ROWS[0], ROWS[0].replace("told:", "kimi:"), ROWS[3]]))
    assert [line.split()[:2] for line in scores(capsys, folder)[:3]] == [["kimi", "yes"], ["quiet", "no"], ["told", "no"]]
    monkeypatch.setitem(BENCH.chosen.__globals__, "chosen", lambda: {"date": "2026-01-01", "sets": {}, "thresholds": {}})
    BENCH.main([folder])
    assert "chosen on 2026-01-01" in (said := capsys.readouterr().out) and "except those of nothing_new, " in said


def test_label_file_without_a_set_is_ignored(tmp_path: Path) -> None:
    labelled(tmp_path / "a", ROWS[:1])
    (tmp_path / "labels.csv").write_text("run_id,label,reminder\nr-1,1,2.1\n", encoding="utf-8")
    assert [run.set for run in BENCH.labelled_runs(str(tmp_path))] == ["told"]
