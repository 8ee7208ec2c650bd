"""Context types as data: reading, writing, validation and built-in ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from ruamel.yaml import YAML

from agentnb import ContextType
from agentnb.chat.context_type import builtin_contexts
from agentnb.errors import AgentnbError, SettingsError, WorkflowProblems

EXAMPLES = Path(__file__).with_name("examples")
COMPARED = ("name", "aliases", "profile", "tools", "limits")
WHOLE: dict[str, Any] = {
    "name": "station",
    "aliases": ["gauge"],
    "intent": "Work on one station.",
    "behaviours": ["Name it."],
    "profile": "quality",
    "tools": {"first": ["tides_*"], "confirm": ["delete_*", "bash(rm *)"]},
    "plan_rules": [{"tools": ("tides_fetch",), "required": True, "most": 2}, {"hint": "Compare."}],
    "limits": {"max_seconds": None, "max_tool_calls_per_turn": 3},
}


def of_examples() -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load((EXAMPLES / "contexts.yaml").read_text(encoding="utf-8")))


@pytest.mark.req("R3.2", "K3.3")
def test_documented_contexts_are_neutrally_worded_data(subtests: pytest.Subtests) -> None:
    assert [one.name for one in builtin_contexts()] == [one["name"] for one in of_examples()]
    for documented in of_examples():
        with subtests.test(documented["name"]):
            data = ContextType.named(documented["name"]).data
            tools = {key: value for key, value in documented["tools"].items() if value}
            assert {key: data[key] for key in COMPARED} == {**{key: documented[key] for key in COMPARED}, "tools": tools}
            assert data["intent"] and len(data["behaviours"]) == len(documented["behaviours"])
            rules = [{key: value for key, value in rule.items() if key != "hint"} for rule in documented["plan_rules"]]
            assert [
                {key: list(value) if key == "tools" else value for key, value in rule.items() if key != "hint"}
                for rule in data["plan_rules"]
            ] == rules
    assert {word: ContextType.named(word).name for word in ("general", "task_update")} == {
        "general": "global",
        "task_update": "task",
    }


@pytest.mark.req("R3.5")
def test_context_is_equal_from_yaml_and_python() -> None:
    yaml = """
        name: station
        aliases: [gauge]
        intent: Work on one station.
        behaviours: [Name it.]
        profile: quality
        tools: {first: ["tides_*"], confirm: ["delete_*", "bash(rm *)"]}
        plan_rules: [{tools: [tides_fetch], required: true, most: 2}, {hint: Compare.}]
        limits: {max_seconds: null, max_tool_calls_per_turn: 3}
    """
    read, made = ContextType.read(yaml), ContextType(**WHOLE)
    assert read == made
    assert made.data == WHOLE and ContextType(**made.data) == made
    assert made.agent_limits == {"max_seconds": "none", "max_tool_calls_per_turn": 3}


def test_invalid_context_is_refused_with_valid_values(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    cases: dict[str, dict[str, Any]] = {
        "no name": {"name": " "},
        "a name with a colon": {"name": "a:b"},
        "an alias that is no word": {"aliases": ["a b"]},
        "behaviours": {"behaviours": [3]},
        "intent": {"intent": 3},
        "profile": {"profile": "qualty"},
        "tools": {"tools": ["a"]},
        "a key of tools": {"tools": {"confrim": ["a"]}},
        "no rule": {"tools": {"confirm": ["a b"]}},
        "brackets in first": {"tools": {"first": ["bash(ls)"]}},
        "no plan rule": {"plan_rules": [{"most": 1}]},
        "plan rules": {"plan_rules": 5},
        "a hint": {"plan_rules": [{"hint": 5}]},
        "no effect": {"tools": {"confirm": ["effect:wrte"]}},
        "a key of a plan rule": {"plan_rules": [{"tools": ["a"], "mosst": 1}]},
        "most": {"plan_rules": [{"tools": ["a"], "most": 0}]},
        "an unknown limit": {"limits": {"max_second": 1}},
        "a limit": {"limits": {"max_seconds": -1}},
        "on_limit": {"limits": {"on_limit": "halt"}},
        "load": {"load": "text"},
    }
    for name, settings in cases.items():
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                ContextType(**{"name": "station", **settings})
            assert str(raised.value) == snapshot(name)
    with pytest.raises(SettingsError) as unknown:
        ContextType.named("projct")
    assert str(unknown.value) == snapshot("unknown name")


def test_yaml_problems_are_all_reported_and_nothing_runs(snapshot: Snapshot) -> None:
    with pytest.raises(WorkflowProblems) as raised:
        ContextType.read(
            "intent: [a]\nbehaviors: [b]\ntools: {frist: [c]}\nload: os.system\n", "station", {"station_text": str}
        )
    assert str(raised.value) == snapshot()
    for text in ("!!python/object/apply:os.getcwd []", "- a list", ""):
        with pytest.raises(AgentnbError):
            ContextType.read(text, "station")


def test_invalid_context_application_is_refused(subtests: pytest.Subtests) -> None:
    cases: dict[str, dict[str, Any]] = {"entity": {"entity": 5}, "quality": {"models": {"qualty": "simulated:disciplined"}}}
    for words, given in cases.items():
        with subtests.test(words), pytest.raises(SettingsError, match=words):
            ContextType("station").extension(**given)


def test_context_name_ignores_case() -> None:
    station, other = ContextType("Station", aliases=["Gauge"]), ContextType("station")
    known = builtin_contexts().with_others([station])
    assert [known.canonical(word) for word in ("STATION", "gauge", "General")] == ["Station", "Station", "global"]
    both = known.with_others([other])
    assert (both.get("Station"), both.get("station")) == (station, other)
    logged = station.extension(others=[station, other]).settings["own"]
    assert [one["name"] for one in logged] == ["Station", "station"]


def test_function_loads_the_entity_text_with_clear_errors(snapshot: Snapshot) -> None:
    def fails(entity: str) -> str:
        raise LookupError(f"no {entity}")

    assert ContextType("station", load=lambda entity: f"\n \n  {entity}\n").load_text("Brest") == "  Brest"
    assert ContextType("station", load=fails).load_text("") == "" == ContextType("station").load_text("Brest")
    nothing: Any = lambda entity: None  # noqa: E731
    assert ContextType("station", load=nothing).load_text("Brest") == ""
    number: Any = lambda entity: 3  # noqa: E731
    for load in (fails, number):
        with pytest.raises(SettingsError) as raised:
            ContextType("station", load=load).load_text("Brest")
        assert str(raised.value) == snapshot(load.__name__)


def test_replacing_context_keeps_the_aliases() -> None:
    own = ContextType("global", intent="Mine.")
    known = builtin_contexts().with_others([own])
    assert known.get("general") == own == known.get("global")
    assert builtin_contexts().with_others([ContextType("mine", aliases=["general"])]).canonical("general") == "mine"
