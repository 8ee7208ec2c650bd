"""A run whose process died in any event is recovered as if it had not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from cut_runs import SCENES, Scene, assert_whole, cut, play, recovered_scene, recovers_fully, story
from generated_runs import Plan, plans, recovered, run_plan
from hypothesis import given
from hypothesis import strategies as st
from killed_runs import Following, run_in, tools_in
from marked_logs import marked
from property_settings import examples, size

from agentnb import Agent, Run, Store, ToolCall, load_trace, recover, tool
from agentnb.context.request_history import sent_requests
from agentnb.core.log import events as e
from agentnb.core.request import Request
from agentnb.core.run.rounds import INTERRUPTED
from agentnb.models import ScriptedModel

CUTS = size(10, nightly=60)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Scene], tuple[Run, list[Request]]]:
    """Play each scene once; return its run and requests."""
    known: dict[str, tuple[Run, list[Request]]] = {}

    def whole(scene: Scene) -> tuple[Run, list[Request]]:
        if scene.name not in known:
            known[scene.name] = play(scene, tmp_path_factory.mktemp("whole"))
        return known[scene.name]

    return whole


Played = Callable[[Scene], tuple[Run, list[Request]]]


def begun(run: Run) -> set[str]:
    return {event.call.id for event in run.events if isinstance(event, e.ToolStarted)}


def as_bytes(request: Request) -> bytes:
    return msgspec.json.encode((request.system, list(request.messages), request.tools, request.settings))


@pytest.mark.req("R0.29")
@pytest.mark.slow("29 runs, each recovered after every sixth of its events, at night after every one")
def test_run_interrupted_after_any_event_completes_all_its_work(
    subtests: pytest.Subtests, played: Played, tmp_path: Path
) -> None:
    """The requests can be rebuilt, whichever process sent them."""
    for number, scene in enumerate(SCENES):
        with subtests.test(scene.name):
            whole, sent = played(scene)
            assert (whole.status, whole.stop_reason) == scene.ends
            counts = range(1 + number % size(6, nightly=1), len(whole.events), size(6, nightly=1))
            assert cut_off(scene, whole, sent, counts, tmp_path / scene.name) >= size(1, nightly=4)


def cut_off(scene: Scene, whole: Run, sent_before: list[Request], counts: Iterable[int], folder: Path) -> int:
    """Recover the run after each number of events; count the recoveries that do all its work."""
    alike = 0
    for count in counts:
        died = whole.events[:count]
        path = cut(died, folder / str(count))
        run, sent = recovered_scene(scene, path)
        assert_whole(path, run, died)
        assert run.times_recovered == 1
        if count % 3 == 1:
            rebuilt = [as_bytes(seen.request) for _, seen in sent_requests(run)]
            kept = len(rebuilt) - len(sent)
            assert rebuilt == [as_bytes(one) for one in [*sent_before[:kept], *sent]], count
        if recovers_fully(scene, died):
            alike += 1
            assert story(run) == story(whole), count
            assert [(todo.title, todo.status) for todo in run.todos] == [(todo.title, todo.status) for todo in whole.todos]
            assert (run.calls_made, run.usage, run.text) == (whole.calls_made, whole.usage, whole.text)
    return alike


@pytest.mark.req("K2.2")
def test_run_interrupted_under_a_budget_recovers_to_the_same_end(played: Played, tmp_path: Path) -> None:
    scene = next(one for one in SCENES if one.name == "budget")
    whole, _ = played(scene)
    for count in range(1, len(whole.events)):
        run, _ = recovered_scene(scene, cut(whole.events[:count], tmp_path / str(count)))
        assert story(run) == story(whole), count


def test_log_truncated_at_any_byte_resumes_after_its_last_event(tmp_path: Path) -> None:
    whole = run_in(tmp_path / "whole")
    data, dice = marked(whole.events), random.Random(6)
    first, most = len(marked(whole.events[:1])), len(marked(whole.events[:-1]))
    before_a_line_end = len(marked(whole.events[:9])) - 1
    for number, at in enumerate([before_a_line_end, *(dice.randrange(first, most) for _ in range(CUTS))]):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / f"{whole.id}.jsonl"
        path.write_bytes(data[:at])
        died = load_trace(path)
        run = asyncio.run(recover(path, tools=tools_in(folder), model=Following()))
        assert_whole(path, run, died.events)
        assert_calls_are_answered_as_they_should(died, run)


def assert_calls_are_answered_as_they_should(died: Run, run: Run) -> None:
    """Running calls are reported as interrupted, except the todo tool; pending ones are run."""
    current = died.open_round
    pending = [record.call for record in current.records if record.result is None] if current else []
    pending = sorted([call for call in pending if call.id in begun(died)], key=lambda call: call.name != "decide")
    one_by_one = [call for call in pending if call.name in ("build", "fails", "decide", "todo_operations")]
    running = one_by_one[:1] or pending
    cut_off = {call.id for call in running if call.name != "todo_operations"}
    told = {result.call_id for round in run.rounds for result in round.results if result.error_code == INTERRUPTED}
    assert told == cut_off


@examples(120)
@given(plans, st.integers(0, 200), st.integers(0, 200))
def test_generated_run_can_be_recovered_twice_after_any_event(plan: Plan, first: int, second: int) -> None:
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        run = asyncio.run(run_plan(plan, plan.replies, store, None))
        for drawn in (first, second):
            if len(run.events) == 1:
                return
            died = list(run.events[: 1 + drawn % (len(run.events) - 1)])
            before = sum(isinstance(event, e.RunRecovered) for event in died)
            run = recovered(replace(plan, died=len(died)), run, store)
            assert_whole(store.path(run.id), run, died)
            assert run.times_recovered == before + 1


ORDERS: dict[str, tuple[list[str], int, list[str | None], list[int]]] = {
    "in the second of three": (["one"] * 3, 1, [None, INTERRUPTED, None], [2]),
    "before the first was over": (["one"] * 3, 0, [INTERRUPTED, None, None], [1, 2]),
    "in the last": (["one"] * 3, 2, [None, None, INTERRUPTED], []),
    "in the one that waits for the person": (["one", "waits", "one"], 1, [None, INTERRUPTED, None], [2]),
    "after it": (["one", "waits", "one"], 2, [None, None, INTERRUPTED], []),
    "in those side by side": (["beside", "beside", "one"], 0, [INTERRUPTED, INTERRUPTED, None], [2]),
    "in one after those side by side": (["beside", "beside", "one"], 2, [None, None, INTERRUPTED], []),
    "beside the one that waits for the person": (["waits", "beside", "one"], 0, [INTERRUPTED, INTERRUPTED, None], [2]),
}
"""The tools of one reply, how many of its calls had ended when the process died, how each was answered, which were run then."""


@pytest.mark.req("KX.11", "KX.12")
def test_only_running_calls_of_a_reply_are_reported_interrupted(subtests: pytest.Subtests, tmp_path: Path) -> None:
    ran: list[int] = []

    async def one(n: int) -> str:
        ran.append(n)
        return f"made {n}"

    async def waits(n: int) -> str:
        return await one(n)

    async def beside(n: int) -> str:
        return await one(n)

    tools = [one, tool(blocking=True)(waits), tool(parallel_safe=True)(beside)]
    for where, (kinds, ended, codes, run_then) in ORDERS.items():
        with subtests.test(where):
            calls = [ToolCall(name, {"n": n}) for n, name in enumerate(kinds)]
            whole = Agent(ScriptedModel([calls, "Done."]), tools=tools, todos=False).run_sync("Go.")
            finished = [place for place, event in enumerate(whole.events) if isinstance(event, e.ToolFinished)]
            path = cut(whole.events[: finished[ended]], tmp_path)
            ran.clear()
            run = asyncio.run(recover(path, tools=tools, model=ScriptedModel(["Done."])))
            assert_whole(path, run, whole.events[: finished[ended]])
            assert (run.status, [result.error_code for result in run.rounds[0].results]) == ("completed", codes)
            assert sorted(ran) == run_then
