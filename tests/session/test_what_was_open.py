"""Recovery from any state: pause, question, message, calls, compaction, final answer, error."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cut_runs import assert_whole, cut, do, until, work
from killed_runs import Following, run_in, tools_in
from streamed_replies import FOREVER, Streamed, Streaming

from agentnb import Agent, History, Run, Store, ToolCall, load_trace, recover, tool
from agentnb.core.log import events as e
from agentnb.core.request import Request
from agentnb.core.run.rounds import DUPLICATE, INTERRUPTED
from agentnb.models import ScriptedModel
from agentnb.models.model import StreamItem
from agentnb.runtime.host.run_options import RunOptions
from agentnb.tools.tool import ToolContext


def run_of(folder: Path, replies: Sequence[Any], tools: Sequence[Any] = (work,), **settings: Any) -> Run:
    return Agent(ScriptedModel(replies), tools=tools, todos=False, **settings).run_sync("Go.", store=Store(folder))


def and_then(events: list[e.AnyEvent], kind: type[Any], **fields: Any) -> list[e.AnyEvent]:
    return [*events, kind(seq=len(events), at=datetime.now(UTC), run_id=events[0].run_id, **fields)]


def again(path: Path, replies: Sequence[Any], tools: Sequence[Any] = (work,), **given: Any) -> tuple[Run, ScriptedModel]:
    died, model = load_trace(path), ScriptedModel(replies)
    run = asyncio.run(recover(path, tools=tools, model=model, **given))
    assert_whole(path, run, died.events)
    return run, model


def codes(run: Run, number: int) -> list[str | None]:
    return [result.error_code for result in run.rounds[number].results]


def test_recovery_resumes_a_paused_run(tmp_path: Path) -> None:
    events = and_then(until(run_of(tmp_path, [do(1), "Done."]), e.RoundFinished), e.CommandReceived, command="pause")
    path = cut(events, tmp_path / "died")
    assert Run.from_events(events).status == "waiting_on_user"
    run, _ = again(path, ["Done."])
    assert (run.status, run.text, len(run.rounds)) == ("completed", "Done.", 2)
    assert Run.from_events(run.events[: len(events) + 1]).status == "running"  # nothing is paused in the new process


@pytest.mark.parametrize("kind", [e.ToolStarted, e.RoundFinished], ids=["in a round", "between rounds"])
def test_recovered_run_reads_unread_messages(kind: type[e.Event], tmp_path: Path) -> None:
    events = and_then(until(run_of(tmp_path, [do(1), "Done."]), kind), e.CommandReceived, command="say", text="Mind the gap.")
    run, model = again(cut(events, tmp_path / "died"), ["Minded."])
    assert "Mind the gap." in model.requests[0].messages[-1].text
    assert sum(message.text == "Mind the gap." for message in run.messages) == 1
    assert (run.status, run.text) == ("completed", "Minded.")


def test_recovery_closes_an_open_question_without_an_answer(tmp_path: Path) -> None:
    whole = run_in(tmp_path / "whole")
    path = cut(until(whole, e.QuestionAsked), tmp_path / "died")
    assert len(load_trace(path).waiting) == 1
    run = asyncio.run(recover(path, tools=tools_in(path.parent), model=Following()))
    assert not run.waiting and run.status == "completed"
    assert codes(run, 3) == [INTERRUPTED, None]


def test_repeatable_tool_asks_again_with_a_new_question(tmp_path: Path) -> None:
    @tool(repeatable=True)
    async def asks(context: ToolContext) -> str:
        """Asks."""
        return str(await context.ask("Sure?"))

    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def watch(item: Any) -> None:
        if isinstance(item, e.QuestionAsked) and item.question.id == f"q{turn}":
            asked.put(item)

    turn, agent = 1, Agent(ScriptedModel([ToolCall("asks"), "Done.", "Done."]), tools=[asks], todos=False)
    live = agent.start("Go.", store=Store(tmp_path), watch=watch)
    asked.get(timeout=30)
    path = cut(live.run.events, tmp_path / "died")
    live.stop()
    live.result(30)
    writer, found = Store(path.parent).reopen(path.stem)
    turn = 2
    live = agent.resume(found, writer, RunOptions(watch=watch, can_ask=True))
    asked.get(timeout=30)
    live.answer("yes")
    run = live.result(30)
    assert [event.question.id for event in run.events if isinstance(event, e.QuestionAsked)] == ["q1", "q2"]
    assert run.rounds[0].results[0].text == "yes"


@pytest.mark.req("KX.11")
def test_running_call_is_interrupted_and_pending_call_runs(tmp_path: Path) -> None:
    made: list[int] = []

    def make(n: int) -> str:
        """Makes it."""
        made.append(n)
        return f"made {n}"

    asked = [do(n, "make") for n in range(3)]
    whole = run_of(tmp_path, [asked, "Done."], [make])
    made.clear()
    expected = {
        (e.ModelReplied, 0): ([None] * 3, [0, 1, 2]),
        (e.ToolStarted, 0): ([INTERRUPTED, None, None], [1, 2]),
        (e.ToolStarted, 2): ([None, None, INTERRUPTED], []),
        (e.ToolFinished, 0): ([None] * 3, [1, 2]),  # the others had not started
        (e.ToolFinished, 2): ([None] * 3, []),
    }
    for number, ((kind, place), (told, ran)) in enumerate(expected.items()):
        run, model = again(cut(until(whole, kind, place), tmp_path / str(number)), ["Done."], [make])
        assert (codes(run, 0), made) == (told, ran)
        words = model.requests[0].messages[-1].parts
        assert all(
            ("The process died while make was running" in part.text) == (code is not None)
            for part, code in zip(words, told, strict=False)
        )
        made.clear()


@pytest.mark.req("KX.2", "KX.11")
def test_repeatable_call_is_repeated_and_counts_once(tmp_path: Path) -> None:
    settings = {"max_tool_calls": 2, "on_limit": "final_answer"}
    whole = run_of(tmp_path, [do(1), do(2), "Done."], **settings)
    run, _ = again(cut(until(whole, e.ToolStarted, 1), tmp_path / "died"), ["Done."])
    assert (run.calls_made, run.status, codes(run, 1)) == (2, "completed", [None])
    assert run.rounds[1].results[0].text == "made 2"


def test_interrupted_todo_update_is_applied_exactly_once(tmp_path: Path) -> None:
    add = ToolCall("todo_operations", {"operation": "add", "newTodos": [{"title": "Look"}]})
    whole = Agent(ScriptedModel([add, *["Well."] * 9]), tools=[work]).run_sync("Go.", store=Store(tmp_path))
    for kind in (e.ToolStarted, e.TodosChanged):
        run, model = again(cut(until(whole, kind), tmp_path / kind.__name__), ["Well."] * 9)
        assert codes(run, 0) == [None] and "1. [not-started] Look" in run.rounds[0].results[0].text
        assert "1. [not-started] Look" in model.requests[0].messages[-1].parts[0].text
        assert [todo.title for todo in run.todos] == ["Look"]


def test_repeats_are_recognized_after_recovery(tmp_path: Path) -> None:
    @tool
    def look(n: int) -> str:
        """Looks."""
        return f"seen {n}"

    whole = run_of(tmp_path, [*[do(1, "look")] * 3, "Done."], [look])
    assert codes(whole, 2) == [DUPLICATE]
    for count in (1, 2):
        path = cut(until(whole, e.RoundFinished, count - 1), tmp_path / str(count))
        run, _ = again(path, [*[do(1, "look")] * (3 - count), "Done."], [look])
        assert [codes(run, number) for number in range(3)] == [[None], [None], [DUPLICATE]]


@pytest.mark.parametrize("kind", [e.CompactionStarted, e.ContextCompacted])
def test_interrupted_compaction_is_redone_and_a_finished_one_kept(kind: type[e.Event], tmp_path: Path) -> None:
    settings = {"history": History(compact_above=4, keep_recent=1)}
    whole = run_of(tmp_path, [*[do(n) for n in range(4)], "Done."], **settings)
    path = cut(until(whole, kind), tmp_path / "died")
    replied = sum(isinstance(event, e.ModelReplied) for event in load_trace(path).events)
    run, model = again(path, [*[do(n) for n in range(4)], "Done."][replied:])
    done = [[c.compacted for c in round.compactions] for round in whole.rounds]
    assert [[c.compacted for c in round.compactions] for round in run.rounds] == done and any(done)
    assert "".join(m.text for m in model.requests[0].messages).count(run.rounds[replied].compactions[0].compacted.text) == 1


class Slow(ScriptedModel):
    """Yields before it answers."""

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        for _ in range(20):
            await asyncio.sleep(0)
        async for item in super().stream(request):
            yield item


@pytest.mark.req("K2.2")
def test_final_answer_after_a_timeout_has_no_time_limit(tmp_path: Path) -> None:
    @tool
    async def hang() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return "never"

    settings = {"max_seconds": 0.05, "on_limit": "final_answer"}
    whole = run_of(tmp_path, [ToolCall("hang"), "In short."], [hang], **settings)
    assert (whole.stop_reason, whole.text) == ("max_seconds", "In short.")
    for number, kind in enumerate((e.LimitReached, e.RoundStarted)):
        path = cut(until(whole, kind, number), tmp_path / str(number))
        run = asyncio.run(recover(path, tools=[hang], model=Slow(["In short."])))
        assert (run.status, run.stop_reason, run.text) == ("limited", "max_seconds", "In short.")
        assert [round.status for round in run.rounds] == ["cancelled", "success"]


def test_reply_truncated_by_the_time_limit_does_not_end_recovery(tmp_path: Path) -> None:
    agent = Agent(Streaming([Streamed(FOREVER)]), max_seconds=0.05)
    whole = agent.run_sync("Go.", store=Store(tmp_path))
    path = cut(until(whole, e.RoundFinished), tmp_path / "died")
    run, _ = again(path, ["Done."], (), agent=Agent(ScriptedModel(["Done."]), max_seconds=60))
    assert (run.status, run.text, [round.reason for round in run.rounds]) == ("completed", "Done.", ["prompt", "recovered"])


def test_interrupted_reply_is_requested_again_within_the_limit(tmp_path: Path) -> None:
    whole = run_of(tmp_path, [do(1), "Done."], max_rounds=2)
    half = until(whole, e.ModelReplied, 1)
    half[-1] = e.ModelReplied(
        seq=half[-1].seq, at=half[-1].at, run_id=whole.id, message=half[-1].message, stop_reason="broken_off"
    )
    run, _ = again(cut(half, tmp_path / "limited"), ["Done."])
    assert (run.status, len(run.rounds)) == ("limited", 2)
    wider = Agent(ScriptedModel(["Done, really."]), tools=[work], todos=False, max_rounds=3)
    run, _ = again(cut(half, tmp_path / "wider"), [], agent=wider)
    assert (run.status, run.text, len(run.rounds)) == ("completed", "Done, really.", 3)


def test_failed_run_ends_with_its_error_without_a_model_call(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel([do(1), RuntimeError("no more")]), tools=[work], todos=False)
    whole = agent.run_sync("Go.", store=Store(tmp_path))
    for kind in (e.ErrorRaised, e.RoundFinished):
        path = cut(until(whole, kind, int(kind is e.RoundFinished)), tmp_path / kind.__name__)
        run, model = again(path, [])
        assert (run.status, run.stop_reason, run.error) == ("failed", "error", whole.error)
        assert not model.requests


@pytest.mark.req("KX.2")
def test_max_rounds_counts_across_all_crashes(tmp_path: Path) -> None:
    path = cut(until(run_of(tmp_path, [do(n) for n in range(6)], max_rounds=5), e.RoundStarted), tmp_path / "died")
    for number in range(4):
        run, _ = again(path, [do(n) for n in range(number, 6)])
        assert (len(run.rounds), run.stop_reason, run.times_recovered) == (5, "max_rounds", number + 1)
        path = cut(until(run, e.ModelReplied, number), tmp_path / str(number))
