"""The scripted model."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import add, play

from agentnb import Agent, ToolCall
from agentnb.core.messages import Message, Text, Thinking, user
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import ModelError, ScriptEnded
from agentnb.models import Reply, ScriptedModel

CALL = ToolCall("add", {"a": 1, "b": 2})


do = partial(play, tools=[add], prompt="Go")


def reply_to(line: Any) -> Reply:
    async def ask() -> Reply:
        items = [item async for item in ScriptedModel([line]).stream(Request("", [user("Go")]))]
        assert isinstance(items[-1], Reply)
        return items[-1]

    return asyncio.run(ask())


def test_each_call_gets_the_next_reply() -> None:
    run = do(["One.", CALL], ["Two.", CALL], "Three.")
    assert [round_.text for round_ in run.rounds] == ["One.", "Two.", "Three."]


def test_list_in_a_script_is_one_reply() -> None:
    run = do(["Both.", CALL, ToolCall("add", {"a": 3, "b": 4})], "Done.")
    assert [result.text for result in run.rounds[0].results] == ["3", "7"]


def test_script_accepts_text_parts_lists_and_functions(subtests: pytest.Subtests) -> None:
    cases = [
        ("hi", (Text("hi"),)),
        (Text("hi"), (Text("hi"),)),
        (CALL, (CALL,)),
        (Thinking("hm"), (Thinking("hm"),)),
        ([], ()),
        (("a", CALL), (Text("a"), CALL)),
        (lambda request: "made", (Text("made"),)),
        (lambda request: lambda request: ["made", CALL], (Text("made"), CALL)),
    ]
    for line, parts in cases:
        with subtests.test(line=line):
            assert reply_to(line).message == Message("assistant", parts)


def test_reply_object_is_returned_unchanged() -> None:
    reply = Reply(Message("assistant", (Text("hi"),)), Usage(3, 4), "length", {"seed": 1})
    assert reply_to(reply) is reply


def test_reply_stop_reason_depends_on_calls() -> None:
    assert (reply_to(CALL).stop_reason, reply_to("hi").stop_reason) == ("tool_use", "end_turn")


def test_scripted_reply_is_free_and_its_tokens_are_unknown() -> None:
    assert reply_to("hi").usage == Usage(cost=0.0)


def test_script_function_receives_the_request() -> None:
    seen: list[Request] = []
    do(lambda request: seen.append(request) or "ok", system="Be brief.", guidance="off", todos=False)
    assert seen[0].system.startswith("Be brief.") and seen[0].messages[-1] == user("Go")
    assert [spec.name for spec in seen[0].tools] == ["add"]


def test_requests_are_recorded_as_sent() -> None:
    model = ScriptedModel([["One.", CALL], ["Two.", CALL], "Three."])
    run = asyncio.run(Agent(model, tools=[add], guidance="off").run("Go"))
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
    assert model.requests[0].messages == [user("Go")]
    assert model.requests[2].messages == run.messages[:5]


def test_recorded_request_does_not_change_after_sending() -> None:
    sent: list[list[Message]] = []

    def answer(request: Request) -> Any:
        sent.append(list(request.messages))
        return ["Again.", CALL] if len(sent) % 3 else "Done."

    model = ScriptedModel([answer] * 6)
    agent = Agent(model, tools=[add])
    run = asyncio.run(agent.run("Go"))
    asyncio.run(agent.run("And?", continue_from=run))
    assert [len(messages) for messages in sent] == [1, 3, 5, 7, 9, 11]
    assert [list(request.messages) for request in model.requests] == sent


def test_agent_keeps_the_given_model_object() -> None:
    model = ScriptedModel(["hi"])
    agent = Agent(model)
    asyncio.run(agent.run("Go"))
    assert agent.model is model and len(model.requests) == 1


def test_exhausted_script_is_an_error(snapshot: Snapshot) -> None:
    with pytest.raises(ScriptEnded, check=snapshot.worded) as caught:
        do()
    assert isinstance(caught.value, ModelError)


def test_exhausted_script_fails_a_later_run() -> None:
    run = do(["One.", CALL])
    assert run.status == "failed" and run.error is not None
    assert run.error.type == "ScriptEnded" and "has 1 reply but reply 2 was requested" in run.error.message


def test_exception_in_a_script_is_raised_at_its_turn() -> None:
    with pytest.raises(ModelError, match="RuntimeError: boom"):
        do(RuntimeError("boom"))
    run = do(CALL, RuntimeError("boom"), "never")
    assert (run.status, len(run.rounds)) == ("failed", 2)


def test_invalid_script_item_is_named(snapshot: Snapshot) -> None:
    with pytest.raises(ModelError, check=snapshot.worded):
        do(5)


def test_unserializable_arguments_cannot_be_scripted() -> None:
    with pytest.raises(ModelError, match="TypeError"):
        do(ToolCall("add", {"a": object()}))
    assert reply_to(ToolCall("add", {"a": (1, 2)})).message.calls[0].arguments == {"a": [1, 2]}


def test_scripted_model_can_have_its_own_name() -> None:
    assert (ScriptedModel([]).name, ScriptedModel([], name="scripted:x").name) == ("scripted:script", "scripted:x")


def test_script_exhausted_by_earlier_runs_explains_and_can_repeat(snapshot: Snapshot) -> None:
    once = ScriptedModel(["One.", "Two."])
    agent = Agent(once, todos=False)
    assert [agent.run_sync("Go.", show=False).text for _ in range(2)] == ["One.", "Two."]
    with pytest.raises(ScriptEnded) as raised:
        agent.run_sync("Go.", show=False)
    assert raised.value.what == snapshot
    assert raised.value.hint == snapshot
    again = Agent(ScriptedModel(["One.", "Two."], repeat=True), todos=False)
    assert [again.run_sync("Go.", show=False).text for _ in range(5)] == ["One.", "Two.", "One.", "Two.", "One."]
    with pytest.raises(ScriptEnded, check=snapshot.worded):
        Agent(ScriptedModel([], repeat=True), todos=False).run_sync("Go.", show=False)
