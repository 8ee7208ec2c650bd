"""Replies that end a run: cut, refused, paused forever, or without announced calls."""

from __future__ import annotations

import itertools

import pytest
from run_checks import assert_closed, kinds, reasons, results
from scripted_runs import add, reply

from agentnb.agent.agent import Agent
from agentnb.core.messages import Text, Thinking, ToolCall
from agentnb.detect.run import Run
from agentnb.display.texts import states
from agentnb.models.scripted import Line, ScriptedModel
from agentnb.policies import Matrix, Minimal

CUT = ["max_tokens", "length", "max_output_tokens"]
POLICIES = [Matrix(), Minimal()]
BOTH = pytest.mark.parametrize("policy", POLICIES, ids=["matrix", "minimal"])


ADD = ToolCall("add", {"a": 1, "b": 2})


def cut(text: str, stop_reason: str = "max_tokens") -> Line:
    return reply(Text(text), stop_reason=stop_reason)


# Cut off


@pytest.mark.req("K2.1", "R2.9")
def test_truncated_reply_is_continued_and_its_parts_joined(subtests: pytest.Subtests) -> None:
    for stop_reason, policy in itertools.product(CUT, POLICIES):
        with subtests.test(stop_reason=stop_reason, policy=policy):
            model = ScriptedModel([cut("The answer is for", stop_reason), "ty-two."])
            run = Agent(model, tools=[add], policy=policy).run_sync("go")
            assert (run.status, run.stop_reason, run.text) == ("completed", "natural", "The answer is forty-two.")
            assert reasons(run) == ["prompt", "reply_cut"]
            assert not run.warnings
            assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "user"]
            assert "Continue exactly where it ended" in model.requests[1].messages[-1].text
            assert [message.text for message in run.messages if message.role == "assistant"] == ["The answer is for", "ty-two."]
            assert Run.from_events(run.events) == run


@pytest.mark.req("K2.1", "R2.9")
def test_second_consecutive_truncation_fails_and_keeps_both_parts(subtests: pytest.Subtests) -> None:
    for stop_reason, policy in itertools.product(CUT, POLICIES):
        with subtests.test(stop_reason=stop_reason, policy=policy):
            model = ScriptedModel([cut("The answer", stop_reason), cut(" is", stop_reason)])
            run = Agent(model, policy=policy).run_sync("go")
            assert (run.status, run.stop_reason, run.text) == ("failed", "reply_cut", "The answer is")
            assert run.error is not None and "max tokens reached" in str(run.error) and "Raise the limit" in run.error.hint
            assert kinds(run)[-2:] == ["ErrorRaised", "RunFinished"]
            assert len(model.requests) == 2
            assert_closed(run)


@pytest.mark.req("K2.1")
@pytest.mark.parametrize("parts", [(), (Text(" \n"),), (Thinking("Let me think about th"),)])
def test_truncated_reply_without_text_fails_the_run_at_once(parts: tuple[Text, ...]) -> None:
    model = ScriptedModel([reply(*parts, stop_reason="max_tokens")])
    run = Agent(model).run_sync("go")
    assert (run.status, run.stop_reason) == ("failed", "reply_cut")
    assert len(model.requests) == 1


@pytest.mark.req("K2.1")
def test_truncated_reply_after_a_call_may_be_continued_again() -> None:
    run = Agent(ScriptedModel([cut("I a"), ["dd.", ADD], cut("It i"), "s 3."]), tools=[add]).run_sync("go")
    assert (run.status, run.text) == ("completed", "It is 3.")
    assert reasons(run) == ["prompt", "reply_cut", "tool_results", "reply_cut"]


def test_complete_reply_is_not_joined_to_the_next() -> None:
    run = Agent(ScriptedModel([["I add.", ADD], "It is 3."]), tools=[add]).run_sync("go")
    assert run.text == "It is 3."


@pytest.mark.req("R2.9")
def test_truncated_reply_with_calls_runs_them() -> None:
    model = ScriptedModel([reply(Text("I add"), ADD, stop_reason="max_tokens"), "It is 3."])
    run = Agent(model, tools=[add]).run_sync("go")
    assert [result.text for result in results(run)] == ["3"]
    assert (run.status, run.text) == ("completed", "It is 3.")


@pytest.mark.req("K2.1")
def test_reply_that_filled_the_context_window_is_not_continued(subtests: pytest.Subtests) -> None:
    for stop_reason, policy in itertools.product(["model_context_window_exceeded", "model_length"], POLICIES):
        with subtests.test(stop_reason=stop_reason, policy=policy):
            model = ScriptedModel([cut("The answer is", stop_reason)])
            run = Agent(model, policy=policy).run_sync("go")
            assert (run.status, run.stop_reason, run.text) == ("failed", "reply_cut", "The answer is")
            assert run.error is not None and "context window" in run.error.message and "without continue_from" in run.error.hint
            assert len(model.requests) == 1


# Refused


@pytest.mark.req("K2.1")
def test_refusal_stops_the_run_with_that_reason(subtests: pytest.Subtests) -> None:
    for stop_reason, policy in itertools.product(["refusal", "content_filter"], POLICIES):
        with subtests.test(stop_reason=stop_reason, policy=policy):
            run = Agent(ScriptedModel([cut("I will not.", stop_reason)]), policy=policy).run_sync("go")
            assert (run.status, run.stop_reason, run.text) == ("stopped", "refusal", "I will not.")
            assert states.ending(run) == "The model declined to answer. Continue: agent.run(PROMPT, continue_from=run)"


@pytest.mark.req("K2.1")
def test_refusal_details_of_the_provider_are_shown(subtests: pytest.Subtests) -> None:
    for details, told in [
        ({"category": "cyber", "explanation": "It may do harm.\x1b[31m"}, "(cyber: It may do harm.\ufffd[31m)"),
        ({"category": None, "explanation": "It may do harm."}, "(It may do harm)"),
        ({"category": "cyber"}, "(cyber)"),
        ({"explanation": "x" * 1000}, f"({'x' * 299}…)"),
        ({"explanation": ["no", "text"]}, "answer."),
        ({"explanation": "  "}, "answer."),
        ("no details", "answer."),
        (None, "answer."),
    ]:
        with subtests.test(details=details, told=told):
            model = ScriptedModel([reply(stop_reason="refusal", metadata={"stop_details": details})])
            ending = states.ending(Agent(model).run_sync("go"))
            assert told in ending
            assert "\x1b" not in ending


# Paused


@pytest.mark.req("K2.1")
@BOTH
def test_reply_paused_by_the_provider_is_continued(policy: Matrix) -> None:
    run = Agent(ScriptedModel([cut("I search.", "pause_turn"), "Found."]), policy=policy).run_sync("go")
    assert (run.status, run.stop_reason, run.text) == ("completed", "natural", "Found.")
    assert reasons(run) == ["prompt", "pause_turn"]


@pytest.mark.req("K2.1")
def test_reply_paused_repeatedly_fails_the_run(subtests: pytest.Subtests) -> None:
    for words, policy in itertools.product([(), (Text("I search."),)], POLICIES):
        with subtests.test(words=words, policy=policy):
            model = ScriptedModel([reply(*words, stop_reason="pause_turn")] * 9)
            run = Agent(model, policy=policy).run_sync("go")
            assert (run.status, run.stop_reason) == ("failed", "error")
            assert run.error is not None and "pause_turn" in run.error.message and run.error.hint
            assert len(model.requests) == 4
            assert_closed(run)


@pytest.mark.req("K2.1")
def test_paused_reply_with_calls_runs_them() -> None:
    run = Agent(ScriptedModel([reply(ADD, stop_reason="pause_turn"), "It is 3."]), tools=[add]).run_sync("go")
    assert (run.text, [result.text for result in results(run)]) == ("It is 3.", ["3"])


# Known and unknown stop reasons


@pytest.mark.req("K2.1")
def test_known_stop_reason_is_a_natural_end_without_warning(subtests: pytest.Subtests) -> None:
    for stop_reason, policy in itertools.product(
        ["", "end_turn", "stop", "stop_sequence", "completed", "tool_use", "tool_calls", "eos"], POLICIES
    ):
        with subtests.test(stop_reason=stop_reason, policy=policy):
            run = Agent(ScriptedModel([cut("Done.", stop_reason)]), tools=[add], policy=policy).run_sync("go")
            assert (run.status, run.stop_reason, run.rounds[0].stop_reason) == ("completed", "natural", stop_reason)
            assert not run.warnings


@pytest.mark.req("K2.1")
@BOTH
def test_unknown_stop_reason_is_a_natural_end_with_a_warning(policy: Matrix) -> None:
    model = ScriptedModel([cut("Done.", "never_heard_of")])
    run = Agent(model, policy=policy).run_sync("go")
    assert (run.status, run.stop_reason, run.text) == ("completed", "natural", "Done.")
    assert [warning for warning in run.warnings if "'never_heard_of'" in warning] == list(run.warnings) != []
    assert len(model.requests) == 1


@pytest.mark.req("K2.1")
def test_unknown_stop_reason_is_truncated_in_the_warning() -> None:
    run = Agent(ScriptedModel([cut("Done.", "x" * 10_000)])).run_sync("go")
    assert len(run.warnings[0]) < 200


@pytest.mark.req("K2.1", "R0.80")
def test_open_todos_suppress_the_unknown_stop_reason_warning() -> None:
    replies = [ToolCall("todo_operations", {"operation": "add", "newTodos": [{"title": "One"}]}), *["Hm."] * 3]
    run = Agent(ScriptedModel([*replies, cut("Done.", "never_heard_of")]), tools=[add], policy="minimal").run_sync("go")
    assert [warning.partition(":")[0] for warning in run.warnings] == ["1 todo is still open"]


@pytest.mark.req("R0.4", "K2.1")
def test_calls_with_an_unknown_stop_reason_are_run() -> None:
    run = Agent(ScriptedModel([reply(ADD, stop_reason="never_heard_of"), "It is 3."]), tools=[add]).run_sync("go")
    assert (run.status, run.text) == ("completed", "It is 3.")
    assert not run.warnings


# Announced calls


@pytest.mark.req("R0.4", "K0.3")
def test_announced_but_missing_calls_fail_the_run(subtests: pytest.Subtests) -> None:
    for stop_reason, parts, policy in itertools.product(
        ["tool_use", "tool_calls"], [(), (Thinking("I should add."),)], POLICIES
    ):
        with subtests.test(stop_reason=stop_reason, parts=parts, policy=policy):
            model = ScriptedModel([reply(*parts, stop_reason=stop_reason), "never asked for"])
            run = Agent(model, tools=[add], policy=policy).run_sync("go")
            assert (run.status, run.stop_reason) == ("failed", "error")
            assert run.rounds[-1].status == "unexpected_empty_tools"
            assert run.error is not None and "announced" in str(run.error)
            assert len(model.requests) == 1
            assert_closed(run)


@pytest.mark.req("R0.4", "R0.33")
def test_marker_counts_even_if_announced_calls_are_missing() -> None:
    run = Agent(ScriptedModel([reply(Text("[WORKFLOW_COMPLETE]"), stop_reason="tool_use")]), tools=[add]).run_sync("go")
    assert (run.status, run.stop_reason) == ("completed", "workflow_complete")
