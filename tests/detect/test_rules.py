"""Whether a reply did what guidance asked. The rules are those of docs/guidance.md, each told here a second time."""

from __future__ import annotations

from itertools import product

import pytest
from asserted_sentences import Snapshot
from msgspec.structs import replace
from run_builder import Story, guidance_of, todo

from agentnb.agent.agent import Agent
from agentnb.core.guidance import Followed
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.rules import CELLS, RoundFacts, judged
from agentnb.detect.run import Run
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.todos.board import TodoBoard

DOING, DONE = "in-progress", "completed"
FACTS = RoundFacts.__struct_fields__
ALL = (*CELLS, "intervention", "workflow", "already_said", "tool_failed", "failure_loop", "a cell of somebody else")
RULES = {
    "todos_tools": lambda it: (it.called or it.ended_blocked) and not it.undisciplined,
    "tools": lambda it: it.called or it.answered or it.complete,
    "intervention": lambda it: it.worked or it.completed or it.blocked or it.ended_blocked,
    "text": lambda it: it.called or it.complete or it.ended_blocked,
    "workflow": lambda it: it.called or it.complete or it.ended_blocked,
    "already_said": lambda it: it.called or it.complete or (it.answered and not it.repeats),
    "tool_failed": lambda it: not it.made_again and not it.completed_unfinished and (it.called or it.answered),
    "failure_loop": lambda it: not it.failed_again and (it.called or it.answered),
}
"""All others want a tool call, or a text when every open todo is blocked."""


def test_each_cell_is_judged_by_its_own_rule_whatever_a_round_did(subtests: pytest.Subtests) -> None:
    for cell in ALL:
        with subtests.test(cell=cell):
            rule = RULES.get(cell, lambda it: it.called or it.ended_blocked)
            for facts in product([False, True], repeat=len(FACTS) - 1):
                facts = RoundFacts(True, *facts)
                assert judged(guidance_of(cell), facts).followed is rule(facts), facts


def test_without_a_reply_nothing_is_known(subtests: pytest.Subtests) -> None:
    for cell in ALL:
        with subtests.test(cell=cell):
            verdict = judged(guidance_of(cell), RoundFacts(False, *[True] * (len(FACTS) - 1)))
            assert verdict == Followed(None, "no reply came")


def test_every_verdict_has_its_reason(subtests: pytest.Subtests) -> None:
    for cell in ALL:
        with subtests.test(cell=cell):
            for facts in product([False, True], repeat=len(FACTS)):
                assert judged(guidance_of(cell), RoundFacts(*facts)).why


def test_the_reason_names_the_fault(snapshot: Snapshot) -> None:
    idle = RoundFacts(*[name in ("replied", "answered") for name in FACTS])
    assert judged(guidance_of("todos_text"), idle).why == "no tool was called"
    assert judged(guidance_of("intervention"), idle).why == snapshot
    assert judged(guidance_of("todos_tools"), replace(idle, called=True, undisciplined=True)).why == snapshot


def followed(tale: Story) -> list[bool | None]:
    return [verdict.followed for verdict in tale.last.followed]


def test_a_tool_call_follows_every_cell() -> None:
    for cell in CELLS:
        assert followed(Story().called("look", guidance=(guidance_of(cell),))) == [True]


def test_words_alone_follow_only_the_cell_that_has_tool_results() -> None:
    for cell in CELLS:
        assert followed(Story().called("look").said("It is there.", guidance_of(cell))) == [cell == "tools"]


def test_a_text_follows_guidance_once_every_open_todo_is_blocked(subtests: pytest.Subtests) -> None:
    lists = {
        "all that is open is blocked": ((todo(1, DONE), todo(2, "blocked")), [True]),
        "one can still be worked on": ((todo(1), todo(2, "blocked")), [False]),
        "nothing is open": ((todo(1, DONE),), [False]),
    }
    for name, (todos, expected) in lists.items():
        for cell in ("todos_tools", "todos_text", "text", "workflow", "intervention"):
            with subtests.test(f"{name}, {cell}"):
                assert followed(Story(*todos).said("The line is locked.", guidance_of(cell))) == expected
    assert followed(Story(todo(1, "blocked")).said(" ", guidance_of("text"))) == [False]


def test_blank_words_follow_nothing() -> None:
    for cell in CELLS:
        assert followed(Story().called("look").said(" \n", guidance_of(cell))) == [False]


@pytest.mark.parametrize("code", [None, "tool_error", "timeout"])
def test_work_without_a_todo_in_progress_does_not_follow_the_cell_of_the_list(code: str | None) -> None:
    cell = (guidance_of("todos_tools"),)
    how = {"is_error": code is not None, "error_code": code}
    assert followed(Story(todo(1)).called("look", guidance=cell, **how)) == [False]
    assert followed(Story(todo(1, DOING)).called("look", guidance=cell, **how)) == [True]


@pytest.mark.parametrize("code", ["unknown_tool", "invalid_arguments"])
def test_work_that_never_ran_is_no_breach_of_the_list(code: str) -> None:
    tale = Story(todo(1)).called("look", guidance=(guidance_of("todos_tools"),), is_error=True, error_code=code)
    assert followed(tale) == [True]


def test_planning_follows_the_cell_of_the_list() -> None:
    assert followed(Story(todo(1)).called(TODO_TOOL, "think", guidance=(guidance_of("todos_tools"),))) == [True]


def test_an_intervention_is_followed_by_work_or_a_completed_todo_and_by_nothing_less() -> None:
    push = guidance_of("intervention")
    assert followed(Story(todo(1)).called("look", guidance=(push,))) == [True]
    assert followed(Story(todo(1)).called("think", TODO_TOOL, guidance=(push,))) == [False]
    assert followed(Story(todo(1)).called("look", guidance=(push,), is_error=True, error_code="unknown_tool")) == [False]
    assert followed(Story(todo(1)).said("I will.", push)) == [False]
    tale = Story(todo(1, DOING)).begun(push)
    call = tale.call(TODO_TOOL)
    assert followed(tale.replied(call).listed(todo(1, DONE), call_id=call.id).ran(call).ended()) == [True]


def test_a_call_that_was_blocked_is_no_work() -> None:
    tale = Story(todo(1)).begun(guidance_of("intervention"))
    call = tale.call("look")
    assert followed(tale.replied(call).blocked(call).ended()) == [False]


def test_what_the_person_completes_does_not_follow_an_intervention() -> None:
    tale = Story(todo(1, DOING)).begun(guidance_of("intervention"))
    call = tale.call(TODO_TOOL)
    tale.replied(call).listed(todo(1, DONE), by="outside").ran(call).ended()
    assert followed(tale) == [False]


FAILED = {"is_error": True, "error_code": "tool_error"}


@pytest.mark.req("R0.75")
def test_a_failure_is_heeded_by_another_call_or_in_words_and_not_by_the_same_call_again() -> None:
    cell = guidance_of("tool_failed")
    assert followed(Story().called("look", **FAILED).called("look", guidance=(cell,))) == [False]
    assert followed(Story().called("look", **FAILED).called("look", guidance=(cell,), **FAILED)) == [False]
    assert followed(Story().called("look", **FAILED).called("see", "look", guidance=(cell,))) == [True]
    assert followed(Story().called("look", **FAILED).said("There is no such file.", cell)) == [True]
    assert followed(Story().called("look", **FAILED).said(" ", cell)) == [False]
    tale = Story().called("look", **FAILED).begun(cell)
    call = tale.call("look", at="the other file")
    assert followed(tale.replied(call).ran(call, **FAILED).ended()) == [True]


@pytest.mark.req("R0.75")
def test_a_todo_that_is_marked_completed_although_its_work_failed_follows_nothing(subtests: pytest.Subtests) -> None:
    def look(x: int) -> int:
        """Look."""
        if x < 0:
            raise ValueError("nothing there")
        return x

    def mark(status: str) -> ToolCall:
        why = {"blockedReason": "look failed"} if status == "blocked" else {}
        return ToolCall(TODO_TOOL, {"operation": "update", "todoUpdates": [{"id": 1, "status": status, **why}]})

    def went(x: int) -> ToolCall:
        return ToolCall("look", {"x": x})

    for name, failing, then, verdict in (
        ("completed", [went(-1)], [mark("completed"), went(5)], False),
        ("completed alone", [went(-1)], [mark("completed")], False),
        ("blocked", [went(-1)], [mark("blocked"), went(5)], True),
        ("completed after other work", [went(-1)], [went(5), mark("completed")], True),
        ("one call went well", [went(-1), went(1)], [mark("completed"), went(5)], True),
    ):
        with subtests.test(name):
            todos = [{"title": "Look", "status": "in-progress"}]
            replies = [Reply(Message("assistant", tuple(calls))) for calls in (failing, then)]
            model = ScriptedModel([*replies, *["So."] * 9])
            run = Agent(model, tools=[look], todos=TodoBoard(todos), max_rounds=3).run_sync("go")
            (judged,) = [
                followed
                for given, followed in zip(run.rounds[1].guidance, run.rounds[1].followed, strict=True)
                if given.cell == "tool_failed"
            ]
            assert judged.followed is verdict
            assert verdict or judged.why == "the todo whose work had failed was marked completed"


@pytest.mark.req("R0.75")
def test_the_same_call_that_was_blocked_was_made_again_all_the_same() -> None:
    tale = Story().called("look", **FAILED).begun(guidance_of("tool_failed"))
    call = tale.call("look")
    tale.replied(call).blocked(call).ended()
    assert tale.last.followed == (Followed(False, "the call that had failed was made again, unchanged"),)


@pytest.mark.req("R0.75")
def test_a_failure_loop_is_broken_by_another_tool_by_success_or_in_words() -> None:
    cell = guidance_of("failure_loop")

    def looping() -> Story:
        return Story().called("look", **FAILED).called("look", **FAILED).called("look", **FAILED)

    def again(**how: object) -> Story:
        tale = looping().begun(cell)
        call = tale.call("look", at="the other file")
        return tale.replied(call).ran(call, **how).ended()

    assert again(**FAILED).last.followed == (Followed(False, "the tool that keeps failing was called again, and nothing else"),)
    assert followed(again()) == [True]
    assert followed(looping().called("look", "see", guidance=(cell,), **FAILED)) == [True]
    assert followed(looping().said("It cannot be done.", cell)) == [True]


def test_all_that_was_said_is_judged_one_by_one_in_its_order() -> None:
    said = (guidance_of("intervention"), guidance_of("already_said"), guidance_of("todos_text"))
    tale = Story(todo(1)).called("think", guidance=said)
    assert tale.last.guidance == said
    assert [(verdict.followed, verdict.why) for verdict in tale.last.followed] == [
        (False, "no work tool ran and no todo was completed"),
        (True, "a tool was called"),
        (True, "a tool was called"),
    ]


def test_a_round_that_was_told_nothing_followed_nothing() -> None:
    assert Story().called("look").last.followed == ()


def test_nothing_is_judged_before_the_round_is_over() -> None:
    assert Story().begun(guidance_of("text")).replied(Text("Well.")).last.followed == ()


def test_a_round_without_a_reply_and_one_that_broke_off_are_not_judged() -> None:
    cell = guidance_of("text")
    assert followed(Story().begun(cell).ended("error")) == [None]
    assert followed(Story().begun(cell).replied(Text("We"), stop_reason="broken_off").ended("error")) == [None]


def test_guidance_is_no_part_of_the_conversation() -> None:
    tale = Story().called("look", guidance=(guidance_of("tools"),)).said("Done.", guidance_of("text"))
    assert not any("Go on." in message.text for message in tale.run.messages)


def test_what_was_said_in_passing_survives_the_log() -> None:
    tale = Story().begun(guidance_of("tools", level=3, trigger="tool_results", version="abc")).replied(ToolCall("x", {}, "1"))
    assert tale.last.guidance[0] == Run.from_events(tale.events).rounds[0].guidance[0]
    assert [type(event) for event in tale.events][2] is e.GuidanceGiven
    assert (tale.last.guidance[0].level, tale.last.guidance[0].trigger, tale.last.guidance[0].version) == (
        3,
        "tool_results",
        "abc",
    )


@pytest.mark.req("R0.70")
def test_who_says_the_same_once_more_has_not_heeded_that_it_was_said() -> None:
    answer = "The three species differ most in the length of their flippers, as I see it."
    tale = Story().said(answer).said(answer, guidance_of("already_said"))
    assert tale.last.followed == (Followed(False, "no tool was called"),)
    assert followed(Story().said(answer).said("Something else, which is new.", guidance_of("already_said"))) == [True]
