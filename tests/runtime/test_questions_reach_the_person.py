"""Questions from anywhere, including nested runs, reach the person or the answering function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from run_checks import codes, results
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, ToolCall, tool
from agentnb.core.log import events as e
from agentnb.core.questions import WaitingOnUser
from agentnb.errors import Declined
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.tools.tool import ToolContext

COLOURS = {"enum": ["red", "blue"]}


async def colour(context: ToolContext) -> str:
    return f"They said {await context.ask('Which colour?', COLOURS)}"


def may_run(call: ToolCall, run: Run) -> Ask:
    return Ask(f"May {call.name} run?")


def work() -> str:
    return "worked"


def agent(*tools: Any, **settings: Any) -> Agent:
    return Agent(ScriptedModel([[ToolCall(tool_.__name__) for tool_ in tools], "Done."]), tools=tools, todos=False, **settings)


def questions(run: Run) -> list[WaitingOnUser]:
    return [event.question for event in run.events if isinstance(event, e.QuestionAsked)]


def answers(run: Run) -> list[tuple[Any, str]]:
    return [(event.answer, event.by) for event in run.events if isinstance(event, e.QuestionAnswered)]


@pytest.mark.req("KX.5")
def test_answer_function_answers_an_awaited_run(subtests: pytest.Subtests) -> None:
    async def later(question: WaitingOnUser) -> str:
        await asyncio.sleep(0)
        return "blue"

    def declines(question: WaitingOnUser) -> str:
        raise Declined("no")

    cases: dict[str, tuple[Callable[[WaitingOnUser], Any], str | None]] = {
        "plain": (lambda question: question.schema["enum"][1], None),
        "async": (later, None),
        "nothing": (lambda question: None, "declined"),
        "declined": (declines, "declined"),
        "what does not fit": (lambda question: "green", "declined"),
        "an error": (lambda question: question.nothing, "declined"),
    }
    for name, (answer, code) in cases.items():
        with subtests.test(name):
            for run in (asyncio.run(agent(colour).run("go", answer=answer)), agent(colour).run_sync("go", answer=answer)):
                assert codes(run) == [code] and (code or results(run)[0].text == "They said blue")
                assert answers(run) == [(None if code else "blue", "program")]
                has_failed = name in ("what does not fit", "an error")
                assert bool(run.warnings) == has_failed
                assert not code or ("for the person failed" if has_failed else "gave no answer") in results(run)[0].text


def test_plain_tool_waiting_on_the_main_thread_is_answered() -> None:
    def asks_plainly(context: ToolContext) -> str:
        return str(context.ask_sync("Which colour?", COLOURS))

    assert results(agent(asks_plainly).run_sync("go", answer=lambda question: "red"))[0].text == "red"


def test_approve_function_approves_calls_of_an_awaited_run() -> None:
    seen: list[tuple[str, str]] = []

    def approve(call: ToolCall, run: Run) -> bool:
        seen.append((call.name, run.status))
        return True

    for run in (
        asyncio.run(agent(work, gates=[may_run]).run("go", approve=approve)),
        agent(work, gates=[may_run]).run_sync("go", approve=approve),
    ):
        assert codes(run) == [None] and answers(run) == [("approve", "program")]
    assert seen == [("work", "waiting_on_user")] * 2


def test_answering_function_also_decides_approvals() -> None:
    asked: list[str] = []

    def answer(question: WaitingOnUser) -> bool:
        asked.append(question.kind)
        return True

    run = agent(work, gates=[may_run]).run_sync("go", answer=answer)
    assert asked == ["approval"] and codes(run) == [None]


def nesting(inner: list[Run], **settings: Any) -> dict[str, Any]:
    """Return a tool for each way to run an asking agent."""

    async def awaits() -> str:
        inner.append(await agent(colour, **settings).run("inner"))
        return inner[-1].text

    def plain() -> str:
        inner.append(agent(colour, **settings).run_sync("inner"))
        return inner[-1].text

    @tool(parallel_safe=True)
    def beside() -> str:
        return plain()

    return {"awaits": awaits, "plain": plain, "beside": beside}


@pytest.mark.req("KX.5")
def test_nested_question_is_answered_through_the_top_run(subtests: pytest.Subtests) -> None:
    for way in nesting([]):
        with subtests.test(way):
            inner: list[Run] = []
            live = agent(nesting(inner)[way]).start("go")
            wait_until(lambda live=live: live.run.waiting or live.done)  # type: ignore[misc]
            (question,) = live.run.waiting
            assert (question.message, question.schema) == ("Which colour?", COLOURS)
            assert question.call_id == live.run.rounds[0].calls[0].id
            live.answer("blue", question.id)
            run = live.result(PATIENCE)
            assert run.status == "completed" and results(inner[0])[0].text == "They said blue"
            assert answers(run) == answers(inner[0]) == [("blue", "person")]
            assert questions(inner[0])[0].id == question.id
            assert questions(inner[0])[0].call_id == inner[0].rounds[0].calls[0].id


def test_question_two_levels_down_reaches_the_top_with_unique_id() -> None:
    inner: list[Run] = []
    awaits = nesting(inner)["awaits"]

    @tool(parallel_safe=True)
    async def middle() -> str:
        return (await agent(awaits).run("middle")).text

    @tool(parallel_safe=True)
    async def asks_itself(context: ToolContext) -> str:
        return str(await context.ask("And you?"))

    live = agent(middle, asks_itself).start("go")
    wait_until(lambda: len(live.run.waiting) == 2 or live.done)
    for question in live.run.waiting:
        live.answer("red" if question.message == "Which colour?" else "me", question.id)
    run = live.result(PATIENCE)
    assert results(inner[0])[0].text == "They said red" and results(run)[1].text == "me"
    assert len({question.id for question in questions(run)}) == 2


def test_calls_of_a_nested_run_are_approved_at_the_top() -> None:
    async def helper() -> str:
        return (await agent(work, gates=[may_run]).run("inner")).rounds[0].results[0].text

    live = agent(helper).start("go")
    wait_until(lambda: live.run.waiting or live.done)
    assert live.run.waiting[0].kind == "approval"
    live.answer("deny: not today")
    assert "not today" in results(live.result(PATIENCE))[0].text
    for how in ({"answer": lambda question: True}, {"approve": lambda call, run: call.name == "work"}):
        run = agent(helper).run_sync("go", **how)
        assert results(run)[0].text == "worked"


@pytest.mark.req("KX.5")
def test_nested_run_cannot_ask_if_the_top_run_cannot() -> None:
    inner: list[Run] = []
    run = asyncio.run(agent(nesting(inner)["awaits"]).run("go"))
    assert codes(inner[0]) == ["nobody_to_ask"] and questions(run) == questions(inner[0]) == []


def test_nested_run_with_a_handle_is_answered_through_that_handle() -> None:
    async def starts() -> str:
        live = agent(colour).start("inner")
        while not live.run.waiting:
            await asyncio.sleep(0.001)
        live.answer("blue")
        return results(await live)[0].text

    run = agent(starts).run_sync("go")
    assert results(run)[0].text == "They said blue" and questions(run) == []
