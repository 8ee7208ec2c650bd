"""A tool that sees a key does not bring it into the run: not into an event, the log, a table or what the model is sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentnb import settings, tables
from agentnb.agent.agent import Agent
from agentnb.core.messages import Image, Text, ToolCall
from agentnb.core.run import Run
from agentnb.core.wire import encode
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.function import tool
from agentnb.traces.store import Store

SECRET = "sk-test-0123456789abcdef"
OTHER = "sk-other-fedcba9876543210"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)


def environment() -> dict[str, str]:
    """Read the environment."""
    return {name: value for name, value in os.environ.items() if name.endswith("_KEY")}


def broken() -> str:
    """Fail with a key in the words."""
    raise RuntimeError(f"401 for {os.environ['ANTHROPIC_API_KEY']}")


def broken_below() -> str:
    """Fail with a key in the words of the cause."""
    try:
        return broken()
    except RuntimeError as error:
        raise ValueError("no luck") from error


@tool
async def parts() -> object:
    """Give several parts."""
    return (Text(os.environ["ANTHROPIC_API_KEY"]), Image("image/png", b"1"))


def run_with(function: object, name: str, store: Store | None = None) -> tuple[Run, ScriptedModel, list[object]]:
    told: list[object] = []
    model = ScriptedModel([ToolCall(name), "Done."])
    agent = Agent(model, tools=[function])
    run = agent.run_sync("go", store=store)
    return run, model, told


def everything(run: Run) -> str:
    return "\n".join([*(encode(event).decode() for event in run.events), repr(list(run.events)), repr(run.messages)])


@pytest.mark.parametrize("function", [environment, broken, broken_below, parts])
def test_what_a_tool_says_of_a_key_is_nowhere(tmp_path: Path, function: object) -> None:
    name = getattr(function, "__name__", "parts")
    run, model, _ = run_with(function, name, store=Store(tmp_path / "runs"))
    assert run.status == "completed"
    shown = [tables.tool_calls(run), tables.messages(run), tables.rounds(run), tables.events(run)]
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET not in everything(run)
    assert SECRET not in "".join(table.to_csv() for table in shown)
    assert SECRET not in repr([(request.system, list(request.messages)) for request in model.requests])
    assert files and SECRET.encode() not in files
    assert b"[key]" in files and "[key]" in everything(run)
