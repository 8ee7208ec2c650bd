"""Continuing a conversation, and user messages during a run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from run_checks import assert_every_call_has_one_result
from scripted_runs import bare, look

from agentnb.agent.agent import Agent
from agentnb.core.log.events import CommandReceived
from agentnb.core.messages import Image, Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.store.store import Store

LONG = 30


def shape(request: Request) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in request.messages]


@pytest.mark.req("R0.87")
def test_prompt_is_the_first_message_of_the_conversation() -> None:
    run = Agent(ScriptedModel(["Done."])).run_sync("go")
    assert [(m.role, m.text) for m in run.messages] == [("user", "go"), ("assistant", "Done.")]
    assert run.prompt == "go"


@pytest.mark.req("R0.87")
def test_continued_run_sends_and_keeps_the_full_conversation(tmp_path: Path) -> None:
    model = ScriptedModel([["I look.", ToolCall("look")], "One.", "Two."])
    agent, store = bare(model, [look]), Store(tmp_path / "runs")
    first = agent.run_sync("one", store=store)
    second = agent.run_sync("two", store=store, continue_from=first)
    assert shape(model.requests[2]) == [
        ("user", "one"),
        ("assistant", "I look."),
        ("tool", ""),
        ("assistant", "One."),
        ("user", "two"),
    ]
    assert list(second.messages[:4]) == list(first.messages)
    assert (second.continued_from, second.inherited) == (first.id, 4)
    assert len(second.rounds) == 1
    assert store.load(second.id) == second


@pytest.mark.req("R0.87")
def test_continuing_does_not_change_the_first_run() -> None:
    agent = Agent(ScriptedModel(["One.", "Two."]))
    first = agent.run_sync("one")
    before = list(first.messages)
    agent.run_sync("two", continue_from=first)
    assert list(first.messages) == before


@pytest.mark.req("R0.87", "R0.7")
def test_limited_run_can_be_continued() -> None:
    model = ScriptedModel([ToolCall("look"), "Done."])
    limited = bare(model, [look], max_rounds=1).run_sync("go")
    run = bare(model, [look]).run_sync("go on", continue_from=limited)
    assert (limited.status, run.status, run.text) == ("limited", "completed", "Done.")
    last = model.requests[1].messages[-1]
    assert (last.role, last.text) == ("tool", "go on")
    assert_every_call_has_one_result(run)


@pytest.mark.req("R0.87")
def test_follow_up_message_is_read_next_round_and_stored() -> None:
    entered, go = threading.Event(), threading.Event()

    def wait() -> str:
        entered.set()
        go.wait(LONG)
        return "waited"

    model = ScriptedModel([ToolCall("wait"), "Done."])
    live = bare(model, [wait]).start("go")
    assert entered.wait(LONG)
    live.say("And be brief.")
    assert len(model.requests) == 1
    go.set()
    run = live.result(LONG)
    assert model.requests[1].messages[-1].text == "And be brief."
    assert [(m.role, m.text) for m in run.messages if m.role == "user"] == [("user", "go"), ("user", "And be brief.")]
    assert [e.text for e in run.events if isinstance(e, CommandReceived)] == ["And be brief."]


@pytest.mark.req("R0.87")
def test_user_message_before_a_natural_end_adds_a_round() -> None:
    ready = threading.Event()

    def answer(request: Request) -> str:
        ready.wait(LONG)
        live.say("One more thing.")
        return "Done."

    model = ScriptedModel([answer, "Done again."])
    live = bare(model).start("go")
    ready.set()
    run = live.result(LONG)
    assert [a.reason for a in run.rounds] == ["prompt", "said"]
    assert shape(model.requests[1])[1:] == [("assistant", "Done."), ("user", "One more thing.")]
    assert (run.status, run.text) == ("completed", "Done again.")


@pytest.mark.req("R0.87", "R0.7")
def test_user_message_too_late_for_another_round_is_stored() -> None:
    ready = threading.Event()

    def answer(request: Request) -> str:
        ready.wait(LONG)
        live.say("One more thing.")
        return "Done."

    live = Agent(ScriptedModel([answer]), max_rounds=1).start("go")
    ready.set()
    run = live.result(LONG)
    assert run.status == "limited"
    assert run.messages[-1].text == "One more thing."


@pytest.mark.req("R0.87")
def test_user_message_arriving_while_the_run_ends_is_stored() -> None:
    ready = threading.Event()

    def watch(item: object) -> None:
        if type(item).__name__ == "LimitReached":
            ready.wait(LONG)
            live.say("One more thing.")

    live = Agent(ScriptedModel([ToolCall("look")]), tools=[look], max_rounds=1).start("go", watch=watch)
    ready.set()
    run = live.result(LONG)
    assert run.status == "limited"
    assert run.messages[-1].text == "One more thing."


@pytest.mark.req("R0.87")
def test_prompt_may_be_a_message_with_a_picture() -> None:
    prompt = Message("user", (Text("What is this?"), Image("image/png", b"png")))
    model = ScriptedModel(["A dot."])
    run = bare(model).run_sync(prompt)
    assert list(model.requests[0].messages) == [prompt]
    assert run.prompt == "What is this?"


def test_lone_surrogates_in_a_prompt_do_not_break_the_run(tmp_path: Path) -> None:
    for prompt in ("a\ud800b", Message("user", (Text("a\ud800b"),))):
        run = Agent(ScriptedModel(["Done."])).run_sync(prompt, store=Store(tmp_path / "runs"))
        assert run.messages[0].text == "a\ufffdb"


@pytest.mark.req("KX.11")
def test_run_interrupted_in_tools_continues_with_all_calls_answered() -> None:
    complete = Agent(ScriptedModel([[ToolCall("look"), ToolCall("look")], "Done."]), tools=[look]).run_sync("go")
    for count in range(2, len(complete.events)):
        broken = Run.from_events(complete.events[:count])
        broken.mark_interrupted()
        model = ScriptedModel(["Fine."])
        after = bare(model).run_sync("And now?", continue_from=broken)
        calls = [call.id for message in after.messages for call in message.calls]
        answers = [part.call_id for message in after.messages for part in message.parts if isinstance(part, ToolResult)]
        assert answers == calls
        assert model.requests[0].messages[-1].text.endswith("And now?")


def test_active_run_cannot_be_continued() -> None:
    complete = Agent(ScriptedModel(["Done."])).run_sync("go")
    with pytest.raises(SettingsError, match="still running"):
        Agent(ScriptedModel([])).run_sync("more", continue_from=Run.from_events(complete.events[:-1]))
