"""Replies that are cut, refused, empty or do not hold what they announce: each has its own end, and none spins."""

from __future__ import annotations

import pytest
from runs_by_hand import assert_closed, bare, kinds, reply, results

from agentnb.agent.agent import Agent
from agentnb.core.messages import Text, ToolCall
from agentnb.models.scripted import ScriptedModel


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = ToolCall("add", {"a": 1, "b": 2})


@pytest.mark.req("R2.9", "K2.1")
@pytest.mark.parametrize("stop_reason", ["max_tokens", "length", "max_output_tokens", "model_context_window_exceeded"])
def test_a_reply_that_was_cut_fails_the_run_and_keeps_the_part_that_came(stop_reason: str) -> None:
    model = ScriptedModel([reply(Text("The answer is"), stop_reason=stop_reason)])
    run = Agent(model).run_sync("go")
    assert (run.status, run.stop_reason, run.text) == ("failed", "reply_cut", "The answer is")
    assert run.error is not None and "max tokens reached" in str(run.error)
    assert kinds(run)[-2:] == ["ErrorRaised", "RunFinished"]
    assert len(model.requests) == 1


@pytest.mark.req("R2.9")
def test_a_cut_reply_that_holds_calls_runs_them_and_goes_on() -> None:
    model = ScriptedModel([reply(Text("I add"), ADD, stop_reason="max_tokens"), "It is 3."])
    run = Agent(model, tools=[add]).run_sync("go")
    assert [result.text for result in results(run)] == ["3"]
    assert (run.status, run.text) == ("completed", "It is 3.")


@pytest.mark.req("K2.1")
@pytest.mark.parametrize("stop_reason", ["refusal", "content_filter"])
def test_a_refusal_stops_the_run_with_that_reason(stop_reason: str) -> None:
    run = Agent(ScriptedModel([reply(Text("I will not."), stop_reason=stop_reason)])).run_sync("go")
    assert (run.status, run.stop_reason, run.text) == ("stopped", "refusal", "I will not.")


@pytest.mark.req("R0.4", "K0.3")
@pytest.mark.parametrize("stop_reason", ["tool_use", "tool_calls"])
def test_announced_calls_that_did_not_come_fail_the_run_instead_of_asking_again(stop_reason: str) -> None:
    model = ScriptedModel([reply(stop_reason=stop_reason), "never asked for"])
    run = Agent(model, tools=[add]).run_sync("go")
    assert (run.status, run.stop_reason) == ("failed", "error")
    assert run.rounds[-1].status == "unexpected_empty_tools"
    assert run.error is not None and "announced" in str(run.error)
    assert len(model.requests) == 1
    assert_closed(run)


@pytest.mark.req("K2.1")
@pytest.mark.parametrize("parts", [(), (Text(""),), (Text(" \n "),)])
def test_an_empty_reply_ends_the_run_at_once(parts: tuple[Text, ...]) -> None:
    model = ScriptedModel([reply(*parts), "never asked for"])
    run = Agent(model).run_sync("go")
    assert (run.status, run.stop_reason, run.text.strip()) == ("completed", "natural", "")
    assert len(model.requests) == 1


@pytest.mark.req("R0.9")
def test_after_an_empty_last_reply_the_text_of_the_run_is_what_was_said_before() -> None:
    run = Agent(ScriptedModel([["It will be 3.", ADD], reply()]), tools=[add]).run_sync("go")
    assert (run.status, run.text) == ("completed", "It will be 3.")


def test_an_empty_reply_leaves_no_empty_message_in_the_next_request() -> None:
    first = bare(ScriptedModel([reply()])).run_sync("one")
    model = ScriptedModel(["Two."])
    bare(model).run_sync("two", continue_from=first)
    assert [(m.role, m.text) for m in model.requests[0].messages] == [("user", "one\n\ntwo")]
