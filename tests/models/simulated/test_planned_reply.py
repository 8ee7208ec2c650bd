"""The simulated model as a planner: calls in the query's list form one plan, and their results the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb.core.messages import user
from agentnb.core.request import Request, ToolSpec
from agentnb.models import SimulatedModel
from agentnb.models.simulated.personas import PERSONAS
from agentnb.models.simulated.planned_reply import MAX_STEPS

TOOLS = tuple(
    ToolSpec(name, "", {"type": "object", "properties": {"where": {}, "day": {}}, "required": ["where"]})
    for name in ("fetch", "look", "steps")
)
QUERY = "Please:\n\n- Fetch both, `fetch('brest')` and `fetch('cork')`\n- Look, `look('sea', day=1)`\n- `away(1)`\n"


def reply(query: str, results: Sequence[dict[str, Any]] = (), persona: str = "disciplined") -> str:
    """Return the persona's reply to a planning request."""
    request = Request("", (user("a template of somebody"),), TOOLS, {"planning": {"query": query, "results": results}})

    async def ask() -> Any:
        return [item async for item in SimulatedModel(persona).stream(request)][-1]

    answer = asyncio.run(ask())
    assert not answer.message.calls and answer.metadata == {}
    return str(answer.message.text)


def calls(text: str) -> list[tuple[str, Any]]:
    """The calls of a plan as JSON."""
    plan = json.loads(text)
    assert {step["type"] for step in plan["steps"]} == {"tool"}
    return [(step["name"], step["args"]) for step in plan["steps"]]


def result(name: str, args: Any, output: Any = "ok", error: str | None = None) -> dict[str, Any]:
    return {"id": "x", "name": name, "args": args, "result": output, "error": error}


def asked(name: str, action: str, content: Any = None) -> dict[str, Any]:
    """Return the person's responses about missing arguments."""
    told = {"action": action} | ({} if content is None else {"content": content})
    return result("elicitation", {"message": f'Tool "{name}" requires additional parameters.'}, json.dumps(told))


BREST, CORK = ("fetch", {"where": "brest"}), ("fetch", {"where": "cork"})
SEA = ("look", {"where": "sea", "day": 1})


@pytest.mark.req("KX.4")
def test_each_persona_plans_all_calls_of_the_list_at_once(subtests: pytest.Subtests) -> None:
    for persona in PERSONAS:
        with subtests.test(persona):
            assert calls(reply(QUERY, persona=persona)) == [BREST, CORK, SEA]
    assert json.loads(reply(QUERY))["steps"][0]["reason"].startswith("Fetch both")


def test_calls_that_have_a_result_are_not_planned_again(subtests: pytest.Subtests) -> None:
    for name, one in {
        "output": result(*BREST),
        "nothing": result(*BREST, None),
        "error": result(*BREST, None, "no such station"),
        "blocked": result(*BREST, "ok", "duplicate_call_blocked"),
    }.items():
        with subtests.test(name):
            assert calls(reply(QUERY, [one])) == [CORK, SEA]
    other_order = result("look", {"day": 1.0, "where": "sea"})
    assert calls(reply(QUERY, [result(*BREST), other_order])) == [CORK]


def test_answer_states_the_results_in_sentences(snapshot: Snapshot) -> None:
    results = [result(*BREST, {"high": 6.1}), result(*CORK, None, "no such\nstation"), result(*SEA, "rough\nsea")]
    assert reply(QUERY, results) == snapshot


def test_query_without_calls_gets_a_text_answer(snapshot: Snapshot) -> None:
    assert reply("Which tides?") == snapshot("no list")
    assert reply("") == snapshot("nothing")
    assert reply("- Which tides?\n- `away(1)`") == snapshot("no calls")


@pytest.mark.req("R1.28", "R1.43")
def test_missing_arguments_are_requested_once(snapshot: Snapshot) -> None:
    query = "- Look there `look(day=2)`\n- `fetch()`"
    look, fetch = ("look", {"day": 2}), ("fetch", {})
    assert calls(reply(query)) == [look, fetch]
    given = asked("look", "accept", {"where": "sea"})
    assert calls(reply(query, [given])) == [("look", {"day": 2, "where": "sea"}), fetch]
    for action in ("decline", "cancel"):
        assert calls(reply(query, [asked("look", action)])) == [fetch], action
    assert calls(reply(query, [asked("look", "accept", {"depth": 3})])) == [fetch], "the answer lacks the argument"
    done = [given, result("look", {"day": 2, "where": "sea"}), asked("fetch", "decline")]
    assert reply(query, done) == snapshot


def test_step_reference_uses_the_result_of_its_call() -> None:
    query = "- `fetch('brest')`\n- `look('$step[0].output.rows', day=['$step[0].output'])`"
    look = ("look", {"where": [1], "day": ["all"]})
    assert [name for name, _ in calls(reply(query))] == ["fetch", "look"]
    assert reply(query, [result(*BREST), result(*look)]).startswith("Done")
    assert calls(reply(query, [result(*look), result("look", {"where": 1})])) == [BREST]
    assert calls(reply(query, [result(*BREST), result("look", {"where": [1], "day": []})]))[0][0] == "look"


def test_long_list_is_planned_in_parts() -> None:
    query = "\n".join(f"- `look({number})`" for number in range(MAX_STEPS + 2))
    first = calls(reply(query))
    assert len(first) == MAX_STEPS
    assert len(calls(reply(query, [result(name, args) for name, args in first]))) == 2


def test_arguments_that_json_cannot_represent_are_planned() -> None:
    ((_, arguments),) = calls(reply(r"- `look('\ud800', day={1e999})`"))
    assert arguments["where"] != r"\ud800" and arguments["day"] == [None]
