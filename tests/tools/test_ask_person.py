"""The tool for questions of a model to the person."""

from __future__ import annotations

from typing import Any

import pytest
from waiting import PATIENCE, wait_until

from agentnb import Agent, ToolCall, ask_person, tool
from agentnb.core.log.events import ToolFinished, ToolStarted
from agentnb.core.questions import ASK_PERSON
from agentnb.detect.run import Run
from agentnb.models import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun
from agentnb.tools.function import FunctionTool, as_tool


def begin(*calls: ToolCall, tools: Any = ()) -> LiveRun:
    model = ScriptedModel([list(calls), "Done."])
    live = Agent(model, tools=[ask_person, *tools], guidance="off", todos=False).start("go")
    wait_until(lambda: live.run.waiting or live.done)
    return live


def texts(run: Run) -> list[str]:
    return [result.text for round_ in run.rounds for result in round_.results]


def test_agent_asks_through_the_ask_person_tool() -> None:
    assert as_tool(ask_person).spec.name == ASK_PERSON


@pytest.mark.req("KX.5")
def test_model_receives_the_answer() -> None:
    live = begin(ToolCall("ask_person", {"question": "Which table?"}))
    (question,) = live.run.waiting
    assert (question.kind, question.message, question.schema) == ("elicitation", "Which table?", {"type": "string"})
    live.answer_in_words("the one of 2024")
    assert texts(live.result(PATIENCE)) == ["the one of 2024"]


def test_only_the_offered_options_are_accepted() -> None:
    live = begin(ToolCall("ask_person", {"question": "Which?", "options": ["red", "blue", "red"]}))
    assert live.run.waiting[0].schema == {"type": "string", "enum": ["red", "blue"]}
    with pytest.raises(ValueError, match="Please choose one of: red, blue"):
        live.answer("green")
    live.answer_in_words("Blue")
    assert texts(live.result(PATIENCE)) == ["blue"]


def test_declined_question_is_not_a_failure() -> None:
    live = begin(ToolCall("ask_person", {"question": "Which table?"}))
    live.decline()
    run = live.result(PATIENCE)
    (result,) = run.rounds[0].results
    assert not result.is_error
    assert "declined to answer" in result.text and "state your assumptions" in result.text


def test_model_is_informed_when_nobody_answers() -> None:
    model = ScriptedModel([ToolCall("ask_person", {"question": "Which table?"}), "Done."])
    (result,) = Agent(model, tools=[ask_person], guidance="off", todos=False).run_sync("go").rounds[0].results
    assert (result.is_error, result.error_code) == (True, "nobody_to_ask")


def test_only_parallel_safe_tools_run_while_a_question_is_open() -> None:
    @tool(parallel_safe=True)
    def work() -> str:
        return "worked"

    def plain() -> str:
        return "worked"

    names = ["plain", "ask_person", "work", "plain"]
    calls = [ToolCall(name, {"question": "May I?"} if name == "ask_person" else {}) for name in names]
    live = begin(*calls, tools=[work, plain])
    wait_until(lambda: sum(isinstance(event, ToolFinished) for event in live.run.events) == 2)
    assert [event.call.name for event in live.run.events if isinstance(event, ToolStarted)] == names[:3]
    live.answer("yes")
    run = live.result(PATIENCE)
    assert [event.call.name for event in run.events if isinstance(event, ToolStarted)] == names
    assert texts(run) == ["worked", "yes", "worked", "worked"]


def test_spec_describes_question_and_options() -> None:
    function_tool = as_tool(ask_person)
    assert isinstance(function_tool, FunctionTool)
    assert function_tool.signature.gaps == ()
    assert (function_tool.blocking, function_tool.parallel_safe, function_tool.timeout, function_tool.effects) == (
        True,
        False,
        None,
        frozenset(),
    )
    schema = function_tool.spec.input_schema
    assert list(schema["properties"]) == ["question", "options"] and schema["required"] == ["question"]
    assert schema["properties"]["options"]["items"] == {"type": "string"}
