"""Every way to end a run from outside, at every point of it: the same guarantees hold."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from places import MAX_SECONDS, PLACES, BusyStore, Place, Scene, Way, deaf_tool, inner
from run_builder import called
from run_checks import answers, assert_closed, assert_every_call_has_one_result, checked, codes, limits_reached
from scripted_runs import bare, work
from virtual_time import SkippedClock
from waiting import PATIENCE, turns, wait_until, wait_until_main_thread_blocks

from agentnb.core.log import events as e
from agentnb.core.log.well_formed import check_events
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.runtime.host.host import host_here, use_host
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.threads import LoopThread
from agentnb.runtime.workers.foreground import Foreground, RunInterrupted
from agentnb.store.store import Store
from agentnb.tools.function import tool

WAYS: tuple[Way, ...] = get_args(Way)
ENDS: dict[Way, tuple[str, str | None]] = {
    "stop": ("cancelled", "cancelled"),
    "interrupt": ("cancelled", "cancelled"),
    "cancel": ("cancelled", "cancelled"),
    "time": ("limited", "max_seconds"),
    "suspend": ("waiting_on_user", None),
}
COMMANDS: dict[Way, list[tuple[str, str]]] = {
    "stop": [("stop", "enough")],
    "interrupt": [("stop", "interrupted")],
    "suspend": [("suspend", "asked")],
}

pytestmark = [
    pytest.mark.skipif(
        not hasattr(signal, "pthread_kill") or threading.current_thread() is not threading.main_thread(),
        reason="an interrupt can only be sent to the main thread of a POSIX process",
    ),
    pytest.mark.usefixtures("no_escape", "own_limiters"),
]


class Cell:
    """A run ended in a given way at a given point."""

    def __init__(self, place: Place, way: Way, folder: Path, clock: SkippedClock, stack: ExitStack) -> None:
        self.place, self.way, self.clock = place, way, clock
        self.idle = way in place.idle
        limits = {"max_seconds": MAX_SECONDS} if way == "time" else {}
        self.scene = Scene(limits, way, stack)
        self.store = Store(folder)
        self.thread = LoopThread()
        self.seen: list[e.AnyEvent] = []
        self.heard = ""
        """The text streamed to its watcher."""
        self.task: asyncio.Task[Run] | None = None
        self.requests = 0
        self.tools = 0
        """Tools already started when the run was ended."""
        self._started = threading.Event()
        self._errors: list[BaseException] = []

    def run(self) -> Run:
        """Check the caller's result and return the run as its watcher saw it."""
        runs = self.place.build(self.scene)
        before = signal.getsignal(signal.SIGINT)
        with use_host(replace(host_here(), begun=self._begun, can_ask=True)):
            ended = self._awaited(runs) if self.way == "cancel" else self._started_run(runs)
        assert signal.getsignal(signal.SIGINT) is before
        run = Run.from_events(self.seen)
        assert self._errors == []
        assert ended is None or ended == run
        assert (ended is None) is (self.way in ("interrupt", "cancel"))
        for check in self.scene.checks:
            check()
        return run

    def _begun(self, live: Any) -> None:
        self.scene.lives.append(live)
        self._started.set()

    def options(self, **fields: Any) -> RunOptions:
        store: Any = self.store if self.place.is_kept else BusyStore(self.scene)
        return RunOptions(store=store, watch=self._watch, **fields)

    def _awaited(self, runs: Any) -> Run | None:
        async def main() -> Run | None:
            self.task = asyncio.create_task(runs.run("go", self.options()))
            if not self.place.at_once:
                await asyncio.to_thread(wait_until, lambda: self.scene.is_there())
                self._act()
            try:
                await asyncio.wait([self.task], timeout=PATIENCE)
                assert self.task.done()
                return self.task.result()
            except asyncio.CancelledError:
                assert self.task.cancelled()
                return None
            finally:
                self.scene.released.set()
                while self.scene.inside:
                    await asyncio.sleep(0.001)
                await turns(20)
                assert asyncio.all_tasks() == {asyncio.current_task()}

        return asyncio.run(main())

    def _started_run(self, runs: Any) -> Run | None:
        foreground = Foreground() if self.place.on_main_thread or self.way == "interrupt" else None
        actor = threading.Thread(target=self._act_when_there, daemon=True)
        actor.start()
        run: Run | None = None
        if foreground is None:
            run = runs.start("go", self.options(thread=self.thread, can_ask=True)).result(PATIENCE)
        else:
            try:
                with foreground.own_interrupts():
                    options = self.options(thread=self.thread, foreground=foreground, can_ask=True)
                    run = runs.start("go", options).wait_in_foreground()
            except RunInterrupted as error:
                assert self.way == "interrupt" and error.closed
        actor.join(PATIENCE)
        self.scene.released.set()
        wait_until(lambda: not self.scene.inside)
        wait_until(lambda: self.thread.submit(_other_tasks).result(PATIENCE) == 0)
        self.thread.close()
        return run

    def _watch(self, item: Any) -> None:
        if isinstance(item, e.Event):
            self.seen.append(item)  # type: ignore[arg-type]
        elif isinstance(item, e.TextDelta):
            self.heard += item.text
        if self.place.on is not None and self.place.on(item):
            if self.place.at_once:
                self._act()
            self.scene.reached.set()

    def _act_when_there(self) -> None:
        try:
            if not self.place.at_once:
                wait_until(lambda: self.scene.is_there())
                self._act()
        except BaseException as error:
            self._errors.append(error)

    def _act(self) -> None:
        assert self._started.wait(PATIENCE)
        self.requests, self.tools = self.scene.requests, begun_tools(self.seen)
        getattr(self, f"_{self.way}")()
        if self.idle:
            self.clock.skip(0)
            assert not self.scene.lives[0].done
            self._stop()

    def _stop(self) -> None:
        self.scene.lives[0].stop("enough")

    def _interrupt(self) -> None:
        wait_until_main_thread_blocks()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        wait_until(lambda: self.scene.lives[0]._inbox.stop_requested)

    def _cancel(self) -> None:
        assert self.task is not None
        self.task.cancel()

    def _time(self) -> None:
        self.clock.skip(MAX_SECONDS + 1)

    def _suspend(self) -> None:
        if self.idle:
            with pytest.raises(SettingsError, match="is not waiting for approval"):
                self.scene.lives[0].suspend()
        else:
            wait_until(lambda: self.scene.lives[0].run.waiting)
            self.scene.lives[0].suspend()


def begun_tools(events: Iterable[object]) -> int:
    return sum(isinstance(event, e.ToolStarted) for event in events)


async def _other_tasks() -> int:
    return len(asyncio.all_tasks()) - 1


def assert_promises(cell: Cell, run: Run) -> None:
    """Check the guarantees for every run ended from outside."""
    place, way = cell.place, cell.way if not cell.idle else "stop"
    assert (run.status, run.stop_reason) == (("completed", "natural") if place.is_over else ENDS[way])
    assert cell.scene.requests == cell.requests, "no further request"
    assert begun_tools(run.events) == cell.tools or not place.at_once, "no further tool"
    check_events(run.events, "the log")
    assert run.text == (cell.heard or run.text)
    assert cell.scene.went_on == [], "the ended run made no progress"
    assert all("could not be stopped at once" in warning for warning in run.warnings), "a thread may be slow"
    assert place.leaves in " ".join(run.warnings)
    if way == "suspend":
        assert type(run.events[-1]) is e.RunSuspended and len(run.waiting) == 1
        assert codes(run) == []
    else:
        assert_closed(run)
        if not (run.step_records or place.inner):
            assert_every_call_has_one_result(run)
        assert set(answers(run).values()) <= {1}
        assert all(a_round.status == "cancelled" for a_round in run.rounds if not a_round.reply)
        assert all(a_round.stop_reason == "broken_off" for a_round in run.rounds[-1:] if cell.heard and not place.at_once)
        cut_off = "time_limit" if way == "time" else "cancelled"
        assert codes(run) == [code and cut_off for code in place.codes]
        calls = [one for a_round in run.rounds for record in a_round.records for one in record.inner]
        assert [call.result and call.result.error_code for call in calls] == [cut_off] * place.inner
        assert run.waiting == () and {question.outcome for question in run.questions} <= {"withdrawn"}
    assert {step.status for step in run.step_records.values()} <= {"cancelled"}
    assert run.prompt == "go"
    if not place.is_over:
        assert_way_is_named(run, way)
    if place.is_kept:
        assert_logs_are_whole(cell, run)
    if run.rounds and way != "suspend":
        following = bare(ScriptedModel(["Fine."]), [work]).run_sync("And now?", continue_from=run)
        assert (checked(following).status, following.text) == ("completed", "Fine.")


def assert_way_is_named(run: Run, way: Way) -> None:
    """Check that the log says who ended the run."""
    commands = [(event.command, event.text) for event in run.events if isinstance(event, e.CommandReceived)]
    assert [command for command in commands if command[0] != "pause"] == COMMANDS.get(way, [])
    assert limits_reached(run) == ([("max_seconds", MAX_SECONDS)] if way == "time" else [])


def assert_logs_are_whole(cell: Cell, run: Run) -> None:
    """Check that the store equals the watcher's run, and that no nested log is open."""
    assert cell.store.load(run.id) == run
    for run_id in {*cell.store.ids(), *(path.stem for path in cell.store.folder.rglob("*.jsonl"))} - {run.id}:
        wait_until(lambda run_id=run_id: not cell.store.load(run_id).should_continue)  # type: ignore[misc]  # on a thread
        inner = cell.store.load(run_id)
        assert inner.status == "cancelled" and set(codes(inner)) <= {"cancelled"}
        assert_closed(inner)
        assert_every_call_has_one_result(inner)


@pytest.mark.req("R0.12", "R0.13", "R0.78", "KX.2", "KX.5", "KX.11")
@pytest.mark.parametrize("name", PLACES)
def test_run_promises_survive_every_kind_of_exit(
    name: str, subtests: pytest.Subtests, skipped: SkippedClock, tmp_path: Path
) -> None:
    place = PLACES[name]
    for way in WAYS:
        with subtests.test(way=way), ExitStack() as stack:
            if way in place.never:
                pytest.skip(f"{name}, {way}: {place.never[way]}")
            cell = Cell(place, way, tmp_path / way, skipped, stack)
            assert_promises(cell, cell.run())


@pytest.mark.req("R0.13", "KX.2")
def test_abandoned_nested_run_ends_before_its_parent(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for count, limits in ((1, {}), (2, {}), (1, {"max_seconds": 0.1})):
        with subtests.test(count=count, **limits), ExitStack() as stack:
            scene, store = Scene(limits, "stop", stack), Store(tmp_path / f"{count} {limits}")

            @tool(parallel_safe=True)
            async def delegate(scene: Any = scene) -> str:
                """Starts a run, and tidies up before it passes its cancellation on."""
                run = asyncio.ensure_future(inner(scene, deaf_tool(scene)).run("inner"))
                try:
                    return (await asyncio.shield(run)).text
                except asyncio.CancelledError:
                    await asyncio.sleep(0.05)
                    run.cancel()
                    return (await run).text

            scene.several(count)
            live = scene.agent(delegate, calls=[called("delegate")] * count).start("go", store=store)
            wait_until(scene.is_there)
            if not limits:
                live.stop()
            run = live.result(PATIENCE)  # its loop ends with it
            scene.released.set()
            nested = [store.load(path.stem) for path in store.folder.rglob("*.jsonl") if path.stem != run.id]
            assert [one.status for one in nested] == ["cancelled"] * count
