"""Tools that ask the person during a call, and runs that wait for the answer."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_builder import opening
from run_checks import assert_closed, assert_every_call_has_one_result, codes, kinds, results
from scripted_runs import FullDisk
from virtual_time import SkippedClock
from waiting import wait_until

from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent, Delta, QuestionAnswered, QuestionAsked, ToolFinished
from agentnb.core.messages import ToolCall
from agentnb.core.questions import Answer
from agentnb.detect.run import Run
from agentnb.errors import Declined, NobodyToAsk, SettingsError, StoreError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.elicitation import CallElicitor, Elicitation
from agentnb.runtime.threads import LoopThread
from agentnb.runtime.workers.foreground import Foreground
from agentnb.store.store import Store
from agentnb.tools.function import FunctionTool, tool
from agentnb.tools.tool import ToolContext

LONG = 30
COLOURS = {"enum": ["red", "blue"]}
POSIX = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="an interrupt can only be sent to a POSIX process")


async def ask(context: ToolContext) -> str:
    return f"They said {await context.ask('Which colour?', COLOURS)}"


def ask_plainly(context: ToolContext) -> str:
    return f"They said {context.ask_sync('Which colour?', COLOURS)}"


@tool(parallel_safe=True)
def ask_beside(context: ToolContext) -> str:
    return f"They said {context.ask_sync('Which colour?', COLOURS)}"


every_way = pytest.mark.parametrize("asks", [ask, ask_plainly, ask_beside], ids=["async", "plain", "beside"])


def begin(*tools: Any, replies: Any = (), waiting: int = 1, **how: Any) -> LiveRun:
    """Return a run that has just asked: by default one call of each tool, then "Done."."""
    script = replies or [[ToolCall(tool_.__name__) for tool_ in tools], "Done."]
    live = Agent(ScriptedModel(script), tools=tools, guidance="off", todos=False).start("go", **how)
    wait_until(lambda: len(live.run.waiting) >= waiting or live.done)
    return live


def answers(run: Run) -> list[tuple[Any, bool, bool]]:
    return [(event.answer, event.declined, event.withdrawn) for event in run.events if isinstance(event, QuestionAnswered)]


def assert_every_question_has_one_answer(run: Run) -> None:
    asked = [event.question.id for event in run.events if isinstance(event, QuestionAsked)]
    assert len(set(asked)) == len(asked)
    assert sorted(event.question_id for event in run.events if isinstance(event, QuestionAnswered)) == sorted(asked)
    assert run.waiting == ()


# Asking and answering


@pytest.mark.req("KX.5", "R3.13")
@every_way
def test_run_awaits_the_answer_and_passes_it_to_the_tool(asks: Any) -> None:
    live = begin(asks)
    (question,) = live.run.waiting
    assert (question.kind, question.message, question.schema) == ("elicitation", "Which colour?", COLOURS)
    assert question.call_id == live.run.last_round.calls[0].id
    assert live.run.status == "waiting_on_user"
    live.answer("blue")
    run = live.result(LONG)
    assert (run.status, [result.text for result in results(run)]) == ("completed", ["They said blue"])
    assert answers(run) == [("blue", False, False)]
    assert_every_question_has_one_answer(run)


@pytest.mark.req("R3.13")
def test_watchers_see_the_run_wait_and_continue() -> None:
    seen: list[str] = []
    run = Run()

    def watch(item: AnyEvent | Delta) -> None:
        if hasattr(item, "seq"):
            run.apply(item)  # type: ignore[arg-type]  # all but deltas have a number
            seen.append(run.status)

    live = begin(ask, watch=watch)
    live.answer("red")
    live.result(LONG)
    changes = [status for place, status in enumerate(seen) if not place or seen[place - 1] != status]
    assert changes == ["running", "waiting_on_user", "running", "completed"]


@pytest.mark.parametrize(("text", "value"), [("BLUE", "blue"), (" red ", "red")])
def test_an_answer_can_be_typed(text: str, value: str) -> None:
    live = begin(ask)
    live.answer_in_words(text)
    assert results(live.result(LONG))[0].text == f"They said {value}"


@every_way
def test_model_is_informed_of_a_declined_question(asks: Any) -> None:
    live = begin(asks)
    live.decline()
    run = live.result(LONG)
    assert (run.status, codes(run)) == ("completed", ["declined"])
    assert "declined to answer" in results(run)[0].text and "Continue without it" in results(run)[0].text
    assert answers(run) == [(None, True, False)]


def test_tool_can_catch_a_declined_question() -> None:
    async def careful(context: ToolContext) -> str:
        try:
            return await context.ask("Well?")  # type: ignore[no-any-return]
        except Declined:
            return "without"

    live = begin(careful)
    live.decline()
    assert results(live.result(LONG))[0].text == "without"


def test_invalid_answer_is_refused_and_the_question_stays_open() -> None:
    live = begin(ask)
    with pytest.raises(SettingsError, match="Please choose one of: red, blue"):
        live.answer("green")
    with pytest.raises(SettingsError, match="Please choose one of: red, blue"):
        live.answer_in_words("green")
    assert [question.id for question in live.run.waiting] == ["q1"]
    live.answer("red")
    assert results(live.result(LONG))[0].text == "They said red"


def test_a_second_answer_to_the_same_question_is_refused() -> None:
    live = begin(ask)
    live.answer("red")
    with pytest.raises(SettingsError, match="is not waiting for an answer"):
        live.answer("blue")
    assert results(live.result(LONG))[0].text == "They said red"


def test_answering_without_a_question_is_an_error() -> None:
    live = Agent(ScriptedModel(["Hello."])).start("go")
    live.result(LONG)
    for answer in (lambda: live.answer("x"), lambda: live.answer_in_words("x"), live.decline):
        with pytest.raises(SettingsError, match="is not waiting for an answer"):
            answer()


async def ask_both(context: ToolContext) -> str:
    return " and ".join(await asyncio.gather(context.ask("One?"), context.ask("Two?")))


def test_answer_without_a_name_goes_to_the_oldest_question() -> None:
    live = begin(ask_both, waiting=2)
    live.answer("first")
    live.answer("second")  # even before the loop has processed the first
    assert results(live.result(LONG))[0].text == "first and second"


def test_a_question_can_be_answered_by_its_name() -> None:
    live = begin(ask_both, waiting=2)
    live.answer("second", live.run.waiting[1].id)
    with pytest.raises(SettingsError, match=r"has no open question q9\. Open: q1"):
        live.answer("x", "q9")
    live.answer("first")
    assert results(live.result(LONG))[0].text == "first and second"


@pytest.mark.req("KX.5")
def test_every_kind_of_question_waits_for_an_answer(subtests: pytest.Subtests) -> None:
    def check(kind: str) -> None:
        async def asks(context: ToolContext) -> str:
            return str(await context.ask("Is this good?", {"type": "boolean"}, kind))

        live = begin(asks)
        assert (live.run.waiting[0].kind, live.run.status) == (kind, "waiting_on_user")
        live.answer(True)
        assert results(live.result(LONG))[0].text == "True"

    for kind in ["approval", "elicitation", "plan_review", "human_step"]:
        with subtests.test(kind=kind):
            check(kind)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("",), "'' is not a question"),
        (("Well?", {"type": "odd"}), "is not a JSON Schema"),
        (("Well?", None, "poll"), "is not a question kind"),
    ],
)
def test_invalid_question_is_a_tool_error(arguments: Any, said: str) -> None:
    async def asks(context: ToolContext) -> str:
        return await context.ask(*arguments)  # type: ignore[no-any-return]

    run = begin(asks).result(LONG)
    assert codes(run) == ["tool_error"] and said in results(run)[0].text
    assert "QuestionAsked" not in kinds(run)


def test_tool_with_its_own_event_loop_can_ask() -> None:
    def own_loop(context: ToolContext) -> str:
        return str(asyncio.run(context.ask("Well?")))

    live = begin(own_loop)
    live.answer("yes")
    assert results(live.result(LONG))[0].text == "yes"


def test_blocking_question_in_an_async_tool_is_an_error() -> None:
    async def wrong(context: ToolContext) -> str:
        return str(context.ask_sync("Well?"))

    run = begin(wrong).result(LONG)
    assert codes(run) == ["tool_error"] and "await context.ask" in results(run)[0].text


def test_sync_tool_on_the_waiting_thread_receives_its_answer() -> None:
    threads: list[str] = []

    def asks(context: ToolContext) -> str:
        answer = context.ask_sync("Well?")
        threads.append(threading.current_thread().name)
        return str(answer)

    foreground, lives = Foreground(), []
    agent = Agent(ScriptedModel([ToolCall("asks"), "Done."]), tools=[asks], guidance="off", todos=False)

    def start() -> LiveRun:
        lives.append(agent.start("go", RunOptions(foreground=foreground, can_ask=True)))
        threading.Thread(target=answer_it, daemon=True).start()
        return lives[0]

    def answer_it() -> None:
        wait_until(lambda: bool(lives[0].run.waiting))
        lives[0].answer("here")

    with foreground.own_interrupts():
        run = start().wait_in_foreground()
    assert (results(run)[0].text, threads) == ("here", [threading.current_thread().name])


# Without a person


@pytest.mark.req("KX.5")
@pytest.mark.parametrize("start", ["run", "run_sync", "start"])
@every_way
def test_without_a_person_the_model_gets_an_error_and_advice(start: str, asks: Any) -> None:
    agent = Agent(ScriptedModel([ToolCall(asks.__name__), "Done."]), tools=[asks], guidance="off", todos=False)
    run = {
        "run": lambda: asyncio.run(agent.run("go")),
        "run_sync": lambda: agent.run_sync("go"),
        "start": lambda: agent.start("go", RunOptions(can_ask=False)).result(LONG),
    }[start]()
    assert (run.status, codes(run)) == ("completed", ["nobody_to_ask"])
    assert "o person is attached" in results(run)[0].text and "state your assumptions" in results(run)[0].text
    assert "QuestionAsked" not in kinds(run)


def test_context_without_a_person_raises_nobody_to_ask(tmp_path: Path) -> None:
    context = ToolContext("r", "c", tmp_path, None)  # type: ignore[arg-type]  # nothing is called
    with pytest.raises(NobodyToAsk):
        context.ask_sync("Well?")
    with pytest.raises(NobodyToAsk):
        asyncio.run(context.ask("Well?"))


# The clock


@pytest.mark.req("KX.5")
@pytest.mark.parametrize("asks", [ask, ask_plainly], ids=["async", "plain"])
def test_call_time_limit_pauses_during_a_question(asks: Any, skipped: SkippedClock) -> None:
    limited = FunctionTool(asks, name="limited", timeout=LONG)
    live = begin(limited, replies=[ToolCall("limited"), "Done."])
    skipped.skip(2 * LONG)
    assert live.run.waiting
    live.answer("red")
    assert codes(live.result(LONG)) == [None]


def test_two_questions_pause_the_clock_until_the_last_answer(skipped: SkippedClock) -> None:
    limited = FunctionTool(ask_both, name="limited", timeout=LONG)
    live = begin(limited, replies=[ToolCall("limited"), "Done."], waiting=2)
    live.answer("first")
    skipped.skip(2 * LONG)
    live.answer("second")
    assert codes(live.result(LONG)) == [None]


def test_time_limit_continues_after_the_answer(skipped: SkippedClock) -> None:
    @tool(timeout=LONG)
    async def slow(context: ToolContext) -> str:
        await context.ask("Well?")
        skipped.skip(LONG)
        await asyncio.sleep(10 * LONG)
        return "never"

    live = begin(slow, replies=[ToolCall("slow"), "Done."])
    live.answer("yes")
    assert codes(live.result(LONG)) == ["timeout"]


def test_time_limit_continues_after_two_parallel_questions(skipped: SkippedClock) -> None:
    @tool(timeout=LONG)
    async def slow(context: ToolContext) -> str:
        await ask_both(context)
        skipped.skip(LONG)
        await asyncio.sleep(10 * LONG)
        return "never"

    live = begin(slow, replies=[ToolCall("slow"), "Done."], waiting=2)
    live.answer("first")
    live.answer("second")
    assert codes(live.result(LONG)) == ["timeout"]


def test_tool_duration_excludes_the_wait_for_the_person(skipped: SkippedClock) -> None:
    live = begin(ask)
    skipped.skip(2 * LONG)
    live.answer("red")
    run = live.result(LONG)
    (finished,) = [event for event in run.events if isinstance(event, ToolFinished)]
    assert finished.seconds < LONG


# Ends


def test_stop_frees_a_tool_thread_that_catches_exceptions() -> None:
    freed, caught = threading.Event(), []

    @tool(parallel_safe=True)
    def stubborn(context: ToolContext) -> str:
        try:
            return str(context.ask_sync("Well?"))
        except Exception as error:
            caught.append(error)
            return str(context.ask_sync("And now?"))
        finally:
            freed.set()

    live = begin(stubborn)
    live.stop()
    assert live.result(LONG).status == "cancelled"
    assert freed.wait(LONG) and not caught
    assert [event.question.message for event in live.run.events if isinstance(event, QuestionAsked)] == ["Well?"]


def test_question_abandoned_by_its_tool_is_withdrawn_and_run_continues() -> None:
    async def impatient(context: ToolContext) -> str:
        try:
            return str(await asyncio.wait_for(context.ask("Well?"), 0.02))
        except TimeoutError:
            return "no time"

    run = begin(impatient).result(LONG)
    assert (run.status, results(run)[0].text, answers(run)) == ("completed", "no time", [(None, False, True)])
    assert_every_question_has_one_answer(run)


def test_question_outliving_its_call_is_withdrawn() -> None:
    tasks: list[Any] = []

    async def forgets(context: ToolContext) -> str:
        tasks.append(asyncio.ensure_future(context.ask("Well?")))
        await asyncio.sleep(0.01)
        return "gone"

    run = begin(forgets).result(LONG)
    assert (run.status, answers(run)) == ("completed", [(None, False, True)])
    order = kinds(run)
    assert order.index("QuestionAnswered") < order.index("ToolFinished")
    assert_every_question_has_one_answer(run)


@POSIX
def test_plain_tool_withdraws_its_abandoned_question_and_continues() -> None:
    lives: list[LiveRun] = []

    class Enough(Exception):
        pass

    def rings(*_: object) -> None:
        raise Enough

    def impatient(context: ToolContext) -> str:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            return str(context.ask_sync("Well?"))
        except Enough:
            wait_until(lambda: any(isinstance(event, QuestionAnswered) for event in lives[0].run.events))
            return "no time"

    def start() -> LiveRun:
        lives.append(agent.start("go", RunOptions(foreground=foreground, can_ask=True)))
        return lives[0]

    foreground = Foreground()
    agent = Agent(ScriptedModel([ToolCall("impatient"), "Done."]), tools=[impatient], guidance="off", todos=False)
    before = signal.signal(signal.SIGALRM, rings)
    try:
        with foreground.own_interrupts():
            run = start().wait_in_foreground()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (results(run)[0].text, answers(run)) == ("no time", [(None, False, True)])


def test_tool_cannot_ask_after_its_call_has_ended() -> None:
    later, tasks = asyncio.Event(), []

    async def asks_later(context: ToolContext) -> None:
        await later.wait()
        await context.ask("Still there?")

    async def leaves(context: ToolContext) -> str:
        tasks.append(asyncio.ensure_future(asks_later(context)))
        return "left"

    async def wakes() -> str:
        later.set()
        await asyncio.wait(tasks)
        return f"cancelled: {tasks[0].cancelled()}"

    run = begin(leaves, wakes, replies=[ToolCall("leaves"), ToolCall("wakes"), "Done."]).result(LONG)
    assert [result.text for result in results(run)] == ["left", "cancelled: True"]
    assert "QuestionAsked" not in kinds(run)


def test_answer_during_withdrawal_of_the_question_is_discarded() -> None:
    async def both() -> Run:
        log = EventLog("r-1")
        log.append(opening())
        elicitation = Elicitation(log, can_ask=True)
        asked = asyncio.ensure_future(CallElicitor(elicitation, "c1").ask("Well?", None, "elicitation"))
        await asyncio.sleep(0)
        asked.cancel()
        elicitation.take(Answer("q1", "late"))
        await asyncio.wait([asked])
        elicitation.take(Answer("q1", "too late"))
        assert asked.cancelled()
        return log.run

    run = asyncio.run(both())
    assert answers(run) == [(None, False, True)]
    assert_every_question_has_one_answer(run)


@pytest.mark.req("KX.5")
def test_open_question_is_in_the_log_when_the_process_dies(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    live = begin(ask, store=store)
    (path,) = (tmp_path / "runs").rglob("*.jsonl")
    left = tmp_path / "left" / path.name
    left.parent.mkdir()
    left.write_bytes(path.read_bytes())  # the log of a process that dies now
    found = Store(left.parent).load(live.run_id)
    assert (found.status, found.waiting) == ("interrupted", live.run.waiting)
    live.answer("red")
    assert store.load(live.result(LONG).id).waiting == ()


@pytest.mark.parametrize("kind", ["QuestionAsked", "QuestionAnswered"])
def test_failure_to_store_a_question_or_answer_ends_the_run(kind: str) -> None:
    async def swallows(context: ToolContext) -> str:
        try:
            return str(await context.ask("Well?"))
        except OSError:
            return "what failure?"

    agent = Agent(ScriptedModel([ToolCall("swallows"), "never"]), tools=[swallows], guidance="off", todos=False)
    live = agent.start("go", store=FullDisk(kind))
    wait_until(lambda: bool(live.run.waiting) or live.done)
    if kind == "QuestionAnswered":
        live.answer("yes")
    with pytest.raises(StoreError):
        live.result(LONG)
    assert live.run.status == "failed"
    assert_closed(live.run)
    assert_every_call_has_one_result(live.run)


def test_question_of_an_abandoned_call_is_withdrawn() -> None:
    asked, gate = [], threading.Event()

    async def deaf(context: ToolContext) -> str:
        asked.append(asyncio.ensure_future(context.ask("Which colour?")))
        while not gate.is_set():
            with suppress(asyncio.CancelledError):  # like a tool that swallows its cancellation
                await asyncio.sleep(0.01)
        asked.append(asyncio.ensure_future(context.ask("And now?")))
        await asyncio.wait(asked)
        return "late"

    thread = LoopThread()
    live = begin(deaf, options=RunOptions(thread=thread))
    live.stop()
    run = live.result(LONG)
    assert answers(run) == [(None, False, True)]
    assert_every_question_has_one_answer(run)
    assert_closed(run)
    events = len(run.events)
    gate.set()
    wait_until(lambda: len(asked) == 2 and all(question.done() for question in asked))
    assert all(question.cancelled() for question in asked) and len(run.events) == events
    thread.close()


@pytest.mark.req("KX.5")
@examples(25)
@given(
    st.lists(st.lists(st.sampled_from(["ask", "ask_beside", "ask_both"]), min_size=1, max_size=3), max_size=3),
    st.lists(st.sampled_from(["answer", "answer", "answer", "decline", "stop"]), min_size=1, max_size=8),
)
def test_every_question_of_a_run_has_exactly_one_answer(rounds: list[list[str]], deeds: list[str]) -> None:
    named = {"ask": ask, "ask_beside": ask_beside, "ask_both": ask_both}
    replies = [[ToolCall(name, {}) for name in names] for names in rounds]
    agent = Agent(ScriptedModel([*replies, "Done."]), tools=named.values(), guidance="off", todos=False, policy="minimal")
    live = agent.start("go")
    while not live.done:
        for question in live.run.waiting:
            what = deeds[int(question.id[1:]) % len(deeds)]
            try:
                if what == "answer":
                    live.answer("red", question.id)
                elif what == "decline":
                    live.decline(question.id)
                else:
                    live.stop()
            except SettingsError:
                assert live.done or question.id not in {one.id for one in live.run.waiting} or question.id in live._answered
        time.sleep(0.001)
    run = live.result(LONG)
    assert run.status in ("completed", "cancelled", "stopped")
    assert_closed(run)
    assert_every_call_has_one_result(run)
    assert_every_question_has_one_answer(run)
