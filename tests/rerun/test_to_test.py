"""Saved failures as tests: generated code runs, fails as the run does, and passes for a fixed run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from run_builder import RunBuilder

from agentnb import examples, load_trace, save_trace, to_test
from agentnb.core.log import events as e
from agentnb.errors import ExpectationFailed, ExpressionError, SettingsError


def executed(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, "pasted", "exec"), names)
    return names


@pytest.mark.req("R0.32")
def test_failure_becomes_a_test_cell_that_passes_after_fixing(tmp_path: Path) -> None:
    file = tmp_path / 'it\'s "the" failure.json'
    shutil.copy(examples.path("complex-fails"), file)
    code = to_test(file)
    assert "max_consecutive_assistant <= 1" in code and "loops == 0" in code and "todos_closed" not in code.split("expect(")[1]
    assert "broken in round 4" in code and "The test fails while" in code and "%" not in code
    with pytest.raises(ExpectationFailed, match="broken in round 4"):
        executed(code)
    assert code == to_test(load_trace(file))  # a foreign run knows its file
    shutil.copy(examples.path("healthy"), file)
    executed(code)


def test_pytest_finds_the_generated_function(tmp_path: Path) -> None:
    code = to_test("simple-fail", "todos_closed", 'calls["todo_operations"] > 3', form="pytest")
    (name,) = [one for one in executed(code) if one.startswith("test_")]
    with pytest.raises(AssertionError, match="todos_open is 1"):
        executed(code)[name]()


def test_unsaved_run_explains_how_to_save_it(tmp_path: Path) -> None:
    end = {"status": "stopped", "stop_reason": "blocked"}
    runs = [RunBuilder(run_id=f"r-{n}").round("No.").add(e.RunFinished, **end).run for n in (1, 2)]
    with pytest.raises(SettingsError, match=r'save_trace\(run, "failure.jsonl"\), then to_test\(run, path='):
        to_test(runs[0])
    one = save_trace(runs[0], tmp_path / "one.jsonl")
    with pytest.raises(ExpectationFailed, match="stopped"):
        executed(to_test(runs[0], path=one))
    with pytest.raises(SettingsError, match="does not contain run r-2"):
        to_test(runs[1], path=one)
    save_trace(runs[1], tmp_path / "two.jsonl")
    with pytest.raises(SettingsError, match="contains 2 runs"):
        to_test(tmp_path)
    code = to_test(runs[1], path=tmp_path)
    with pytest.raises(ExpectationFailed, match="r-2"):
        executed(code)


def test_run_of_this_notebook_is_found_in_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunBuilder(run_id="r-1").round("No.").run
    save_trace(run, tmp_path / ".agentnb" / "runs" / "r-1.jsonl")
    code = to_test(run, "rounds == 1")
    assert 'load_trace(".agentnb/runs/r-1.jsonl")' in code
    executed(code)


def test_example_run_loads_by_name_with_a_shortened_prompt() -> None:
    code = to_test(load_trace("complex-fails"))
    assert 'run = load_trace("complex-fails.json")' in code and "tell me what …\n" in code
    with pytest.raises(ExpectationFailed):
        executed(code)


def test_impossible_test_is_refused() -> None:
    with pytest.raises(SettingsError, match="meets all expectations for a healthy run"):
        to_test("healthy")
    with pytest.raises(ExpressionError, match="Did you mean loops"):
        to_test("healthy", "lops == 0")
    with pytest.raises(SettingsError, match="cell, pytest"):
        to_test("healthy", "loops == 0", form="nose")  # type: ignore[arg-type]


def test_multiline_prompt_and_expectation_stay_in_comments(tmp_path: Path) -> None:
    ended = {"status": "completed", "stop_reason": "x"}
    run = RunBuilder("go\nraise SystemExit\0\r# \u2028x").round("No.").add(e.RunFinished, **ended).run
    code = to_test(run, "rounds\n== 1", "rounds\n== 2", path=save_trace(run, tmp_path / "run.jsonl"))
    comments = ["# go raise SystemExit # x", "# rounds == 2: rounds is 1, and it never held"]
    assert code.splitlines()[:2] == comments
    with pytest.raises(ExpectationFailed, match="rounds is 1"):
        executed(code)
