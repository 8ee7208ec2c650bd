"""The simulated model follows the list in the prompt. Here without todos; with todos in test_planner."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb import Agent, Run, ToolCall
from agentnb.core.log.events import RoundStarted
from agentnb.core.messages import Message, Text, ToolResult, user
from agentnb.core.request import Request, ToolSpec
from agentnb.errors import UnknownModel
from agentnb.models import Reply, SimulatedModel
from agentnb.models.prices import Price
from agentnb.models.simulated.personas import FREE


def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


def look(where: str) -> str:
    """Looks."""
    if where == "away":
        raise ValueError("nothing there\nat all")
    return "x" * 1000 if where == "far" else f"saw {where}"


def do(prompt: str, *tools: Any) -> Run:
    return asyncio.run(Agent(SimulatedModel(), tools=tools or [add, look], todos=False).run(prompt))


def arguments(run: Run) -> list[list[tuple[str, Any]]]:
    return [[(call.name, call.arguments) for call in round_.calls] for round_ in run.rounds]


def reply_to(*messages: Message, tools: tuple[ToolSpec, ...] = ()) -> Reply:
    return ask_model(SimulatedModel(), Request("", messages, tools))


def ask_model(model: SimulatedModel, request: Request) -> Reply:
    async def ask() -> Any:
        return [item async for item in model.stream(request)][-1]

    return asyncio.run(ask())


def test_model_follows_the_list_one_item_per_round() -> None:
    run = do("Please do this:\n\n1. First `add(1)`.\n2. Then `look('here')`\n\nThank you.")
    assert arguments(run) == [[("add", {"a": 1})], [("look", {"where": "here"})], []]
    assert [round_.text for round_ in run.rounds[:2]] == ["Step 1 of 2: First add(1).", "Step 2 of 2: Then look('here')."]


def test_answer_contains_the_tool_results(snapshot: Snapshot) -> None:
    run = do("- `add(1)`\n- `look('here')`")
    assert run.text == snapshot
    assert (run.status, run.stop_reason) == ("completed", "natural")


def test_calls_may_have_positional_and_keyword_literals() -> None:
    run = do("- `add(1, b=4)`\n- `add(b=-3, a=2)`\n- `look(where='x')`")
    assert arguments(run)[:3] == [[("add", {"a": 1, "b": 4})], [("add", {"a": 2, "b": -3})], [("look", {"where": "x"})]]


def test_calls_of_one_item_share_a_round() -> None:
    run = do("- both `add(1)` and `look('here')`\n- and `add(2)`")
    assert [len(calls) for calls in arguments(run)] == [2, 1, 0]


def test_item_without_a_call_is_skipped() -> None:
    run = do("- think about it\n- `add(1)`\n- write `this` down")
    assert arguments(run) == [[("add", {"a": 1})], []]


def test_list_without_calls_is_reported(snapshot: Snapshot) -> None:
    run = do("- think\n- think `again`")
    assert run.text == snapshot
    alone = Agent("simulated:disciplined").run_sync("- Think.")
    assert alone.text == snapshot


def test_unavailable_tools_are_not_called() -> None:
    run = do("- `delete('all')`\n- `add(1)` and `remove(2)`")
    assert arguments(run) == [[("add", {"a": 1})], []]


def test_answer_names_failed_tools_with_their_errors() -> None:
    run = do("- `look('away')`")
    assert "look failed:\n\n```\nValueError: nothing there\nat all" in run.text


def test_a_long_result_is_shortened_in_the_answer() -> None:
    assert do("- `look('far')`").text.endswith("\n\nlook: " + "x" * 400 + " …")


def test_prompt_without_a_list_gets_introduction_and_tools() -> None:
    text = do("What is the meaning of life?").text
    assert "simulated model, not a language model" in text and "My tools: `add`, `look`." in text and "key" in text


def test_introduction_mentions_missing_tools() -> None:
    assert "My tools: none." in reply_to(user("hello")).message.text


def test_message_during_the_run_does_not_change_the_plan() -> None:
    begun = threading.Event()

    def watch(item: Any) -> None:
        if isinstance(item, RoundStarted) and item.index == 0:
            assert begun.wait(30)
            live.say("Please be quick")

    live = Agent(SimulatedModel(), tools=[add], todos=False).start(
        "- one `add(1)`\n- two `add(2)`\n- three `add(3)`", watch=watch
    )
    begun.set()
    run = live.result(30)
    assert arguments(run) == [[("add", {"a": 1})], [("add", {"a": 2})], [("add", {"a": 3})], []]
    assert user("Please be quick") in run.messages


def test_new_list_sent_during_the_run_is_the_new_plan() -> None:
    call = ToolCall("add", {"a": 1}, "1")
    spec = ToolSpec("add", "", {"properties": {"a": {}}})
    said = Message("tool", (ToolResult("1", "add", (Text("3"),)), Text("Rather:\n- `add(9)`")))
    reply = reply_to(user("- `add(1)`\n- `add(2)`"), Message("assistant", (call,)), said, tools=(spec,))
    assert [one.arguments for one in reply.message.calls] == [{"a": 9}]


def test_model_follows_the_newest_prompt_of_a_conversation(snapshot: Snapshot) -> None:
    agent = Agent(SimulatedModel(), tools=[add], todos=False)
    first = asyncio.run(agent.run("- `add(1)`"))
    second = asyncio.run(agent.run("- `add(5)`\n- `add(6)`", continue_from=first))
    assert arguments(second) == [[("add", {"a": 5})], [("add", {"a": 6})], []]
    assert second.text == snapshot


def test_tokens_are_estimated_and_the_cost_is_zero() -> None:
    run = do("- `add(1)`")
    assert run.usage.estimated and run.cost == 0.0
    assert all(round_.usage is not None and round_.usage.input and round_.usage.output for round_ in run.rounds)
    sent = [round_.usage.input for round_ in run.rounds if round_.usage is not None and round_.usage.input is not None]
    assert sent == sorted(sent) and sent[0] < sent[-1]


def test_same_request_gets_the_same_simulated_reply() -> None:
    request = user("- `add(1)`\n- `add(2)`")
    assert reply_to(request) == reply_to(request)


def test_simulated_model_name_contains_its_options() -> None:
    assert (SimulatedModel().name, SimulatedModel(delay=0.02).name) == (
        "simulated:disciplined",
        "simulated:disciplined?delay=0.02",
    )


def test_model_is_free_unless_it_has_a_price() -> None:
    request = Request("", (user("- `add(1)`"),))
    free, priced = (ask_model(SimulatedModel(price=price), request).usage for price in (FREE, Price.parse("3/15")))
    assert free.cost == 0.0 and free.estimated
    assert (priced.input, priced.output) == (free.input, free.output)
    assert free.input and free.output and priced.cost == pytest.approx((3 * free.input + 15 * free.output) / 1e6)


def test_unknown_persona_error_lists_the_personas(snapshot: Snapshot) -> None:
    with pytest.raises(UnknownModel, check=snapshot.worded):
        SimulatedModel("diciplined")


def test_delay_must_be_between_0_and_10_seconds(subtests: pytest.Subtests) -> None:
    for delay in [-1, 11, float("nan"), float("inf")]:
        with subtests.test(delay=delay):
            with pytest.raises(UnknownModel, match="must be between 0 and 10 seconds"):
                SimulatedModel(delay=delay)
