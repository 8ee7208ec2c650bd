"""Detections over folders: equal in one process and in several, with one run in memory at a time."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shutil import copy
from threading import Lock
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from asserted_sentences import Snapshot
from run_builder import Calls

from agentnb import Run, Store, detect, examples, load_trace, load_traces, save_trace, tables
from agentnb.detect.timelines import WatchedRun
from agentnb.errors import AgentnbError, SettingsError, TraceError
from agentnb.interchange import workers
from agentnb.interchange.detecting import detected_runs
from agentnb.interchange.files import SourceFile, parts_of
from agentnb.tables.detections_table import COLUMNS

PRESETS = ["default", "openhands"]
MODULE = """
from agentnb import detect

@detect.detector(family="mine")
def third(run):
    return "The third round" if len(run.rounds) == 3 else None

def function(run):
    return "Found"

class Odd(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")

@detect.detector
def odd(run):
    raise Odd("This", "that")

def made():
    @detect.detector
    def hidden(run):
        return "Found"
    return hidden
"""


def loop(count: int, run_id: str) -> Run:
    return Calls.of(["look"] * count, run_id=run_id).run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create seven runs of three formats, and a file without a trace."""
    found = tmp_path / "traces"
    found.mkdir()
    for number in range(5):
        save_trace(loop(number + 1, f"r-{number}"), found / f"m{number}.jsonl")
    copy(examples.path("complex-fails"), found / "a.json")
    copy(examples.path("healthy"), found / "z.json")
    (found / "no.json").write_text("{}")
    return found


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Write a module with detectors."""
    (tmp_path / "own_detectors_here.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import own_detectors_here  # type: ignore[import-not-found]

    yield own_detectors_here
    del sys.modules["own_detectors_here"]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BATCH_FILES", 2)


def quiet(source: Any, *given: Any, **how: Any) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tables.detections(source, *given, **how)


@pytest.mark.req("R0.82")
def test_detections_table_contains_each_run_timeline_in_order(folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"no\.json"):
        table = tables.detections(folder, PRESETS)
    runs = load_traces(folder, strict=False)
    single = [detect.timeline(run, PRESETS).assign(run_id=run.id, model=run.model) for run in runs]
    expected = pd.concat([one for one in single if len(one)], ignore_index=True)[[*table.columns]]
    pd.testing.assert_frame_equal(table, expected)
    assert {"default", "openhands"} == {*table["preset"]} and table["run_id"].nunique() >= 4
    assert [*table.columns[2:]] == [*detect.timeline(runs[0]).columns]


def test_table_accepts_any_runs_and_keeps_columns_when_empty(folder: Path, tmp_path: Path) -> None:
    run = load_trace(folder / "m4.jsonl")
    whole = tables.detections(run)
    for source in ([run], folder / "m4.jsonl", f"{folder}/m4*", [folder / "m4.jsonl"]):
        pd.testing.assert_frame_equal(tables.detections(source), whole)
    for nothing in ([], Store(tmp_path / "none"), loop(1, "r-1")):
        empty = tables.detections(nothing)
        assert len(empty) == 0 and {name: str(dtype) for name, dtype in empty.dtypes.items()} == {
            one.name: one.dtype for one in COLUMNS
        }
    with pytest.raises(TraceError, match="is not a run"):
        tables.detections(3)  # type: ignore[arg-type]


def test_detections_by_custom_detectors_are_separated_from_presets(folder: Path) -> None:
    twice = partial(detect.blocks.RepeatedCall, 2)
    table = tables.detections(folder / "m4.jsonl", ["default", twice])
    assert {*table["preset"]} == {"default", "RepeatedCall"}
    assert {*tables.detections(folder / "m4.jsonl", twice)["preset"]} == {"RepeatedCall"}


@pytest.mark.slow("starts interpreters")
@pytest.mark.usefixtures("small_batches")
def test_worker_processes_return_the_same_findings_in_order(folder: Path, own: Any) -> None:
    presets = [*PRESETS, own.third, partial(detect.blocks.RepeatedCall, 2)]
    source = [folder, load_trace("healthy"), folder / "m3.jsonl", loop(4, "r-here")]
    told: list[list[str]] = []
    frames = []
    for processes in (1, 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frames.append(tables.detections(source, presets, processes=processes))
        told.append([str(one.message) for one in caught])
    pd.testing.assert_frame_equal(*frames)
    assert told[0] == told[1] and len(told[0]) == 1 and "no.json" in told[0][0]
    assert {*frames[0]["preset"]} == {"default", "openhands", "third", "RepeatedCall"}


@pytest.mark.slow("starts interpreters")
def test_detector_error_in_a_worker_is_raised_in_the_caller(folder: Path, own: Any) -> None:
    with pytest.raises(own.Odd, match="This and that"):
        tables.detections(folder / "m1.jsonl", own.odd)
    with pytest.raises(RuntimeError, match="Odd: This and that"):  # its class cannot be rebuilt from its message
        tables.detections(folder / "m1.jsonl", own.odd, processes=2)
    with pytest.raises(AgentnbError, match=r"no\.json"):
        tables.detections(folder / "no.json", processes=2)


def test_detector_that_cannot_be_pickled_is_refused_with_advice(
    own: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(wrong: Any) -> None:
        with pytest.raises(SettingsError, match="cannot be sent to worker processes") as caught:
            tables.detections(folder, wrong, processes=2)
        assert "top level of a module" in str(caught.value) and "leave out processes=" in str(caught.value)

    lock = Lock()
    refused(detect.detector(lambda run: lock.locked()))  # cannot be pickled at all
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    for wrong in (own.made(), lambda: detect.blocks.RepeatedCall(2), [own.made()]):
        refused(wrong)


def test_module_detector_is_pickled_by_name(own: Any) -> None:
    assert pickle.loads(pickle.dumps(own.third)) is own.third
    again = pickle.loads(pickle.dumps(detect.detector(family="stall")(own.function)))
    assert again.function is own.function and again.family == "stall"


def test_detector_from_a_module_workers_lack_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    home = ModuleType("only_in_this_process")
    monkeypatch.setitem(sys.modules, home.__name__, home)
    exec("def mine():\n    return None", vars(home))
    with pytest.raises(SettingsError, check=snapshot.worded):
        tables.detections(folder, home.mine, processes=2)


@pytest.mark.nightly("by day a detector without a module is refused in a process")
@pytest.mark.slow("starts interpreters")
def test_script_and_notebook_errors_say_where_to_define_detectors(folder: Path, subtests: pytest.Subtests) -> None:
    begins = "from agentnb import detect, tables\n@detect.detector\ndef mine(run):\n    return 'Found'\n"
    call = f"len(tables.detections({str(folder / 'm1.jsonl')!r}, {{}}, processes=2))"
    told = f"try:\n    print('rows:', {call})\nexcept Exception as error:\n    print(error)\n"
    unguarded = "from agentnb import tables\n" + told.format("'default'")
    guarded = f"{begins}if __name__ == '__main__':\n    print('rows:', {call.format('mine')})"
    without = "import sys\nsys.modules['cloudpickle'] = None\n"
    cases = {
        "a detector of the notebook": (["-c", begins + told.format("mine")], "rows: 2"),
        "the same without cloudpickle": (["-c", without + begins + told.format("mine")], "top level of a module"),
        "a script without a guard": (told_script(folder, unguarded), "if __name__ == '__main__'"),
        "a script with one": (told_script(folder, guarded), "rows: 2"),
    }
    for name, (arguments, expected) in cases.items():
        with subtests.test(name):
            out = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False).stdout
            assert expected in out


def told_script(folder: Path, text: str) -> list[str]:
    path = folder.parent / f"script_{len([*folder.parent.iterdir()])}.py"
    path.write_text(text)
    return [str(path)]


def test_only_one_run_of_a_folder_is_in_memory(folder: Path) -> None:
    gc.collect()
    for _ in detected_runs(f"{folder}/m*.jsonl"):
        gc.collect()
        assert sum(isinstance(one, WatchedRun) for one in gc.get_objects()) <= 1


@pytest.mark.slow("starts interpreters")
def test_read_ahead_is_bounded_and_abandoning_it_leaves_nothing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(workers, "BATCH_FILES", 1)
    drawn: list[SourceFile | Run] = []

    def parts() -> Iterator[SourceFile | Run]:
        for part in [*parts_of(f"{folder}/m*.jsonl")] * 10:
            drawn.append(part)
            yield part

    results = workers.results_of(parts(), len, 2)
    assert next(results) == 1 and len(drawn) <= 2 * workers.BATCHES_AHEAD
    results.close()
    assert len(drawn) <= 2 * workers.BATCHES_AHEAD


def test_batches_are_limited_in_size_and_keep_the_order(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    files = [SourceFile(str(folder / f"m{number}.jsonl")) for number in range(5)]
    run = loop(1, "r-9")
    assert [*workers.batch_files([*files[:2], run, run, *files[2:]])] == [files[:2], run, run, files[2:]]
    monkeypatch.setattr(workers, "BATCH_BYTES", 1)
    assert [*workers.batch_files(files)] == [[file] for file in files]
    monkeypatch.setattr(workers, "BATCH_BYTES", 10**9)
    monkeypatch.setattr(workers, "BATCH_FILES", 2)
    assert [*workers.batch_files([SourceFile(str(folder / "gone")), *files])] == [
        [SourceFile(str(folder / "gone")), files[0]],
        files[1:3],
        files[3:],
    ]


def test_impossible_settings_are_refused_before_reading_any_run(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no detector preset 'defualt'"):
        tables.detections(tmp_path / "nowhere", "defualt")
    for wrong in (0, -1, True, 1.5, "2"):
        with pytest.raises(SettingsError, match="Use processes=2"):
            quiet(tmp_path, processes=wrong)
