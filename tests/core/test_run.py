"""The fold: from events to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_builder import START, Story

from agentnb.advice import as_advice
from agentnb.context.continued_messages import history_of
from agentnb.core.log import events as e
from agentnb.core.log.logged_messages import LoggedMessages
from agentnb.core.messages import Message, Text, Thinking, ToolCall, user
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.run.rounds import FINAL_ANSWER, Retry, WorkflowRound
from agentnb.core.todos import Todo
from agentnb.core.usage import NOTHING_USED, Usage
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, TraceError

ONE, TWO, THREE = ToolCall("add", {"a": 1}, "1"), ToolCall("look", {}, "2"), ToolCall("look", {}, "3")


def two_rounds() -> Story:
    """Build a run that called two tools, the second of which failed, and then answered."""
    story = Story(prompt="How many?")
    story.begun().replied(Text("Let me see."), ONE, TWO, usage=Usage(10, 5, cost=0.25))
    story.ran(TWO, "not there", is_error=True, error_code="tool_error").ran(ONE, "3").ended()
    return story.begun(reason="tool_results").replied(Text("Three."), usage=Usage(20, 7, cost=0.5)).ended().over()


def guided_rounds() -> Story:
    """Build a run with todos, a continuation and a blocked call that ended in a loop."""
    guided = e.Guidance("matrix", "todos_tools", "Go on.")
    story = Story(Todo(1, "Add"), Todo(2, "Look"))
    story.begun().replied(ONE).ran(ONE, "3").add(e.TodosChanged, todos=(Todo(1, "Add", "in-progress"),), by="outside").ended()
    story.add(e.RoundStarted, index=1, reason="tool_results", note="Round 2 of 5.").add(e.GuidanceGiven, guidance=guided)
    story.retried(4.0, 8.0, reason="Too many requests", status=429, heard="I lo")
    story.add(e.ModelReplied, message=Message("assistant", (TWO, THREE)), signals=("continue",)).ran(TWO).blocked(THREE)
    story.add(e.TodosChanged, todos=(Todo(1, "Add", "completed"),), by="model", call_id="2").ended()
    return story.add(e.LoopDetected, rule="said", first=0, last=1, sentence="Again.").over("stopped", "loop_detected")


def streamed(*parts: Text | Thinking, **metadata: Any) -> tuple[type[e.Event], dict[str, Any]]:
    return e.ReplyStreamed, {"parts": parts, "metadata": metadata}


@pytest.mark.parametrize(
    ("facts", "reply"),
    [
        ([streamed(Thinking("Hm"), Text("I ")), streamed(Text("look."), session="s1")], (Thinking("Hm"), Text("I look."))),
        ([streamed(Text("I ")), (e.RetryScheduled, {"attempt": 1, "seconds": 1.0, "reason": "busy"})], None),
        ([streamed(Text("I ")), (e.ModelReplied, {"message": Message("assistant", (Text("I look."),))})], (Text("I look."),)),
        ([streamed(Text("I ")), (e.RoundFinished, {"index": 0, "status": "error"})], None),
    ],
)
def test_streamed_text_becomes_the_reply_after_a_crash(facts: Any, reply: Any) -> None:
    story = Story().begun().extend(*facts)
    whole, alone = folded(story), LoggedMessages(story.events)
    whole.mark_interrupted()
    alone.mark_interrupted()
    assert whole.rounds[0].reply == (None if reply is None else Message("assistant", reply))
    assert list(whole.messages) == alone.messages
    if "session" in whole.rounds[0].metadata:
        assert (whole.text, whole.rounds[0].stop_reason) == ("I look.", "broken_off")


def folded(story: Story) -> Run:
    return Run.from_events(story.events)


@pytest.mark.req("R0.2")
def test_run_exposes_its_state_after_each_event() -> None:
    story = Story(settings={"max_rounds": 7})
    run = folded(story)
    assert (len(run.rounds), run.max_rounds, run.should_continue) == (0, 7, True)
    assert (run.last_round_had_tool_results, list(run.pending), list(run.rounds)) == (False, [], [])
    story.begun().replied(ONE).ran(ONE)
    run = folded(story)
    assert run.open_round is run.rounds[0] and not run.last_round_had_tool_results
    run = folded(story.ended())
    assert run.open_round is None and run.last_round_had_tool_results
    run = folded(story.add(e.RoundStarted, index=1, reason="tool_results"))
    assert run.last_round_had_tool_results and run.open_round is run.rounds[1]
    run = folded(story.add(e.ModelReplied, message=Message("assistant", (Text("x"),))).ended())
    assert not run.last_round_had_tool_results
    assert not folded(story.over()).should_continue


@pytest.mark.req("R0.2")
def test_run_is_read_only(subtests: pytest.Subtests) -> None:
    run = folded(guided_rounds())
    for name in dir(run):
        if not name.startswith("_"):
            with subtests.test(name), pytest.raises(AttributeError):
                setattr(run, name, None)


def test_settings_are_copied() -> None:
    run = folded(Story(settings={"max_rounds": 7}))
    run.settings["max_rounds"] = 1
    assert run.max_rounds == 7


def test_first_event_sets_the_run_description() -> None:
    history = (user("before"), Message("assistant", (ONE,)))
    spec = ToolSpec("add", "Adds.", {"type": "object"})
    story = Story(parent_id="p", agent="a", model="x:y", system="s", tools=(spec,), continued_from="old", history=history)
    run = folded(story)
    assert (run.id, run.parent_id, run.agent, run.model, run.system) == ("r-1", "p", "a", "x:y", "s")
    assert (run.prompt, run.tools, run.continued_from, run.inherited) == ("Go", (spec,), "old", 2)
    assert run.messages == [*history, user("Go")]
    assert run.has_call_id("1") and not run.has_call_id("2")
    assert (run.started_at, run.status, run.stop_reason, run.ended_at) == (START, "running", None, None)
    assert run.usage == NOTHING_USED


@pytest.mark.req("R0.9")
def test_completed_run_has_its_result() -> None:
    run = folded(two_rounds())
    assert (run.text, run.status, run.stop_reason, run.error) == ("Three.", "completed", "natural", None)
    assert (len(run.rounds), run.seconds, run.usage, run.cost) == (2, 1.5, Usage(30, 12, cost=0.75), 0.75)
    assert run.started_at == START and run.ended_at == two_rounds().events[-1].at


@pytest.mark.req("R0.68")
def test_every_round_keeps_its_messages_calls_and_results() -> None:
    first, second = folded(two_rounds()).rounds
    assert (first.index, first.text, first.reason, first.is_continuation) == (0, "Let me see.", "prompt", False)
    assert first.calls == (ONE, TWO)
    assert {result.call_id: result.text for result in first.results} == {"1": "3", "2": "not there"}
    assert (first.started_at, first.ended_at) == (START.replace(second=1), START.replace(second=7))
    assert (second.index, second.text, second.calls, second.usage) == (1, "Three.", (), Usage(20, 7, cost=0.5))


@pytest.mark.req("KX.3")
def test_failed_attempts_are_kept_with_their_round_in_order() -> None:
    plain, hard = folded(guided_rounds()).rounds
    assert plain.retries == ()
    assert hard.retries == (
        Retry(1, 4.0, "Too many requests", 429, "I lo"),
        Retry(2, 8.0, "Too many requests", 429, "I lo"),
    )
    assert hard.calls == (TWO, THREE)


def test_retry_of_a_running_call_changes_only_its_retries() -> None:
    story = Story().add(e.RoundStarted, index=0, reason="prompt")
    before = folded(story)
    run = folded(story.retried(2.0, status=None))
    assert run.open_round is not None and run.open_round.retries == (Retry(1, 2.0, "The provider is overloaded"),)
    assert (run.messages, run.usage, run.status, run.text) == (before.messages, before.usage, "running", "")
    assert run.open_round.reply is None


def test_only_automatic_rounds_are_continuations() -> None:
    reasons = ["prompt", "tool_results", "said", "todos"]
    assert [WorkflowRound(0, reason, START).is_continuation for reason in reasons] == [False, False, False, True]


@pytest.mark.req("R0.69")
def test_call_record_tells_whether_its_tool_succeeded() -> None:
    one, two = folded(two_rounds()).rounds[0].records
    assert (one.call.id, one.call.name, one.call.arguments) == ("1", "add", {"a": 1})
    assert one.result is not None and two.result is not None
    assert (one.result.is_error, two.result.is_error, two.result.error_code) == (False, True, "tool_error")


def test_results_keep_the_order_of_the_calls() -> None:
    run = folded(two_rounds())
    assert [result.call_id for result in run.rounds[0].results] == ["1", "2"]
    assert run.messages[2] == Message("tool", run.rounds[0].results)


def test_running_call_has_no_result() -> None:
    run = folded(Story().begun().replied(ONE, TWO).ran(TWO))
    assert [record.result is None for record in run.rounds[0].records] == [True, False]
    assert len(run.rounds[0].results) == 1


def test_conversation_is_prompt_replies_and_results_per_round() -> None:
    assert [message.role for message in folded(two_rounds()).messages] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.req("R0.70")
def test_last_round_of_a_natural_end_is_natural_completion() -> None:
    assert [round_.status for round_ in folded(two_rounds()).rounds] == ["success", "natural_completion"]


@pytest.mark.req("R0.70")
def test_last_round_of_another_end_keeps_its_status(subtests: pytest.Subtests) -> None:
    for reason in ["max_rounds", "cancelled", "error", "refusal"]:
        with subtests.test(reason=reason):
            run = folded(Story().begun().replied(Text("x")).ended("error").over("failed", reason))
            assert run.rounds[-1].status == "error"


def test_user_message_is_pending_until_the_next_round() -> None:
    story = Story().begun().replied(ONE).add(e.CommandReceived, command="say", text="hurry").ran(ONE).ended()
    run = folded(story)
    assert run.pending == [user("hurry")] and run.messages[-1].role == "tool"
    run = folded(story.add(e.RoundStarted, index=1, reason="tool_results"))
    assert run.pending == [] and run.messages[-1] == user("hurry")


def test_unread_user_message_is_kept_when_the_run_ends(subtests: pytest.Subtests) -> None:
    story = Story().begun().replied(Text("x")).ended().add(e.CommandReceived, command="say", text="late")
    cut_off = folded(story)
    cut_off.mark_interrupted()
    for name, run in {"interrupted": cut_off, "ended": folded(story.over())}.items():
        with subtests.test(name):
            assert run.messages[-1] == user("late") and run.pending == []


def test_interrupted_run_keeps_results_of_its_open_round() -> None:
    story = Story().begun().replied(ONE, TWO).ran(ONE, "3").add(e.CommandReceived, command="say", text="late")
    run = folded(story)
    run.mark_interrupted()
    answered, said = run.messages[-2:]
    assert [part.call_id for part in answered.parts] == ["1"] and said == user("late")
    history = history_of(run)
    assert [part.call_id for part in history[-2].parts] == ["1", "2"] and history[-1] == said


def test_unanswered_run_offers_an_answer_only_if_stored(subtests: pytest.Subtests) -> None:
    question = WaitingOnUser("approval", "May I?", {}, "q1")
    for why, words in {"nobody_here": "Answer it: await recover", e.NO_STORE: "nothing can continue it"}.items():
        with subtests.test(why), pytest.raises(SettingsError, match=words):
            history_of(Story().begun().add(e.QuestionAsked, question=question).add(e.RunSuspended, why=why).run)


def test_continuation_text_is_a_user_message() -> None:
    story = Story().begun().replied(Text("x")).ended()
    run = folded(story.add(e.RoundStarted, index=1, reason="todos", continuation="Please continue"))
    assert run.messages[-1] == user("Please continue")


def test_paused_run_waits_and_has_not_ended() -> None:
    story = Story().add(e.CommandReceived, command="pause")
    assert (folded(story).status, folded(story).should_continue) == ("waiting_on_user", True)
    assert folded(story.add(e.CommandReceived, command="resume")).status == "running"


def test_errors_limits_and_warnings_are_kept() -> None:
    error = e.RunError("ModelError", "it broke", as_advice("try again"))
    story = Story().add(e.Warned, message="mind").add(e.LimitReached, limit="max_rounds", value=3)
    run = folded(story.add(e.ErrorRaised, error=error, where="model").over("failed", "error"))
    assert (list(run.warnings), run.error, run.status) == (["mind"], error, "failed")
    assert run.limit is not None and (run.limit.limit, run.limit.value) == ("max_rounds", 3)
    assert str(error) == "it broke. try again"


def test_text_of_a_run_is_the_last_model_text() -> None:
    run = folded(Story().begun().replied(Text("thinking"), ONE).ran(ONE).ended().begun().replied(ONE))
    assert run.text == "thinking"


@pytest.mark.req("R2.14")
def test_unknown_cost_of_a_round_makes_the_total_unknown() -> None:
    story = Story().begun().replied(ONE, usage=Usage(10, 5, cost=0.25)).ran(ONE).ended()
    run = folded(story.begun().replied(Text("x"), usage=Usage(7)).ended())
    assert run.usage == Usage(17, 5, cost=None) and run.cost is None


@pytest.mark.parametrize("wrong", [-1, 1])
def test_event_out_of_order_is_refused_and_changes_nothing(wrong: int) -> None:
    events = two_rounds().events
    run = Run.from_events(events[:4])
    with pytest.raises(TraceError, match=f"Event {4 + wrong} of run r-1 is out of order: 4 was expected"):
        run.apply(events[4 + wrong])
    assert run == Run.from_events(events[:4])


@pytest.mark.parametrize("story", [two_rounds, guided_rounds])
def test_applying_events_one_by_one_equals_rebuilding(story: Callable[[], Story]) -> None:
    run, events = Run(), story().events
    for count, event in enumerate(events, 1):
        run.apply(event)
        assert run == Run.from_events(events[:count])
    assert run.events == events


@pytest.mark.parametrize("story", [two_rounds, guided_rounds])
def test_different_runs_are_not_equal(story: Callable[[], Story]) -> None:
    events = story().events
    assert Run.from_events(events) == Run.from_events(events)
    assert Run.from_events(events) != Run.from_events(events[:-1])
    assert Run.from_events(events) != Run.from_events(Story(prompt="Other").events)
    assert Run.from_events(events) != events


def test_run_is_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(folded(two_rounds()))


def test_only_a_run_without_an_end_can_be_interrupted() -> None:
    cut = folded(Story().begun().replied(Text("x")))
    cut.mark_interrupted()
    assert (cut.status, cut.stop_reason, cut.should_continue) == ("interrupted", "interrupted", False)
    whole = folded(two_rounds())
    whole.mark_interrupted()
    assert whole.status == "completed"


def test_views_of_a_run_grow_with_it() -> None:
    events = two_rounds().events
    run = Run.from_events(events[:2])
    rounds, messages, seen = run.rounds, run.messages, run.events
    for event in events[2:]:
        run.apply(event)
    assert (len(rounds), len(messages), len(seen)) == (2, 4, len(events))


def test_run_has_a_one_line_repr() -> None:
    assert repr(folded(two_rounds())) == "<Run r-1 completed, natural, 2 rounds>"
    assert repr(folded(Story().begun().replied())) == "<Run r-1 running, 1 round>"


def at_a_limit(*last: Any, status: e.RoundStatus = "success", reason: str = FINAL_ANSWER) -> Story:
    """Build a run with a final reply after a limit in its first round."""
    story = Story().begun().replied(ONE).ran(ONE, "3").ended().add(e.LimitReached, limit="max_rounds", value=1)
    return story.begun(reason=reason).replied(*last).ended(status).over("limited", "max_rounds")


def with_a_call_at_last() -> Story:
    """The final reply calls a tool nevertheless."""
    story = Story().begun().replied(ONE).ran(ONE, "3").ended().add(e.LimitReached, limit="max_rounds", value=1)
    story.begun(reason=FINAL_ANSWER).replied(Text("I count on."), TWO).ran(TWO, "no", is_error=True, error_code="cancelled")
    return story.ended().over("limited", "max_rounds")


@pytest.mark.req("K2.2")
def test_text_at_the_end_or_limit_answers_the_run() -> None:
    assert folded(two_rounds()).is_answered
    assert folded(at_a_limit(Text("This is what I have."))).is_answered


@pytest.mark.req("K2.2")
def test_run_that_was_cut_short_is_not_answered(subtests: pytest.Subtests) -> None:
    called = Story().begun().replied(Text("Let me see."), ONE).ran(ONE).ended()
    half = Text("Half an ans")
    cases = {
        "nobody asked for last words": at_a_limit(Text("I go on."), reason="tool_results"),
        "blank last words": at_a_limit(Text(" \n ")),
        "no last words": at_a_limit(),
        "a call instead of last words": with_a_call_at_last(),
        "a limit after a call": called.over("limited", "max_rounds"),
        "cancelled": Story().begun().replied(half).ended().over("cancelled", "cancelled"),
        "failed": Story().begun().replied(half).ended("error").over("failed", "error"),
        "a loop": Story().begun().replied(Text("Again.")).ended().over("stopped", "loop_detected"),
        "not over": Story().begun().replied(Text("So far.")),
        "not begun": Story(),
    }
    for name, story in cases.items():
        with subtests.test(name):
            assert not folded(story).is_answered
