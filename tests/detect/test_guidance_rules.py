"""Verdicts on whether a reply followed guidance. The rules of docs/guidance.md, implemented a second time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from asserted_sentences import Snapshot
from msgspec.structs import replace
from run_builder import Story, guidance_of, todo

from agentnb.agent.agent import Agent
from agentnb.core.guidance import Followed, Guidance
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.todos import TODO_TOOL, Todo
from agentnb.detect.guidance_rules import CELLS, NO_WORK, SENTENCES, RoundFacts, judge
from agentnb.detect.run import Run
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.todos.board import TodoBoard

DOING, DONE = "in-progress", "completed"
FACTS = RoundFacts.__struct_fields__
ALL = (*CELLS, "intervention", "workflow", "already_said", "tool_failed", "failure_loop", "a cell of somebody else")
WORK = {"acted", "marked", "blocked", "begun", "ended_blocked"}
ONWARD = {"complete", "acted", "marked", "blocked", "begun", "planned"}
RULES: dict[str, tuple[set[str], set[str]]] = {
    "todos_tools": (WORK, {"undisciplined", "begun_beside"}),
    "todos_text": (WORK, {"begun_beside"}),
    "tools": ({"told_results", "named_failure"} | ONWARD, set()),
    "text": (ONWARD | {"ended_blocked"}, set()),
    "workflow": (ONWARD | {"ended_blocked"}, set()),
    "already_said": (ONWARD | {"ended_blocked", "concluded"}, set()),
    "intervention": ({"worked_anew", "marked", "blocked", "ended_blocked"}, {"begun_beside"}),
    "tool_failed": ({"acted", "blocked", "named_failure"}, {"made_again", "completed_unfinished", "begun_beside"}),
    "failure_loop": ({"acted", "blocked", "named_failure"}, {"failed_again", "begun_beside", "left_unfinished"}),
}
"""The facts of which guidance of each cell asks for any, and those that it forbids."""
BY_SHAPE = ({"called", "ended_blocked"}, set[str]())
"""All others want a tool call, or a text when every open todo is blocked."""


def of_facts(*names: str) -> RoundFacts:
    """Return a round with these facts."""
    return RoundFacts(*[name in ("replied", *names) for name in FACTS])


def test_cell_is_judged_by_its_own_rule(subtests: pytest.Subtests) -> None:
    for cell in ALL:
        with subtests.test(cell=cell):
            asks, forbids = RULES.get(cell, BY_SHAPE)
            for name in {*FACTS} - {"replied"}:
                assert judge(guidance_of(cell), of_facts(name)).followed is (name in asks), name
            for asked, forbidden in product(asks, forbids):
                assert judge(guidance_of(cell), of_facts(asked, forbidden)).followed is False, (asked, forbidden)


def test_round_without_a_reply_has_an_unknown_verdict(subtests: pytest.Subtests) -> None:
    for cell in ALL:
        with subtests.test(cell=cell):
            verdict = judge(guidance_of(cell), RoundFacts(False, *[True] * (len(FACTS) - 1)))
            assert verdict == Followed(None, "the model did not reply")


def test_every_verdict_has_a_reason(subtests: pytest.Subtests) -> None:
    for cell in ALL:
        with subtests.test(cell=cell):
            for name in FACTS:
                assert judge(guidance_of(cell), of_facts(name)).why


def test_reason_names_the_fault(snapshot: Snapshot) -> None:
    idle = RoundFacts(*[name in ("replied", "answered") for name in FACTS])
    assert judge(guidance_of("a cell of somebody else"), idle).why == "no tool was called"
    assert judge(guidance_of("intervention"), idle).why == snapshot
    assert judge(guidance_of("todos_tools"), replace(idle, called=True, undisciplined=True)).why == snapshot


def followed(tale: Story) -> list[bool | None]:
    return [verdict.followed for verdict in tale.last.followed]


def test_tool_call_follows_guidance_of_every_cell() -> None:
    for cell in CELLS:
        assert followed(Story().called("look", guidance=(guidance_of(cell),))) == [True]


def test_text_alone_follows_only_the_tool_result_cell() -> None:
    for cell in CELLS:
        assert followed(Story().called("look").said("It is there.", guidance_of(cell))) == [cell == "tools"]


def test_text_follows_guidance_once_every_open_todo_is_blocked(subtests: pytest.Subtests) -> None:
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


def test_blank_text_follows_no_guidance() -> None:
    for cell in CELLS:
        assert followed(Story().called("look").said(" \n", guidance_of(cell))) == [False]


@pytest.mark.parametrize("code", [None, "tool_error", "timeout"])
def test_work_without_progress_does_not_follow_the_todo_cell(code: str | None) -> None:
    cell = (guidance_of("todos_tools"),)
    how = {"is_error": code is not None, "error_code": code}
    assert followed(Story(todo(1)).called("look", guidance=cell, **how)) == [False]
    assert followed(Story(todo(1, DOING)).called("look", guidance=cell, **how)) == [True]


@pytest.mark.parametrize("code", ["unknown_tool", "invalid_arguments"])
def test_unexecuted_work_is_not_a_todo_violation(code: str) -> None:
    tale = Story(todo(1)).called("look", guidance=(guidance_of("todos_tools"),), is_error=True, error_code=code)
    assert followed(tale) == [True]


ON_LIST = (guidance_of("todos_tools"),)


def listing(tale: Story, *todos: Todo, guidance: Sequence[Guidance] = ON_LIST, more: Sequence[str] = ()) -> Story:
    """Build a round in which the model writes this list and then calls other tools."""
    tale.begun(*guidance)
    call, others = tale.call(TODO_TOOL), [tale.call(name) for name in more]
    tale.replied(call, *others).listed(*todos, call_id=call.id).ran(call)
    for other in others:
        tale.ran(other)
    return tale.ended()


def test_todo_cell_requires_work_or_a_list_changed_by_it(subtests: pytest.Subtests) -> None:
    doing, done, two = todo(1, DOING), todo(1, DONE), Story(todo(1, DOING), todo(2, DOING))
    three = Story(doing, todo(2, DOING), todo(3))
    stories = {
        "work": (Story(doing).called("look", guidance=ON_LIST), True),
        "the list is read": (Story(doing).called(TODO_TOOL, "think", guidance=ON_LIST), False),
        "the list is reworded": (listing(Story(doing), todo(1, DOING, "Otherwise")), False),
        "a todo is begun": (listing(Story(todo(1)), doing), True),
        "completed after work": (listing(Story(doing).called("look"), done), True),
        "completed with its work": (listing(Story(doing), done, more=("look",)), True),
        "completed without work": (listing(Story(doing), done), False),
        "completed without work after another": (listing(listing(two.called("look"), done), done, todo(2, DONE)), False),
        "blocked": (listing(Story(doing), todo(1, "blocked")), True),
        "the next is begun, the last left": (listing(Story(doing, todo(2)), doing, todo(2, DOING), more=("see",)), False),
        "the next is begun, the last completed": (listing(Story(doing, todo(2)), done, todo(2, DOING), more=("see",)), True),
        "the next is begun, an older one is left": (listing(three, doing, todo(2, DONE), todo(3, DOING), more=("see",)), True),
        "two at once that may": (listing(Story(doing, todo(2)), doing, todo(2, DOING, can_run_parallel=True)), True),
    }  # fmt: skip
    for name, (tale, verdict) in stories.items():
        with subtests.test(name):
            assert followed(tale) == [verdict]


def test_repeated_call_is_work_only_with_a_different_result(subtests: pytest.Subtests) -> None:
    def again(text: str, between: Callable[[Story], Any] = lambda tale: tale, *todos: Todo, **how: Any) -> Story:
        """Make the same call twice: both fail, or return "ok" and this result."""
        tale = Story(*todos).begun()
        first, second = ToolCall("look", {}, "first"), ToolCall("look", {}, "second")
        tale.replied(first).ran(first, **how).ended()
        between(tale)
        return tale.begun(guidance_of("workflow")).replied(second).ran(second, text, **how).ended()

    mended = Story()
    for how in (FAILED, {}):
        call = mended.begun(*[guidance_of("workflow")] * (not how)).call("look")
        mended.replied(call).ran(call, **how).ended()
        mended = mended if not how else mended.said()
    for name, tale, verdict in (
        ("a failure whose words come without one", mended, True),
        ("the same result", again("ok"), False),
        ("another result", again("more"), True),
        ("the same after other work", again("ok", lambda tale: tale.called("see")), False),
        ("the same after the person spoke", again("ok", lambda tale: tale.heard("Once more.")), True),
        ("the same failure at once", again("ok", **FAILED), False),
        (
            "the same failure later, for an open todo",
            again("ok", lambda tale: tale.said("Hm."), todo(1, DOING), **FAILED),
            True,
        ),
        ("the same failure later, not quoted", again("ok", lambda tale: tale.said(), **FAILED), False),
    ):
        with subtests.test(name):
            assert followed(tale) == [verdict]


def test_answer_after_tools_mentions_their_results() -> None:
    cell = guidance_of("tools")
    assert followed(Story().called("look", text="412 rows").said("There are 412.", cell)) == [True]
    assert followed(Story().called("look", text="412 rows").said("Next I am going to look at them.", cell)) == [False]
    assert followed(Story().called("look", text="").said("That is all.", cell)) == [True]


def test_new_work_or_completion_after_work_follows_an_intervention() -> None:
    push = guidance_of("intervention")
    assert followed(Story(todo(1)).called("look", guidance=(push,))) == [True]
    assert followed(Story(todo(1)).called("think", TODO_TOOL, guidance=(push,))) == [False]
    assert followed(Story(todo(1)).called("look", guidance=(push,), is_error=True, error_code="unknown_tool")) == [False]
    assert followed(Story(todo(1)).said("I will.", push)) == [False]
    for tale, verdict in ((Story(todo(1, DOING)), False), (Story(todo(1, DOING)).called("look"), True)):
        assert followed(listing(tale, todo(1, DONE), guidance=(push,))) == [verdict]


def test_blocked_call_is_not_work() -> None:
    tale = Story(todo(1)).begun(guidance_of("intervention"))
    call = tale.call("look")
    assert followed(tale.replied(call).blocked(call).ended()) == [False]


def test_completion_by_the_user_does_not_follow_an_intervention() -> None:
    tale = Story(todo(1, DOING)).begun(guidance_of("intervention"))
    call = tale.call(TODO_TOOL)
    tale.replied(call).listed(todo(1, DONE), by="outside").ran(call).ended()
    assert followed(tale) == [False]


FAILED = {"is_error": True, "error_code": "tool_error"}


@pytest.mark.req("R0.75")
def test_failure_guidance_is_followed_by_another_call_or_text() -> None:
    cell = guidance_of("tool_failed")
    assert followed(Story().called("look", **FAILED).called("look", guidance=(cell,))) == [False]
    assert followed(Story().called("look", **FAILED).called("look", guidance=(cell,), **FAILED)) == [False]
    assert followed(Story().called("look", **FAILED).called("see", "look", guidance=(cell,))) == [True]
    assert followed(Story().called("look", **FAILED).said("There is no such file.", cell)) == [True]
    assert followed(Story().called("look", **FAILED).said(" ", cell)) == [False]
    assert followed(Story().called("look", **FAILED).said("Next I am going to count them.", cell)) == [False]
    lost = Story().called("look", text="Die Datei umsatz.csv fehlt", **FAILED)
    assert followed(lost.said("Die Datei umsatz.csv gibt es hier nicht.", cell)) == [True], "it quotes the error"
    assert followed(Story().called("look", **FAILED).called("think", TODO_TOOL, guidance=(cell,))) == [False]
    tale = Story().called("look", **FAILED).begun(cell)
    call = tale.call("look", at="the other file")
    assert followed(tale.replied(call).ran(call, **FAILED).ended()) == [True]


@pytest.mark.req("R0.75")
def test_blocking_one_of_two_todos_in_progress_follows_guidance() -> None:
    both = Story(todo(1, DOING), todo(2, DOING)).called("look", **FAILED)
    assert followed(listing(both, todo(1, DONE), todo(2, "blocked"), guidance=(guidance_of("tool_failed"),))) == [True]


@pytest.mark.req("R0.75")
def test_completing_a_todo_despite_failed_work_follows_no_guidance(subtests: pytest.Subtests) -> None:
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
def test_repeating_a_blocked_call_counts_as_repetition() -> None:
    tale = Story().called("look", **FAILED).begun(guidance_of("tool_failed"))
    call = tale.call("look")
    tale.replied(call).blocked(call).ended()
    assert tale.last.followed == (Followed(False, "the failed call was repeated unchanged"),)


@pytest.mark.req("R0.75")
def test_another_tools_success_or_text_breaks_a_failure_loop() -> None:
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
    assert followed(looping().said("So much for that.", cell)) == [False]
    blocked = Story(todo(1, DOING)).called("look", **FAILED).called("look", **FAILED).called("look", **FAILED)
    mark, call = blocked.begun(cell).call(TODO_TOOL), blocked.call("look", at="the other file")
    blocked.replied(mark, call).listed(todo(1, "blocked"), call_id=mark.id).ran(mark).ran(call, **FAILED).ended()
    assert followed(blocked) == [True]
    doing = Story(todo(1, DOING)).called("look", **FAILED).called("look", **FAILED).called("look", **FAILED)
    assert doing.said("It cannot be done.", cell).last.followed == (Followed(False, SENTENCES["left_unfinished"]),)


def test_guidance_texts_are_judged_separately_and_in_order() -> None:
    said = (guidance_of("intervention"), guidance_of("already_said"), guidance_of("todos_text"))
    tale = Story(todo(1)).called("think", guidance=said)
    assert tale.last.guidance == said
    assert [(verdict.followed, verdict.why) for verdict in tale.last.followed] == [
        (False, "nothing new was done or completed"),
        (False, NO_WORK),
        (False, NO_WORK),
    ]


def test_round_without_guidance_has_no_verdict() -> None:
    assert Story().called("look").last.followed == ()


def test_round_is_not_judged_before_its_end() -> None:
    assert Story().begun(guidance_of("text")).replied(Text("Well.")).last.followed == ()


def test_rounds_that_broke_off_or_lack_replies_are_not_judged() -> None:
    cell = guidance_of("text")
    assert followed(Story().begun(cell).ended("error")) == [None]
    assert followed(Story().begun(cell).replied(Text("We"), stop_reason="broken_off").ended("error")) == [None]


def test_guidance_is_not_part_of_the_conversation() -> None:
    tale = Story().called("look", guidance=(guidance_of("tools"),)).said("Done.", guidance_of("text"))
    assert not any("Go on." in message.text for message in tale.run.messages)


def test_ephemeral_text_survives_the_log() -> None:
    tale = Story().begun(guidance_of("tools", level=3, trigger="tool_results", version="abc")).replied(ToolCall("x", {}, "1"))
    assert tale.last.guidance[0] == Run.from_events(tale.events).rounds[0].guidance[0]
    assert [type(event) for event in tale.events][2] is e.GuidanceGiven
    assert (tale.last.guidance[0].level, tale.last.guidance[0].trigger, tale.last.guidance[0].version) == (
        3,
        "tool_results",
        "abc",
    )


@pytest.mark.req("R0.70")
def test_repeating_an_answer_ignores_the_notice_about_it() -> None:
    answer = "The three species differ most in the length of their flippers, as I see it."
    tale = Story().said(answer).said(answer, guidance_of("already_said"))
    assert tale.last.followed == (Followed(False, "no tool was called"),)
    assert followed(Story().said(answer).said("Something else, which is new.", guidance_of("already_said"))) == [True]
