"""Dotted names of tools: found among variables, objects and modules without running their code."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from asserted_sentences import Snapshot

from agentnb import Agent, Workflow
from agentnb.errors import UnknownTool
from agentnb.models import ScriptedModel
from agentnb.notebook.lookup.dotted_names import dotted_names, find_dotted, is_dotted, proposed_names, typed_names
from agentnb.notebook.variable_names import find_tools
from agentnb.tools.function import FunctionTool, as_tool

RAN: list[str] = []
"""Code that ran although it should not."""


class Computed:
    """A descriptor defined by the user."""

    def __get__(self, value: Any, kind: Any = None) -> Any:
        RAN.append("descriptor")
        return len


class OfClass(type):
    @property
    def counted(cls) -> int:
        RAN.append("property of the class of a class")
        return 1


class Station(metaclass=OfClass):
    __slots__ = ("__dict__", "measured")
    computed = Computed()
    wrapped = classmethod(property(lambda _: RAN.append("property in a classmethod")))  # type: ignore[arg-type]
    size = 3

    def __init__(self) -> None:
        self.own = json.loads
        self.measured = json.dumps
        self.inner = json

    @property
    def rows(self) -> list[int]:
        RAN.append("property")
        return []

    @functools.cached_property
    def kept(self) -> list[int]:
        RAN.append("cached property")
        return []

    def __getattr__(self, name: str) -> Any:
        RAN.append(f"__getattr__ {name}")
        raise AttributeError(name)

    def read(self) -> str:
        """Read it."""
        return "read"

    @functools.lru_cache  # noqa: B019  # one object
    def cached(self) -> str:
        """Read it once."""
        return "cached"

    @classmethod
    def make(cls) -> str:
        """Make one."""
        return cls.__name__

    @staticmethod
    def rate(year: int) -> int:
        """Tell the rate."""
        return year

    async def later(self) -> str:
        """Read it later."""
        return "later"

    def _hidden(self) -> None: ...


class Disguised:
    """An object whose class is a property."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        RAN.append("__class__")
        return Station

    def __getattribute__(self, name: str) -> Any:
        RAN.append(f"__getattribute__ {name}")
        return object.__getattribute__(self, name)

    def look(self) -> str:
        """Look."""
        return "seen"


class LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        RAN.append(f"__getattr__ of a module: {name}")
        raise AttributeError(name)


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    RAN.clear()
    yield
    assert RAN == []


def notebook() -> dict[str, Any]:
    lazy = LazyModule("lazy")
    lazy.load = json.loads  # type: ignore[attr-defined]
    mine = ModuleType("mine")
    mine.researcher, mine.all_tools = Agent(ScriptedModel([])), [json.loads, json.dumps]  # type: ignore[attr-defined]
    frame = pd.DataFrame({"amount": [1, 2], "describe": [3, 4]})
    mine.made = FunctionTool(json.dumps)  # type: ignore[attr-defined]
    objects = {"sales": frame, "station": Station(), "disguised": Disguised(), "text": "abc", "n": 3}
    return {**objects, "pd": pd, "np": np, "os": os, "lazy": lazy, "mine": mine, "Station": Station, "_private": json}


def test_dotted_name_resolves_to_a_function_or_bound_method(subtests: pytest.Subtests) -> None:
    variables = notebook()
    for name, tool in {
        "sales.describe": "describe",
        "pd.read_csv": "read_csv",
        "pd.DataFrame.from_dict": "from_dict",
        "np.linalg.norm": "norm",
        "np.add": "add",
        "os.path.join": "join",
        "lazy.load": "loads",
        "mine.researcher": "researcher",
        "mine.made": "dumps",
        "text.upper": "upper",
        "station.read": "read",
        "station.cached": "cached",
        "station.make": "make",
        "station.rate": "rate",
        "station.later": "later",
        "station.own": "loads",
        "station.measured": "dumps",
        "station.inner.loads": "loads",
        "Station.make": "make",
        "Station.rate": "rate",
        "disguised.look": "look",
    }.items():
        with subtests.test(name):
            value = find_dotted(name, variables)
            assert RAN == []
            assert as_tool(value).spec.name == tool
            RAN.clear()  # of the disguised object, which making a tool may inspect


def test_method_is_bound_to_its_object_despite_equal_columns() -> None:
    variables = notebook()
    assert find_dotted("sales.describe", variables)().loc["max", "describe"] == 4
    assert find_dotted("station.read", variables)() == "read"
    assert find_dotted("Station.make", variables)() == find_dotted("station.make", variables)() == "Station"
    assert find_dotted("station.cached", variables)() == "cached"
    assert find_dotted("text.upper", variables)() == "ABC"


def test_attribute_of_the_object_itself_takes_precedence() -> None:
    variables = notebook()
    variables["station"].read = json.dumps
    assert find_dotted("station.read", variables) is json.dumps


def test_unusable_dotted_name_is_refused_with_a_suggestion(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    variables = notebook()
    for name in [
        "sale.describe",
        "sales.shape",
        "sales._mgr",
        "pd.DataFrame.describe",
        "os.missing_module_of_os",
        "station.rows",
        "station.kept.index",
        "station.computed",
        "station.wrapped",
        "station.size",
        "station.missing",
        "Station.counted",
        "Station.read",
        "lazy.lod",
        "lazy.missing",
        "n.real",
    ]:
        with subtests.test(name):
            with pytest.raises(UnknownTool) as refused:
                find_dotted(name, variables)
            assert str(refused.value) == snapshot(name)


def test_columns_and_accessors_of_frames_are_refused(subtests: pytest.Subtests) -> None:
    for name, expected in {
        "sales.amount.mean": "assign it to a variable in a cell and name the variable: amount = sales.amount",
        "sales.plot.bar": "Assign it to a variable in a cell and name the variable: plot = sales.plot",
        "sales.descrbe": "Did you mean describe?",
    }.items():
        with subtests.test(name):
            with pytest.raises(UnknownTool) as refused:
                find_dotted(name, notebook())
            assert expected in str(refused.value)


def test_only_valid_names_with_dots_are_dotted(subtests: pytest.Subtests) -> None:
    for name in ["sales.describe", "a.b.c", "größe.x"]:
        with subtests.test(name):
            assert is_dotted(name)
    for name in ["sales", "a.", ".a", "a..b", "a b.c", "1.5", "a.1", "a.b()", "files"]:
        with subtests.test(name):
            assert not is_dotted(name)


def test_tools_are_found_by_dotted_and_plain_names() -> None:
    variables = {key: value for key, value in notebook().items() if key in ("sales", "pd", "mine")}
    variables["look"] = json.loads
    tools = find_tools(["look", "sales.describe", "pd.read_csv", "sales.describe", "mine.all_tools"], variables)
    assert [as_tool(item).spec.name for item in tools] == ["loads", "describe", "read_csv", "dumps"]


def test_bare_method_name_suggests_its_variable(snapshot: Snapshot) -> None:
    with pytest.raises(UnknownTool, check=snapshot.worded):
        find_tools(["describe"], notebook())


def test_similar_functions_of_objects_and_modules_are_suggested() -> None:
    variables = notebook()
    assert proposed_names("describe", variables) == ["sales.describe"]
    assert proposed_names("read_csv", variables) == ["pd.read_csv"]
    assert proposed_names("mean", variables) == ["sales.mean", "np.mean"]
    assert proposed_names("upper", variables) == proposed_names("rows", variables) == proposed_names("_mgr", variables) == []


def test_names_after_a_dot_are_completed(subtests: pytest.Subtests) -> None:
    variables = notebook()
    for beginning, names in {
        "sales.descr": ["sales.describe"],
        "pd.read_cs": ["pd.read_csv"],
        "np.lina": ["np.linalg"],
        "np.linalg.no": ["np.linalg.norm"],
        "pd.DataFrame.from_d": ["pd.DataFrame.from_dict"],
        "pd.DataFrame.descr": [],
        "lazy.": ["lazy.load"],
        "station.r": ["station.read", "station.rate"],
        "station.k": [],
        "disguised.l": ["disguised.look"],
        "missing.": [],
        "station.rows.": [],
    }.items():
        with subtests.test(beginning):
            assert sorted(dotted_names(beginning, variables)) == sorted(names)


def test_names_of_a_compiled_pattern_are_completed() -> None:
    """Some of its methods are bound only with their class: without it, Python itself crashes."""
    assert dotted_names("words.finditer", {"words": re.compile("a")}) == ["words.finditer"]


def test_tools_remember_the_typed_name() -> None:
    typed = ["add", "sales.describe", "pd.read_csv"]
    assert typed_names(typed, ["describe", "add", "head"]) == {"describe": "sales.describe"}


def test_workflow_accepts_methods_by_plain_name() -> None:
    tools = find_tools(["sales.describe"], {"sales": notebook()["sales"]})
    flow = Workflow.from_yaml("workflow: [{id: a, type: tool, name: describe}]\n", tools=tools)
    assert flow.run_sync(show=False).status == "completed"
