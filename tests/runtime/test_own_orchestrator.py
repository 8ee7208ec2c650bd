"""`runtime` runs any orchestrator: a custom one has all features of an agent's run."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import own_orchestrator
import pytest
from asserted_sentences import Snapshot
from own_orchestrator import progress_line, side_by_side
from property_settings import size
from scripted_runs import bare
from snapshots import Snapshots
from virtual_time import OnThisLoop

from agentnb import Agent, Run, RunOptions, Store, ToolCall, ask_person, recover, tool
from agentnb.core.log.events import QuestionAsked, ToolFinished, ToolStarted
from agentnb.core.log.work_events import StepFinished, StepStarted
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import ModelError, SettingsError, StepFailed
from agentnb.models import Reply
from agentnb.models.model import StreamItem
from agentnb.policies import Stop
from agentnb.policies.gates import Ask
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator

COST = 0.25


class Steady:
    """Makes its calls in sequence, then answers, based on the conversation alone: also in another process."""

    def __init__(self, name: str, *calls: ToolCall, error: Exception | None = None) -> None:
        self.name = f"scripted:{name}"
        self._calls = calls
        self._error = error

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        if self._error is not None:
            raise self._error
        number = sum(message.role == "assistant" for message in request.messages)
        call = self._calls[number : number + 1]
        parts = (ToolCall(call[0].name, call[0].arguments, f"c{number}"),) if call else (Text(self.name),)
        yield Reply(Message("assistant", parts), Usage(10, 1, cost=COST), "tool_use" if call else "end_turn")


def worker(name: str, *tools: Callable[..., Any], **settings: Any) -> Agent:
    """Return an agent that calls each of its tools once."""
    model = Steady(name, *[ToolCall(tool_.__name__, {}) for tool_ in tools])
    return bare(model, tools, unpriced=True, **settings)


def nested(store: Store, run: Run) -> dict[str, Run]:
    return {name: store.load(step.nested) for name, step in run.step_records.items() if step.nested}


async def noted() -> str:
    """Note."""
    return "noted"


def played(what: Orchestration, watch: Callable[[LiveRun, Any], Any] = lambda live, item: None, **options: Any) -> Run:
    """Run an orchestration on a loop where nothing happens before its handle is returned."""

    async def play() -> Run:
        here = OnThisLoop(asyncio.get_running_loop())
        live = what.start("Go.", RunOptions(thread=here, watch=lambda item: watch(live, item), **options))
        return await live

    return asyncio.run(play())


def test_example_orchestrator_has_at_most_forty_lines() -> None:
    assert len(inspect.getsource(own_orchestrator).splitlines()) <= 45  # the module with its imports and blank lines
    assert len([line for line in inspect.getsource(own_orchestrator).splitlines() if line.strip()]) <= 40


def test_two_parallel_agents_form_one_log_tree(tmp_path: Path, snapshot: Snapshot) -> None:
    store, lines = Store(tmp_path), list[str]()
    met = asyncio.Barrier(2)

    async def meet() -> str:
        """Wait for the other agent."""
        await met.wait()
        return "met"

    pair = side_by_side(worker("a", meet), worker("b", meet), settings={"of": ["a", "b"]})
    run = played(pair, lambda live, _: lines.append(progress_line(live.run)), store=store, tags=("night",))
    assert (run.status, run.kind, run.agent, run.tags, run.settings) == (
        "completed",
        "workflow",
        "pair",
        ("night",),
        {"of": ["a", "b"]},
    )
    assert {name: step.status for name, step in run.step_records.items()} == dict.fromkeys(
        ("left", "right", "join"), "completed"
    )
    assert run.step_records["join"].output == "scripted:a and scripted:b"
    assert store.load(run.id) == run
    below = nested(store, run)
    assert {name: one.parent_id for name, one in below.items()} == {"left": run.id, "right": run.id}
    assert {name: one.prompt for name, one in below.items()} == {"left": "Go. Left.", "right": "Go. Right."}
    assert {one.status for one in below.values()} == {"completed"}
    seen = list(dict.fromkeys(lines))
    assert seen[:3] == snapshot
    assert seen[3] in ("1 of 2 steps, now: The left half", "1 of 2 steps, now: The right half")
    assert seen[4:] == ["2 of 2 steps", "2 of 3 steps, now: join", "3 of 3 steps"]


def test_one_budget_ends_both_agents_and_the_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    pair = side_by_side(
        worker("a", *[noted]), bare(Steady("b", *[ToolCall("noted", {})] * 20), [noted], unpriced=True), budget=5 * COST
    )
    run = pair.start("Go.", RunOptions(store=store)).result(30)
    assert (run.status, run.stop_reason, run.limit and run.limit.value) == ("limited", "budget", 5 * COST)
    below = nested(store, run)
    assert below["right"].stop_reason == "budget"
    assert sum(one.spent for one in below.values()) == pytest.approx(run.spent)
    assert "join" not in run.step_records


def test_unaffordable_step_is_skipped(tmp_path: Path) -> None:
    class InTurn(StepOrchestrator):
        async def orchestrate(self) -> None:
            for name in ("first", "second"):
                await self.run(name, worker(name), "Go.")

    run = Orchestration(make=InTurn, budget=COST).start("Go.", RunOptions(store=Store(tmp_path))).result(30)
    assert (run.status, run.stop_reason) == ("limited", "budget")
    assert {name: step.status for name, step in run.step_records.items()} == {"first": "completed", "second": "skipped"}


def test_paused_run_starts_no_step_until_resumed() -> None:
    begun: list[str] = []
    seen: list[int] = []
    going_on: list[asyncio.Task[None]] = []

    class InTurn(StepOrchestrator):
        async def orchestrate(self) -> None:
            await self.do("first", self.begin)
            await self.together(self.do("second", self.begin), self.do("third", self.begin))

        async def begin(self) -> None:
            begun.append("here")

    def watch(live: LiveRun, item: Any) -> None:
        if isinstance(item, StepStarted) and item.step == "first":
            live.pause()
        if getattr(item, "command", "") == "pause":
            going_on.append(asyncio.ensure_future(go_on(live)))

    async def go_on(live: LiveRun) -> None:
        for _ in range(20):  # all runnable steps have started by then
            await asyncio.sleep(0)
        seen.append(len(begun))
        live.resume()

    run = played(Orchestration(make=InTurn), watch)
    assert (run.status, begun, seen) == ("completed", ["here"] * 3, [1])


def test_nested_question_reaches_the_person_at_the_top(tmp_path: Path) -> None:
    store = Store(tmp_path)
    asks = bare(Steady("a", ToolCall("ask_person", {"question": "Which?"})), [ask_person])
    run = played(
        side_by_side(asks, worker("b")),
        lambda live, item: isinstance(item, QuestionAsked) and live.answer("that"),
        store=store,
    )
    assert (run.status, run.questions[0].answer, run.questions[0].question.call_id) == ("completed", "that", "left")
    assert "that" in nested(store, run)["left"].rounds[0].results[0].text


def test_failed_step_ends_the_run_and_is_named(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def broken(texts: list[str]) -> str:
        raise ValueError("no glue")

    gone = bare(Steady("a", error=ModelError("It is gone")))
    cases = {
        "work": (side_by_side(worker("a"), worker("b"), broken), "Step join failed: ValueError: no glue", "join"),
        "nested run": (side_by_side(gone, worker("b")), "step left: It is gone", "left"),
        "no plain data": (
            side_by_side(worker("a"), worker("b"), lambda texts: object()),
            "Step join failed: That cannot",
            "join",
        ),
    }
    for name, (pair, words, step) in cases.items():
        with subtests.test(name):
            run = pair.start("Go.", RunOptions(store=Store(tmp_path))).result(30)
            assert (run.status, run.step_records[step].status) == ("failed", "failed")
            assert run.error is not None and words in run.error.message
            assert not run.should_continue


def test_nested_run_has_its_own_options(tmp_path: Path) -> None:
    kinds: list[str] = []

    class Watched(StepOrchestrator):
        async def orchestrate(self) -> None:
            options = RunOptions(tags=("inner",), watch=lambda item: kinds.append(type(item).__name__))
            run = await self.run("one", worker("a"), "Go.", options)
            assert (run.tags, run.parent_id, run.id) == (("inner",), self.log.id, self.log.run.step_records["one"].nested)

    run = Orchestration(make=Watched).start("Go.", RunOptions(store=Store(tmp_path))).result(30)
    assert (run.status, kinds[0], kinds[-1]) == ("completed", "RunStarted", "RunFinished")


def test_orchestration_can_be_nested_like_an_agent(tmp_path: Path) -> None:
    store = Store(tmp_path)
    outer = side_by_side(worker("a"), side_by_side(worker("b"), worker("c")), lambda texts: len(texts))  # type: ignore[arg-type]
    run = outer.start("Go.", RunOptions(store=store)).result(30)
    inner = nested(store, run)["right"]
    assert (run.step_records["right"].status, inner.kind, inner.parent_id) == ("completed", "workflow", run.id)
    assert {nested_run.parent_id for nested_run in nested(store, inner).values()} == {inner.id}
    assert len(store.ids()) == 5


def test_sibling_of_failed_step_is_cancelled_and_orchestration_may_continue() -> None:
    class GoesOn(StepOrchestrator):
        async def orchestrate(self) -> Stop:
            with pytest.raises(StepFailed, match="Step bad failed: ValueError: no"):
                await self.together(self.do("slow", self.wait), self.do("bad", self.fail))
            return Stop("good_enough")

        async def wait(self) -> None:
            await asyncio.Event().wait()

        async def fail(self) -> None:
            raise ValueError("no")

    run = Orchestration(make=GoesOn).start("Go.").result(30)
    assert (run.status, run.stop_reason, run.error) == ("completed", "good_enough", None)
    assert {name: step.status for name, step in run.step_records.items()} == {"slow": "cancelled", "bad": "failed"}


def test_two_open_steps_with_the_same_id_are_refused() -> None:
    class Twice(StepOrchestrator):
        async def orchestrate(self) -> None:
            await self.together(self.do("one", self.wait), self.do("one", noted))

        async def wait(self) -> None:
            await asyncio.Event().wait()

    run = Orchestration(make=Twice).start("Go.").result(30)
    assert run.error is not None and "Step one has already been started" in run.error.message


def test_step_id_used_again_is_refused(tmp_path: Path) -> None:
    done: list[str] = []

    class Again(StepOrchestrator):
        async def orchestrate(self) -> None:
            for place in ("first", "second", "third"):
                await self.do("item", partial(self.note, place))

        async def note(self, place: str) -> str:
            done.append(place)
            return place

    store = Store(tmp_path)
    run = Orchestration(make=Again).start("Go.", RunOptions(store=store)).result(30)
    assert (run.status, done) == ("failed", ["first"])
    assert run.error is not None and "Step item has already been started" in run.error.message


# Killed and recovered


def finished_in(folder: Path) -> Counter[str]:
    """Count the completed calls of each tool of each agent in the logs of a folder."""
    runs = [Store(folder).load(run_id) for run_id in Store(folder).ids()]
    return Counter(
        f"{run.agent} {event.result.name}"
        for run in runs
        for event in run.events
        if isinstance(event, ToolFinished) and not event.result.is_error
    )


def test_killed_tree_recovers_from_any_event_without_repeating_work(tmp_path: Path, subtests: pytest.Subtests) -> None:
    done: Counter[str] = Counter()

    def counted(agent: str) -> Callable[..., Any]:
        @tool(repeatable=True)
        async def fetch() -> str:
            """Fetch."""
            done[f"{agent} fetch"] += 1
            return "fetched"

        return fetch

    def join(texts: list[str]) -> str:
        done["join"] += 1
        return " and ".join(texts)

    def pair() -> Orchestration:
        left, right = [bare(Steady(one, ToolCall("fetch", {})), [counted(one)], name=one) for one in ("a", "b")]
        return side_by_side(left, right, join)

    store = Snapshots(tmp_path / "whole")
    whole = pair().start("Go.", RunOptions(store=store)).result(30)
    assert len(store.kept) > 20
    for folder in store.kept[: -1 : size(2, nightly=1)]:
        with subtests.test(folder.name):
            here = Store(folder)
            finished = finished_in(folder)
            joined = any(isinstance(one, StepFinished) and one.step == "join" for one in here.load(whole.id).events)
            done.clear()
            run = asyncio.run(recover(whole.id, agent=pair(), store=here))
            assert (run.status, run.times_recovered) == ("completed", 1)
            assert {name: (one.status, one.output) for name, one in run.step_records.items()} == {
                name: (one.status, one.output) for name, one in whole.step_records.items()
            }
            assert done == Counter({"a fetch": 1, "b fetch": 1}) - finished + Counter({"join": not joined})
            assert here.load(run.id) == run
            assert run.counters.spent_inside == pytest.approx(
                sum(nested_run.spent for nested_run in nested(here, run).values())
            )
            for one in nested(here, run).values():
                assert one.status == "completed" and one.parent_id == run.id
                started = Counter(event.call.id for event in one.events if isinstance(event, ToolStarted))
                assert set(started) == {"c0"}


def test_failed_step_stays_failed_in_the_recovered_run(tmp_path: Path) -> None:
    tried: list[str] = []

    class Tries(StepOrchestrator):
        async def orchestrate(self) -> None:
            await self.do("try", self.fail)

        async def fail(self) -> None:
            tried.append("here")
            raise ValueError("no")

    store = Snapshots(tmp_path / "whole")
    whole = Orchestration(make=Tries).start("Go.", RunOptions(store=store)).result(30)
    after = next(n for n, event in enumerate(whole.events) if isinstance(event, StepFinished))
    run = asyncio.run(recover(whole.id, agent=Orchestration(make=Tries), store=Store(store.kept[after])))
    assert (run.status, tried) == ("failed", ["here"])
    assert run.error is not None and "Step try failed: ValueError: no" in run.error.message


def test_run_of_another_kind_is_not_recovered_as_an_agent(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "whole")
    whole = side_by_side(worker("a"), worker("b")).start("Go.", RunOptions(store=store)).result(30)
    with pytest.raises(SettingsError, match=r"is a workflow.*recover\(run, agent=.*"):
        asyncio.run(recover(whole.id, store=Store(store.kept[3])))


@pytest.mark.parametrize("step", [5, "", "\ud800", None])
def test_step_id_that_cannot_be_logged_is_refused(step: Any, tmp_path: Path) -> None:
    class Odd(StepOrchestrator):
        async def orchestrate(self) -> None:
            async def work() -> int:
                return 1

            await self.do(step, work)

    run = asyncio.run(Orchestration(make=Odd).run("Go.", RunOptions(store=Store(tmp_path))))
    assert run.status == "failed" and run.error is not None and "is not a valid step id" in run.error.message
    assert Store(tmp_path).load(run.id).status == "failed"


def test_invalid_verdict_is_refused_and_the_log_is_readable(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, end in enumerate([5, Stop("x", status="weird")]):  # type: ignore[arg-type]

        class Odd(StepOrchestrator):
            async def orchestrate(self) -> Any:
                return end  # noqa: B023  # it is read within this turn

        with subtests.test(repr(end)):
            store = Store(tmp_path / str(number))
            run = asyncio.run(Orchestration(make=Odd).run("Go.", RunOptions(store=store)))
            assert run.error is not None and "not a verdict" in run.error.message
            assert store.load(run.id).status == "failed"


def test_nested_question_suspends_the_run_and_its_answer_resumes_it(tmp_path: Path) -> None:
    def asks(call: ToolCall, run: Any) -> Ask | None:
        return Ask("May it?")

    def pair() -> Orchestration:
        return side_by_side(worker("a", noted, gates=[asks]), worker("b"))

    store = Store(tmp_path)
    run = asyncio.run(pair().run("Go.", RunOptions(store=store, suspend=True)))
    assert (run.status, [question.message for question in run.waiting]) == ("waiting_on_user", ["May it?"])
    assert run.step_records["right"].status == "completed"
    run = asyncio.run(recover(run.id, agent=pair(), store=store, answers={run.waiting[0].id: True}))
    assert (run.status, run.step_records["left"].status) == ("completed", "completed")
    assert "noted" in nested(store, run)["left"].rounds[0].results[0].text


def test_step_started_twice_in_a_log_runs_once(tmp_path: Path) -> None:
    done: list[str] = []

    class Once(StepOrchestrator):
        async def orchestrate(self) -> None:
            await self.do("one", self.note)
            await self.do("two", noted)

        async def note(self) -> str:
            done.append("here")
            return "kept"

    store = Snapshots(tmp_path / "whole")
    whole = Orchestration(make=Once).start("Go.", RunOptions(store=store)).result(30)
    after = next(n for n, event in enumerate(whole.events) if isinstance(event, StepFinished))
    log = store.kept[after] / f"{whole.id}.jsonl"
    first, started, *others = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [first, started, started, *others]  # as earlier versions did for a step interrupted by the death of the process
    log.write_text("".join(json.dumps({**line, "seq": number}) + "\n" for number, line in enumerate(lines)))
    run = asyncio.run(recover(whole.id, agent=Orchestration(make=Once), store=Store(store.kept[after]), trust_log=True))
    assert (run.status, run.step_records["one"].output, done) == ("completed", "kept", ["here"])
