"""Saving and loading of runs."""

from __future__ import annotations

import os
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import play

from agentnb import Agent, Run, Store, load_trace, load_traces, save_trace
from agentnb.advice import ReadLoosely
from agentnb.cli.shell_commands import SHELL
from agentnb.core.log.wire import encode
from agentnb.errors import StoreError, TraceError
from agentnb.interchange.files import files_of
from agentnb.interchange.trace_file import Problem
from agentnb.models import ScriptedModel


def do(store: Store | None = None, text: str = "Done. ✓") -> Run:
    return play(text, prompt="Go", store=store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def three(store: Store) -> list[Run]:
    return sorted((do(store, f"Answer {number}") for number in range(3)), key=lambda run: run.id)


def test_saved_run_loads_as_an_equal_run(tmp_path: Path) -> None:
    run = do()
    path = save_trace(run, tmp_path / "new" / "folder" / "run.jsonl")
    assert path == tmp_path / "new" / "folder" / "run.jsonl" and load_trace(path) == load_trace(str(path)) == run


def test_saved_run_is_identical_to_its_log(store: Store, tmp_path: Path) -> None:
    run = do(store)
    log = re.sub(rb',"_mark":"[^"]*"}\n', b"}\n", store.path(run.id).read_bytes())  # a copy does not keep the owner
    assert save_trace(run, tmp_path / "x.jsonl").read_bytes() == log


def test_saving_replaces_a_file_and_leaves_no_temporary_files(tmp_path: Path) -> None:
    path = tmp_path / "only" / "run.jsonl"
    save_trace(do(text="one"), path)
    run = do(text="two")
    save_trace(run, path)
    assert load_trace(path) == run and list(path.parent.iterdir()) == [path]


def test_run_is_saved_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "only" / "run.jsonl"
    run = do(text="one")
    save_trace(run, path)
    count = 0

    def failing(event: Any) -> bytes:
        nonlocal count
        count += 1
        if count == 3:
            raise OSError(28, "No space left on device")
        return encode(event)

    monkeypatch.setattr("agentnb.store.atomic_files.encode", failing)
    with pytest.raises(StoreError, match=r"The run cannot be saved as .*run\.jsonl: No space left on device"):
        save_trace(do(text="two"), path)
    assert load_trace(path) == run and list(path.parent.iterdir()) == [path]


def test_unwritable_target_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="The run cannot be saved as"):
        save_trace(do(), tmp_path / "file" / "run.jsonl")


@pytest.mark.parametrize("name", ["run.html", "run.HTM"])
def test_html_name_saves_a_page_that_loads_again(tmp_path: Path, name: str) -> None:
    run = do(text="Done. </template><script>alert(1)</script> ✓")
    page = save_trace(run, tmp_path / name)
    assert list(tmp_path.iterdir()) == [page]
    text = page.read_text("utf-8")
    assert text.lower().startswith("<!doctype html>") and "Done." in text and "<script" not in text
    assert load_trace(page) == run and load_traces(tmp_path) == [run]


def test_page_with_a_damaged_or_missing_log_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    text = save_trace(do(), tmp_path / "run.html").read_text("utf-8")
    start = text.index('<template id="agentnb-log">') + 27
    damaged = {
        "gone": (text[: start - 27], "contains no log"),
        "cut": (text[: start + 40] + "</template>", "damaged|cut off"),
        "changed": (text[:start] + "AAAA" + text[start + 4 :], "damaged"),
        "foreign": ("<!doctype html><p>Hello", "not in a format"),
    }
    for name, (content, said) in damaged.items():
        with (
            subtests.test(name),
            pytest.raises(TraceError, match=rf"{name}\.html.*({said})|({said}).*{name}\.html|in .*{name}\.html"),
        ):
            (tmp_path / f"{name}.html").write_text(content, encoding="utf-8")
            load_trace(tmp_path / f"{name}.html")


def test_path_may_start_with_a_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    run = do()
    assert save_trace(run, "~/run.jsonl") == tmp_path / "run.jsonl"
    assert load_trace("~/run.jsonl") == load_traces("~/run.jsonl")[0] == run


def test_log_truncated_anywhere_is_an_interrupted_run(tmp_path: Path) -> None:
    """At each end of an event, and at every seventh byte; `tests/core/test_wire.py` has every byte."""
    run = do()
    data = save_trace(run, tmp_path / "whole.jsonl").read_bytes()
    path = tmp_path / "cut.jsonl"
    first = len(encode(run.events[0]))
    ends = list(accumulate(len(encode(event)) for event in run.events))
    at_the_ends = {end + by for end in ends for by in (-2, -1, 0, 1) if end + by <= len(data)}
    for cut in sorted({*range(0, len(data), 7), *at_the_ends}):
        path.write_bytes(data[:cut])
        if cut < first - 1:
            with pytest.raises(TraceError, match=r"cut\.jsonl"):
                load_trace(path)
            continue
        loaded = load_trace(path)
        assert loaded.events == run.events[: len(loaded.events)]
        assert loaded == run if cut >= len(data) - 1 else loaded.status == loaded.stop_reason == "interrupted"


def test_log_with_a_missing_line_is_refused(tmp_path: Path) -> None:
    run = do()
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(encode(event) for event in run.events if event.seq != 2))
    with pytest.raises(TraceError, match=r"Event 3 of run .* is out of order: 2 was expected"):
        load_trace(path)


def test_folder_is_refused_as_one_trace_and_loads_as_several(three: list[Run], store: Store) -> None:
    with pytest.raises(TraceError, match=r"is a folder. Load all runs in it: load_traces\("):
        load_trace(store.folder)
    assert load_traces(store.folder) == three


def test_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    for load in (load_trace, load_traces):
        with pytest.raises(StoreError, match=r"gone\.jsonl cannot be read: No such file"):
            load(tmp_path / "gone.jsonl")


def test_missing_folder_and_id_errors_say_where_logs_are(tmp_path: Path) -> None:
    for load in (load_trace, load_traces):
        with pytest.raises(StoreError, match=r"Logs are in \.agentnb/runs, beside the notebook") as caught:
            load(tmp_path / "runs")
        assert caught.value.__suppress_context__, "one error, not two"
        with pytest.raises(StoreError, match=r"by its file: \.agentnb/runs/20261122-202337-5588b9deb93\.jsonl"):
            load("20261122-202337-5588b9deb93")
        with pytest.raises(StoreError, match=r"Examples: complex-fails, simple-fail, didnt-close-out, healthy$"):
            load("nothing")


def test_pattern_without_matches_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"No file matches .*\*\.jsonl"):
        load_traces(str(tmp_path / "*.jsonl"))


def test_runs_come_from_runs_paths_folders_patterns_and_stores(three: list[Run], store: Store) -> None:
    folder, one = store.folder, three[0]
    sources: list[Any] = [folder, str(folder), f"{folder}/*.jsonl", f"{folder.parent}/**/*.jsonl", store, three, iter(three)]
    for source in sources:
        assert load_traces(source) == three
    for source in (one, store.path(one.id), str(store.path(one.id))):
        assert load_traces(source) == [one]
    assert load_traces([store, one, [str(store.path(one.id))]]) == [*three, one, one]  # type: ignore[list-item]
    assert load_traces([]) == []


def test_relative_paths_are_resolved_from_the_current_folder(three: list[Run], store: Store) -> None:
    os.chdir(store.folder)
    assert load_traces("*.jsonl") == load_traces(".") == three
    assert [file.name for file in files_of(".")] == [f"{run.id}.jsonl" for run in three]


def test_file_named_like_a_pattern_is_read_as_a_file(tmp_path: Path) -> None:
    run = do()
    assert load_traces(save_trace(run, tmp_path / "run[1].jsonl")) == [run]


def test_foreign_file_warns_in_a_folder_but_raises_when_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = Agent(ScriptedModel(["Done."])).run_sync("Go", store=store)
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    for source in (store, tmp_path, str(tmp_path / "*.jsonl")):
        with pytest.warns(UserWarning, match=r"Left out: .*other\.jsonl"):
            assert load_traces(source) == [run]
    with pytest.raises(TraceError, match=r"other\.jsonl"):
        load_traces(tmp_path / "other.jsonl")


def test_saving_replaces_only_regular_files_and_keeps_links(tmp_path: Path) -> None:
    run = do()
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(StoreError, match=r"cannot be saved as .* it already exists and is not a file"):
        save_trace(run, tmp_path / "pipe.jsonl")
    assert (tmp_path / "pipe.jsonl").is_fifo()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    assert save_trace(run, tmp_path / "link.jsonl") == tmp_path / "link.jsonl"
    assert (tmp_path / "link.jsonl").is_symlink() and load_trace(tmp_path / "real.jsonl") == run


def test_impossible_file_name_is_refused(subtests: pytest.Subtests) -> None:
    for name in ["a\0b.jsonl", "a\ud800.jsonl", "a\0b.html", "~nobody-of-this-name/x.html"]:
        with subtests.test(name=name):
            with pytest.raises(StoreError, match="The run cannot be saved as"):
                save_trace(do(), name)


def test_problem_states_its_location_once_with_advice_per_surface(snapshot: Snapshot) -> None:
    problem = Problem("f.jsonl", "line 2", "It is no event", (ReadLoosely(lead="Read the rest"),))
    assert str(problem) == snapshot
    assert problem.text_for(SHELL) == snapshot
    assert str(Problem("f.jsonl", "", "f.jsonl is no trace", names_file=True)) == "f.jsonl is no trace"
