"""Agents with notebook tools are pickled by value, without keys."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import cloudpickle
import pandas as pd
import pytest
from asserted_sentences import Snapshot

from agentnb import Agent, Matrix, TodoBoard, ToolCall
from agentnb.agent.extension import Extension
from agentnb.agent.portable import from_portable, portable
from agentnb.core.request import Request
from agentnb.errors import MissingKey, SettingsError
from agentnb.models import ScriptedModel
from agentnb.models.model import StreamItem
from agentnb.models.registry import make_model

NOTEBOOK = '''
import msgspec
from dataclasses import dataclass, field
from agentnb import tool
from agentnb.tools.tool import ToolContext

FACTOR = 3

@dataclass
class Place:
    name: str
    rows: list[int] = field(default_factory=list)
    size: int = 2

class Size(msgspec.Struct, frozen=True, kw_only=True):
    rows: int
    columns: int = msgspec.field(default=2, name="cols")
    names: list[str] = msgspec.field(default_factory=list)

    @property
    def cells(self) -> int:
        return self.rows * self.columns

class Cube(Size):
    depth: int

def times(n: int) -> int:
    return n * FACTOR

@tool(repeatable=True)
def measure(place: Place, context: ToolContext) -> str:
    """Measure a place."""
    return f"{place.name} has {times(place.size)}"

def fill(cube: Cube) -> str:
    """Fill it."""
    return str(cube.cells * cube.depth)

def keyed(n: int) -> str:
    """Use a key."""
    return KEY[:n]
'''
WORKER = """
import json, sys
from agentnb.agent.portable import from_portable
run = from_portable(sys.stdin.buffer.read()).run_sync("go")
results = [one.text for one in run.rounds[0].results]
print(json.dumps([run.status, *results, str(run.output), type(run.output).__module__]))
"""
KEY = "sk-ant-api03-planted-and-found-nowhere-else"


@pytest.fixture
def notebook() -> dict[str, Any]:
    """Definitions of notebook cells: in `__main__`, not in a module."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(NOTEBOOK, "cell", "exec", dont_inherit=True), names)
    return names


def let_pass(held: Any, call: Any, run: Any) -> None:
    """A gate that holds something."""


class Holding:
    """A user-defined model whose client holds a key."""

    name = "mine:holding"

    def __init__(self) -> None:
        self.client = {"api_key": "another-key-that-nobody-knows-of"}

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        yield  # type: ignore[misc]  # never asked


class Bare(Holding):
    portable = True

    def __init__(self) -> None:
        """It holds nothing."""


def test_worker_process_runs_agent_and_tools_without_the_notebook(notebook: dict[str, Any]) -> None:
    calls = [ToolCall("measure", {"place": {"name": "Bay"}}), ToolCall("fill", {"cube": {"rows": 2, "cols": 3, "depth": 4}})]
    model = ScriptedModel([calls, '{"name": "Bay", "rows": [1]}'])
    tools = [notebook["measure"], notebook["fill"]]
    data = portable(Agent(model, tools=tools, output=notebook["Place"], guidance="off", todos=False))
    worker = subprocess.run([sys.executable, "-c", WORKER], input=data, capture_output=True, timeout=60, check=False)
    assert worker.returncode == 0, worker.stderr.decode()
    assert json.loads(worker.stdout) == ["completed", "Bay has 6", "24", "Place(name='Bay', rows=[1], size=2)", "__main__"]


def test_method_is_pickled_together_with_its_object() -> None:
    frame = pd.DataFrame({"amount": [1, 2, 6], "describe": [0, 0, 0]})
    calls = [ToolCall("describe", {}), ToolCall("loads", {"s": "[1]"})]
    data = portable(Agent(ScriptedModel([calls, "Done."]), tools=[frame.describe, json.loads], guidance="off", todos=False))
    frame["later"] = 0  # of this object alone
    run = from_portable(data).run_sync("go")
    described, loaded = (result.text for result in run.rounds[0].results)
    assert (run.status, loaded) == ("completed", "[1]") and "8 x 2" in described


def test_method_of_an_object_with_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    frame = pd.DataFrame({"note": [KEY]})
    with pytest.raises(SettingsError, match="contains a key"):
        portable(Agent(ScriptedModel([]), tools=[frame.describe]))


def test_unpickled_agent_has_the_same_settings_and_tools(notebook: dict[str, Any]) -> None:
    extension = Extension(name="plans", tools=[notebook["times"]], settings={"most": 3})
    agent = Agent(
        "simulated:chatty",
        tools=[notebook["measure"]],
        policy=Matrix(workflow_mode=True),
        todos=TodoBoard(["One"]),
        budget=2.0,
        extensions=[extension],
        name="far",
    )
    there = from_portable(portable(agent))
    assert (there.settings, there.toolbox.specs, there.name) == (agent.settings, agent.toolbox.specs, "far")
    assert [todo.title for todo in there.todos.read()] == ["One"]  # type: ignore[union-attr]  # it is a board


def test_model_of_a_provider_is_pickled_without_its_key(notebook: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    model = make_model("anthropic:claude?max_tokens=99&price=3/15")
    inner = Agent(model, name="inner")
    agent = Agent(model, tools=[notebook["measure"]], gates=[partial(let_pass, inner)])
    data = portable(agent)
    assert KEY.encode() not in data
    assert from_portable(data).model_name == model.name
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(MissingKey):
        from_portable(data)


def test_agent_that_holds_a_key_is_refused(
    notebook: dict[str, Any], monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    notebook["KEY"] = KEY
    of_anthropic = "anthropic:claude"
    cases: dict[str, tuple[Agent, str]] = {
        "in a variable that a tool uses": (
            Agent(of_anthropic, tools=[notebook["keyed"]]),
            "contains a key.*Read the key inside",
        ),
        "in the system prompt": (Agent(of_anthropic, system=f"Use {KEY}."), "contains a key"),
        "perhaps in a model's client": (Agent(Holding()), "is an object of yours.*portable = True"),
        "perhaps in the client of an inner agent": (
            Agent(of_anthropic, gates=[partial(let_pass, Agent(Holding()))]),
            "is an object of yours",
        ),
    }
    for name, (agent, words) in cases.items():
        with subtests.test(name), pytest.raises(SettingsError, match=words) as refused:
            portable(agent)
        assert KEY not in str(refused.value)


def test_model_declared_free_of_keys_is_pickled() -> None:
    assert isinstance(from_portable(portable(Agent(Bare()))).model, Bare)


def test_unpicklable_part_is_named_with_a_hint(snapshot: Snapshot) -> None:
    generator = (one for one in range(3))
    with pytest.raises(SettingsError, check=snapshot.worded):
        portable(Agent("simulated:chatty", gates=[partial(let_pass, generator)], name="far"))


def test_missing_package_is_named_with_an_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(SettingsError, match=r"agentnb\[stats\]"):
        portable(Agent("simulated:chatty"))


def test_plain_pickle_of_an_agent_is_refused() -> None:
    agent = Agent("simulated:chatty", name="clerk")
    for pickler in (pickle, cloudpickle):
        with pytest.raises(SettingsError, match=r"Agent clerk cannot be pickled, because .*portable\(agent\)"):
            pickler.dumps({"agent": agent})
    assert copy.deepcopy([agent]) == [agent] and copy.copy(agent) is agent


def test_bytes_that_are_not_a_portable_agent_are_refused() -> None:
    import pickle

    with pytest.raises(SettingsError, match="are not an agent"):
        from_portable(pickle.dumps([1]))
