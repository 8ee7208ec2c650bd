"""Functions that take a run also take the name of a file or an example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Store, diff, fork_sync, load_trace, reproduce_sync, save_trace, survey, to_code
from agentnb.errors import AgentnbError, SettingsError, StoreError, UnknownTool
from agentnb.models import ScriptedModel


def test_run_can_be_referred_to_by_name(tmp_path: Path, subtests: pytest.Subtests) -> None:
    run = Agent(ScriptedModel(["Done."]), todos=False).run_sync("Go.", store=Store(tmp_path), show=False)
    path = tmp_path / f"{run.id}.jsonl"
    ways: dict[str, Callable[[], Any]] = {
        "diff": lambda: diff(path, "healthy").a == run,
        "fork_sync": lambda: fork_sync(path, 2, model=ScriptedModel(["More."])).forked_from.run_id == run.id,
        "reproduce_sync": lambda: reproduce_sync(str(path)).text == run.text,
        "to_code": lambda: to_code(path) == to_code(run),
        "save_trace": lambda: load_trace(save_trace(path, tmp_path / "again.jsonl")) == run,
        "survey": lambda: survey([path, run])["runs"].item() == 2,
        "survey of one": lambda: survey(path)["runs"].item() == 1,
    }
    for name, way in ways.items():
        with subtests.test(name):
            assert way()


def test_misspelled_run_name_error_suggests_a_similar_one(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Callable[[], Any], type[AgentnbError], str]] = {
        "an example": (lambda: load_trace("complex-fail"), StoreError, "Did you mean complex-fails or"),
        "in a list": (lambda: survey(["healty"]), StoreError, "Did you mean healthy?"),
        "an ending": (lambda: save_trace(load_trace("healthy"), "x.htlm"), SettingsError, "Did you mean .htm or .html?"),
        "no ending": (lambda: save_trace(load_trace("healthy"), "x.foo"), SettingsError, "End the name with .jsonl, .html or"),
        "a tool": (
            lambda: Agent("simulated:disciplined", tools=["f"]),
            UnknownTool,
            "tools= contains the string 'f', not a function or a built-in tool. Pass the function itself: tools=[f]",
        ),
    }
    for name, (way, kind, told) in cases.items():
        with subtests.test(name), pytest.raises(kind) as raised:
            way()
        assert told in str(raised.value)
    assert not Path("x.foo").exists()
