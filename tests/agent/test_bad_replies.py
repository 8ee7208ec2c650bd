"""Useless replies: empty, calls written as text, unknown tools, invalid arguments. Each ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asserted_sentences import Snapshot
from run_checks import assert_closed, assert_every_call_has_one_result, checked, codes, reasons, results, round_statuses
from scripted_runs import add, bare, reply

from agentnb.agent.agent import Agent
from agentnb.core.messages import Image, Text, Thinking, ToolCall
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.models.registry import make_model
from agentnb.models.scripted import Line, ScriptedModel
from agentnb.models.simulated.simulated_model import SimulatedModel
from agentnb.policies import Matrix, Minimal
from agentnb.runtime.host.live_run import LiveRun
from agentnb.testing import Answer, LoopbackServer

POLICIES = [Matrix(), Minimal()]
BOTH = pytest.mark.parametrize("policy", POLICIES, ids=["matrix", "minimal"])
EMPTY: dict[str, Line] = {
    "nothing": reply(),
    "no characters": reply(Text("")),
    "blanks": reply(Text(" \n ")),
    "thoughts": reply(Thinking("I am done.", {"signature": "s"})),
    "an unknown stop reason": reply(stop_reason="never_heard_of"),
    "a stop sequence": reply(stop_reason="stop_sequence"),
}
CLAIM = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
ADD = ToolCall("add", {"a": 1, "b": 2})
OPEN = ToolCall("todo_operations", {"operation": "add", "newTodos": [{"title": "One"}]})


def ran(*replies: Line, prompt: str = "go", **settings: Any) -> tuple[Run, ScriptedModel]:
    """Run this script, which must be used up, and check the run against its events."""
    model = ScriptedModel(replies)
    run = Agent(model, **{"tools": [add], **settings}).run_sync(prompt)
    assert len(model.requests) == len(replies), run
    checked(run)
    return run, model


# Empty answers


@pytest.mark.req("K2.1", "R0.70")
def test_empty_answer_is_pointed_out_to_the_model(subtests: pytest.Subtests) -> None:
    for kind, policy in itertools.product(EMPTY, POLICIES):
        with subtests.test(kind=kind, policy=policy):
            run, model = ran(EMPTY[kind], "It is done.", policy=policy)
            assert (run.status, run.stop_reason, run.text) == ("completed", "natural", "It is done.")
            assert reasons(run) == ["prompt", "empty_answer"]
            assert round_statuses(run) == ["premature_stop_nudge", "natural_completion"]
            assert "Your last message was empty" in model.requests[1].messages[-1].text
            assert not run.warnings


@pytest.mark.req("K2.1")
def test_second_consecutive_empty_answer_fails_the_run(subtests: pytest.Subtests) -> None:
    for kind, policy in itertools.product(EMPTY, POLICIES):
        with subtests.test(kind=kind, policy=policy):
            run, _ = ran(EMPTY[kind], EMPTY[kind], policy=policy)
            assert (run.status, run.stop_reason) == ("failed", "error")
            assert run.error is not None and run.error.message == "The model gave two empty answers in a row" and run.error.hint
            assert round_statuses(run) == ["premature_stop_nudge", "success"]


@pytest.mark.req("K2.1")
@BOTH
def test_empty_answer_without_tools_is_also_pointed_out(policy: Matrix) -> None:
    model = ScriptedModel([reply(), "Two."])
    run = bare(model, policy=policy).run_sync("one and one?")
    assert (run.status, run.text) == ("completed", "Two.")
    assert [message.role for message in model.requests[1].messages] == ["user"]


@pytest.mark.req("K2.1")
def test_empty_answer_after_each_call_is_pointed_out_again() -> None:
    run, model = ran(["I add.", ADD], reply(), ADD, reply(), "It is 3.")
    assert (run.status, run.text) == ("completed", "It is 3.")
    assert reasons(run) == ["prompt", "tool_results", "empty_answer", "tool_results", "empty_answer"]
    assert model.requests[2].messages[-1].role == "tool"


@pytest.mark.req("R0.9", "K2.1")
def test_two_empty_answers_leave_the_earlier_text_as_result() -> None:
    run, _ = ran(["It will be 3.", ADD], reply(), reply())
    assert (run.status, run.text) == ("failed", "It will be 3.")


@pytest.mark.req("R0.33")
def test_marker_alone_is_not_an_empty_answer() -> None:
    run, _ = ran("[WORKFLOW_COMPLETE]")
    assert (run.status, run.stop_reason) == ("completed", "workflow_complete")
    run, _ = ran("[CONTINUE]", "Done.")
    assert reasons(run) == ["prompt", "continue_marker"]


def test_picture_alone_is_not_an_empty_answer() -> None:
    run, _ = ran(reply(Image("image/png", b"png")))
    assert (run.status, run.stop_reason) == ("completed", "natural")


@pytest.mark.req("K2.1", "R0.36")
def test_empty_answer_with_open_todos_is_nudged_before_the_todos() -> None:
    run, _ = ran(OPEN, *[reply()] * 7)
    assert reasons(run) == ["prompt", "tool_results", "empty_answer", *["open_todos"] * 5]
    assert (run.status, run.stop_reason) == ("stopped", "todo_intervention_exhausted")


@pytest.mark.req("K2.1", "R0.36")
def test_minimal_policy_fails_on_empty_answers_after_nudging() -> None:
    run, _ = ran(OPEN, *[reply()] * 5, policy="minimal")
    assert reasons(run) == ["prompt", "tool_results", "empty_answer", *["todo_nudge"] * 3]
    assert (run.status, run.stop_reason) == ("failed", "error")
    assert run.error is not None and "two empty answers" in run.error.message


@pytest.mark.req("K2.1", "K0.7")
def test_workflow_mode_fails_only_on_consecutive_empty_answers() -> None:
    run, _ = ran(reply(), reply(), policy=Matrix(workflow_mode=True))
    assert (run.status, run.stop_reason) == ("failed", "error")
    run, _ = ran(reply(), "Hm.", reply(), "[WORKFLOW_COMPLETE]", policy=Matrix(workflow_mode=True))
    assert reasons(run) == ["prompt", "empty_answer", "workflow_mode", "empty_answer"]
    assert (run.status, run.stop_reason) == ("completed", "workflow_complete")


@pytest.mark.req("R0.87", "K2.1")
def test_user_message_takes_precedence_over_any_bad_reply(subtests: pytest.Subtests) -> None:
    def check(bad: Line, policy: Matrix) -> None:
        begun, handle = threading.Event(), list[LiveRun]()

        def said_meanwhile(request: Request) -> Line:
            assert begun.wait(30)
            handle[0].say("And now?")
            return bad

        handle.append(Agent(ScriptedModel([said_meanwhile, "Now this."]), tools=[add], policy=policy).start("go"))
        begun.set()
        run = handle[0].result(30)
        assert reasons(run) == ["prompt", "said"]
        assert (run.status, run.text) == ("completed", "Now this.")

    for bad, policy in itertools.product(
        [reply(), reply(stop_reason="refusal"), reply(Text("Th"), stop_reason="length"), CLAIM], POLICIES
    ):
        with subtests.test(bad=bad, policy=policy):
            check(bad, policy)


@pytest.mark.req("K2.1")
def test_empty_answer_after_user_message_starts_a_new_count() -> None:
    begun, handle = threading.Event(), list[LiveRun]()

    def said_meanwhile(request: Request) -> Line:
        assert begun.wait(30)
        handle[0].say("And now?")
        return reply()

    handle.append(Agent(ScriptedModel([said_meanwhile, reply(), "Now this."]), tools=[add]).start("go"))
    begun.set()
    run = handle[0].result(30)
    assert reasons(run) == ["prompt", "said", "empty_answer"]
    assert (run.status, run.text) == ("completed", "Now this.")


@pytest.mark.req("K2.1")
def test_other_bad_reply_does_not_reset_the_empty_count() -> None:
    run, _ = ran(reply(), CLAIM, reply())
    assert reasons(run) == ["prompt", "empty_answer", "claimed_call"]
    assert (run.status, run.stop_reason) == ("failed", "error")


def test_empty_reply_is_not_sent_in_the_next_request() -> None:
    _, model = ran(reply(), "One.", prompt="one", guidance="off", todos=False)
    assert [(m.role, m.text.partition(":")[0]) for m in model.requests[1].messages] == [
        ("user", "one\n\nYour last message was empty")
    ]


# Calls written as text


@pytest.mark.req("R0.70", "R0.81")
@BOTH
def test_call_written_as_text_is_reported_as_not_run(policy: Matrix) -> None:
    run, model = ran(CLAIM, ADD, "It is 3.", policy=policy)
    assert (run.status, run.text) == ("completed", "It is 3.")
    assert reasons(run) == ["prompt", "claimed_call", "tool_results"]
    assert round_statuses(run) == ["narration_without_tool_call", "success", "natural_completion"]
    text = model.requests[1].messages[-1].text
    assert "a call to add" in text and "Call add through the tool interface" in text and "{{" not in text
    assert not run.warnings


@pytest.mark.req("R0.70", "R0.81")
@BOTH
def test_second_call_written_as_text_becomes_answer_with_warning(policy: Matrix, snapshot: Snapshot) -> None:
    run, _ = ran(CLAIM, "add(1, 2)", policy=policy)
    assert (run.status, run.stop_reason, run.text) == ("completed", "natural", "add(1, 2)")
    assert list(run.warnings) == snapshot


@pytest.mark.req("R0.81")
def test_warning_names_both_problems_of_an_answer() -> None:
    run, _ = ran(CLAIM, reply(Text(CLAIM), stop_reason="never_heard_of"))
    assert "never_heard_of" in run.warnings[0] and "a call to add" in run.warnings[0]


@pytest.mark.req("R0.81")
def test_call_written_as_text_without_tools_is_an_answer() -> None:
    run = bare(ScriptedModel([CLAIM])).run_sync("How does a model call add?")
    assert (run.status, run.stop_reason, run.text) == ("completed", "natural", CLAIM)
    assert not run.warnings


@pytest.mark.req("R0.81")
def test_call_written_as_text_beside_real_call_stays_text() -> None:
    run, _ = ran([CLAIM, ADD], "It is 3.")
    assert reasons(run) == ["prompt", "tool_results"]


@pytest.mark.req("R0.81", "R0.34")
def test_complete_marker_precedes_claimed_call_and_continue_follows_it() -> None:
    run, _ = ran(f"{CLAIM}\n[WORKFLOW_COMPLETE]")
    assert (run.status, run.stop_reason) == ("completed", "workflow_complete")
    run, _ = ran(f"{CLAIM}\n[CONTINUE]", "Done.")
    assert reasons(run) == ["prompt", "claimed_call"]


@pytest.mark.req("R0.81")
def test_simulated_personas_never_send_bad_replies(subtests: pytest.Subtests) -> None:
    for persona, seed in itertools.product(
        ["disciplined", "forgetful", "chatty", "looping", "planner", "early-stopper", "mixed"], range(4)
    ):
        with subtests.test(persona=persona, seed=seed):
            prompt = "- First `add(1, 2)`\n- Then `add(3, 4)`, please\n- `add(5, 6)`"
            for asked in (prompt, "add(1, 2)", "Hello"):
                run = Agent(SimulatedModel(persona, seed=seed), tools=[add]).run_sync(asked)
                assert not {"empty_answer", "reply_cut", "claimed_call", "pause_turn"} & set(reasons(run))
                assert not any("as text, which was not run" in warning for warning in run.warnings)


# Endless bad replies

BAD: dict[str, Line] = {
    "empty": reply(),
    "cut": reply(Text("And so"), stop_reason="length"),
    "paused": reply(Text("Well"), stop_reason="pause_turn"),
    "claimed": CLAIM,
}
ROWS = [row for length in (2, 3) for row in itertools.permutations(BAD, length)]


@pytest.mark.req("K2.1")
def test_alternating_bad_replies_end_the_run(subtests: pytest.Subtests) -> None:
    for row, policy in itertools.product(ROWS, POLICIES):
        with subtests.test(row=row, policy=policy):
            replies = [BAD[name] for name in itertools.islice(itertools.cycle(row), 40)]
            run = Agent(ScriptedModel(replies), tools=[add], policy=policy).run_sync("go")
            assert run.stop_reason in ("error", "reply_cut", "natural")
            assert len(run.rounds) <= 8
            assert_closed(run)


@pytest.mark.req("K2.1")
def test_bad_replies_end_runs_with_open_todos_or_workflow_mode(subtests: pytest.Subtests) -> None:
    for row, policy in itertools.product([(name,) for name in BAD] + ROWS, [Matrix(workflow_mode=True), Matrix(), Minimal()]):
        with subtests.test(row=row, policy=policy):
            replies = [OPEN, *[BAD[name] for name in itertools.islice(itertools.cycle(row), 60)]]
            run = Agent(ScriptedModel(replies), tools=[add], policy=policy).run_sync("go")
            assert run.stop_reason != "max_rounds"
            assert len(run.rounds) <= 30
            assert_closed(run)


# Unknown tools


@pytest.mark.req("R2.6")
def test_calling_an_unknown_tool_repeatedly_ends_the_run() -> None:
    model = ScriptedModel([ToolCall("ad", {"a": 1, "b": 2})] * 50)
    run = Agent(model, tools=[add]).run_sync("go")
    assert (run.status, run.stop_reason) == ("stopped", "loop_detected")
    assert "tool not found: ad. Did you mean add?" in results(run)[0].text
    assert set(codes(run)) == {"unknown_tool", "duplicate_call_blocked"}
    assert len(run.rounds) < 10
    assert_every_call_has_one_result(run)


@pytest.mark.req("R2.6", "R0.7")
def test_calling_ever_new_unknown_tools_ends_at_the_limit() -> None:
    model = ScriptedModel([ToolCall(f"tool_{number}") for number in range(50)])
    run = Agent(model, tools=[add], max_rounds=12).run_sync("go")
    assert (run.status, run.stop_reason, len(run.rounds)) == ("limited", "max_rounds", 12)
    assert set(codes(run)) == {"unknown_tool"}


@pytest.mark.req("R2.6")
def test_model_calling_without_tools_is_advised_to_use_text() -> None:
    run = bare(ScriptedModel([ADD, "It is 3."])).run_sync("go")
    assert (run.text, codes(run)) == ("It is 3.", ["unknown_tool"])
    assert "answer with text" in results(run)[0].text


# Invalid arguments


@pytest.mark.req("R2.10")
def test_invalid_json_arguments_report_the_position_and_allow_a_retry() -> None:
    broken = '{"a": 1, "b": 2 and so on}'
    run, _ = ran(reply(ToolCall("add", broken, "x")), ADD, "It is 3.")
    assert (codes(run), run.text) == (["invalid_arguments", None], "It is 3.")
    text = results(run)[0].text
    assert "not JSON: Expecting ',' delimiter at character 16" in text
    assert f"received: {broken}" in text
    assert run.rounds[0].calls[0].arguments == broken


@pytest.mark.req("R2.10")
def test_sending_invalid_arguments_repeatedly_ends_the_run(subtests: pytest.Subtests) -> None:
    for arguments in ["{", "", [1, 2], 7, None, '{"a": 1, "b": 2}', {"a": "one", "c": 3}]:
        with subtests.test(arguments=arguments):
            model = ScriptedModel([reply(ToolCall("add", arguments))] * 50)
            run = Agent(model, tools=[add]).run_sync("go")
            assert (run.status, run.stop_reason) == ("stopped", "loop_detected")
            assert codes(run)[0] == "invalid_arguments"
            assert len(run.rounds) < 10
            assert_every_call_has_one_result(run)


@pytest.mark.req("R2.10", "R0.7")
def test_sending_ever_new_invalid_arguments_ends_at_the_limit() -> None:
    texts: Iterator[int] = itertools.count()
    model = ScriptedModel([lambda request: reply(ToolCall("add", "{" * next(texts)))] * 50)
    run = Agent(model, tools=[add], max_rounds=9).run_sync("go")
    assert (run.status, run.stop_reason, set(codes(run))) == ("limited", "max_rounds", {"invalid_arguments"})


# Ids


@pytest.mark.req("R2.11")
def test_repeated_call_ids_are_made_unique() -> None:
    call = ToolCall("add", {"a": 1, "b": 2}, "call_0")
    unknown = ToolCall("gone", "{", "call_0")
    run, model = ran([call, unknown, call], [unknown, call], "Done.")
    ids = [call.id for round in run.rounds for call in round.calls]
    assert len(set(ids)) == 5 and ids.count("call_0") == 1
    assert [result.call_id for result in results(run)] == ids
    sent = [part.id for message in model.requests[-1].messages for part in message.parts if isinstance(part, ToolCall)]
    assert sent == ids


def test_structured_answer_shaped_like_a_call_is_an_answer() -> None:
    def lookup(what: str) -> str:
        """Look something up."""
        return what

    answer = '{"name": "lookup", "arguments": {"what": "it"}}'
    with LoopbackServer([answer]) as server:
        model = make_model(server.model("openai"), output_schema={"type": "object"})
        run = Agent(model, tools=[lookup]).run_sync("Which call would you make?")
    assert (run.text, len(run.rounds), run.status, len(run.warnings)) == (answer, 1, "completed", 0)


@pytest.mark.req("K2.1")
def test_truncated_call_gets_an_error_beside_completed_calls() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    cut = Answer([ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", '{"a": 5, "b"')], stop_reason="max_tokens")
    with LoopbackServer([cut, "Done."]) as server:
        run = Agent(server.model("anthropic"), tools=[add]).run_sync("Add.")
        assert [received.problems for received in server.requests] == [(), ()]
    assert [result.error_code for result in run.rounds[0].results] == [None, "invalid_arguments"]
    assert run.rounds[0].results[0].text == "3" and "not JSON" in run.rounds[0].results[1].text and run.text == "Done."
