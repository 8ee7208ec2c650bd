"""Every way to end a run from outside, at every place where it can be: the same promises hold."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import pytest
from places import MAX_SECONDS, PLACES, BusyStore, Place, Scene, Way
from run_checks import answers, assert_closed, assert_every_call_has_one_result, codes, limits_reached
from virtual_time import SkippedClock
from waiting import PATIENCE, turns, wait_until, wait_until_main_thread_blocks

from agentnb.core.log import events as e
from agentnb.core.log.well_formed import check_events
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.threads import LoopThread
from agentnb.runtime.workers.foreground import Foreground
from agentnb.store.store import Store

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
    """One run, ended in one way at one place."""

    def __init__(self, place: Place, way: Way, folder: Path, clock: SkippedClock, stack: ExitStack) -> None:
        self.place, self.way, self.clock = place, way, clock
        self.idle = way in place.idle
        limits = {"max_seconds": MAX_SECONDS} if way == "time" else {}
        self.scene = Scene(limits, way, stack)
        self.store = Store(folder)
        self.thread = LoopThread()
        self.seen: list[e.AnyEvent] = []
        self.task: asyncio.Task[Run] | None = None
        self.requests = 0
        self._started = threading.Event()
        self._errors: list[BaseException] = []

    def run(self) -> Run:
        """The run as its watcher saw it, after what the caller gets was checked."""
        runs = self.place.build(self.scene)
        ended = self._awaited(runs) if self.way == "cancel" else self._started_run(runs)
        run = Run.from_events(self.seen)
        assert self._errors == []
        assert ended is None or ended == run
        assert (ended is None) is (self.way in ("interrupt", "cancel"))
        return run

    def options(self, **fields: Any) -> RunOptions:
        store: Any = self.store if self.place.is_kept else BusyStore(self.scene)
        return RunOptions(store=store, watch=self._watch, can_ask=True, **fields)

    def _awaited(self, runs: Any) -> Run | None:
        async def main() -> Run | None:
            self.task = asyncio.create_task(runs.run("go", self.options()))
            if not self.place.at_once:
                await asyncio.to_thread(wait_until, lambda: self.scene.is_there())
                self._act()
            try:
                return await self.task
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
            live = self._begun(runs, None)
            run = live.result(PATIENCE)
        else:
            try:
                with foreground.own_interrupts():
                    run = self._begun(runs, foreground).wait_in_foreground()
            except KeyboardInterrupt:
                assert self.way == "interrupt"
        actor.join(PATIENCE)
        self.scene.released.set()
        wait_until(lambda: not self.scene.inside)
        wait_until(lambda: self.thread.submit(_other_tasks).result(PATIENCE) == 0)
        self.thread.close()
        return run

    def _begun(self, runs: Any, foreground: Foreground | None) -> Any:
        live = runs.start("go", self.options(foreground=foreground, thread=self.thread))
        self.scene.lives.append(live)
        self._started.set()
        return live

    def _watch(self, item: Any) -> None:
        if not isinstance(item, e.Event):
            return
        self.seen.append(item)  # type: ignore[arg-type]
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
        if self.way != "cancel":
            assert self._started.wait(PATIENCE)
        self.requests = self.scene.requests
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

    def _cancel(self) -> None:
        assert self.task is not None
        self.task.cancel()

    def _time(self) -> None:
        self.clock.skip(MAX_SECONDS + 1)

    def _suspend(self) -> None:
        if self.idle:
            with pytest.raises(SettingsError, match="waits for no approval"):
                self.scene.lives[0].suspend()
        else:
            wait_until(lambda: self.scene.lives[0].run.waiting)
            self.scene.lives[0].suspend()


async def _other_tasks() -> int:
    return len(asyncio.all_tasks()) - 1


def assert_promises(cell: Cell, run: Run) -> None:
    """What holds of every run that was ended from outside."""
    place, way = cell.place, cell.way if not cell.idle else "stop"
    assert (run.status, run.stop_reason) == (("completed", "natural") if place.is_over else ENDS[way])
    assert cell.scene.requests == cell.requests, "no further request"
    check_events(run.events, "the log")
    assert run.text == place.text or any(a_round.calls for a_round in run.rounds)
    if way == "suspend":
        assert type(run.events[-1]) is e.RunSuspended and len(run.waiting) == 1
        assert codes(run) == []
    else:
        assert_closed(run)
        if not run.step_records:
            assert_every_call_has_one_result(run)
        assert set(answers(run).values()) <= {1}
        assert all(a_round.status == "cancelled" for a_round in run.rounds if not a_round.reply)
        cut_off = "time_limit" if way == "time" else "cancelled"
        assert codes(run) == [code and cut_off for code in place.codes]
        assert run.waiting == () and {one.outcome for one in run.questions} <= {"withdrawn"}
    assert {step.status for step in run.step_records.values()} <= {"cancelled"}
    assert run.prompt == "go"
    if not place.is_over:
        assert_way_is_named(run, way)
    if place.is_kept:
        assert_logs_are_whole(cell, run)


def assert_way_is_named(run: Run, way: Way) -> None:
    """The log says who ended the run."""
    commands = [(event.command, event.text) for event in run.events if isinstance(event, e.CommandReceived)]
    assert [command for command in commands if command[0] != "pause"] == COMMANDS.get(way, [])
    assert limits_reached(run) == ([("max_seconds", MAX_SECONDS)] if way == "time" else [])


def assert_logs_are_whole(cell: Cell, run: Run) -> None:
    """The store has what the watcher saw, and no log of a nested run is left open."""
    assert cell.store.load(run.id) == run
    for run_id in {*cell.store.ids(), *(path.stem for path in cell.store.folder.rglob("*.jsonl"))} - {run.id}:
        inner = cell.store.load(run_id)
        assert inner.status == "cancelled" and set(codes(inner)) == {"cancelled"}
        assert_closed(inner)
        assert_every_call_has_one_result(inner)


@pytest.mark.req("R0.13", "KX.2", "KX.5", "KX.11")
@pytest.mark.parametrize("name", PLACES)
def test_every_way_out_of_a_place_keeps_the_promises(
    name: str, subtests: pytest.Subtests, skipped: SkippedClock, tmp_path: Path
) -> None:
    place = PLACES[name]
    for way in WAYS:
        if way in place.never:
            continue
        with subtests.test(way=way), ExitStack() as stack:
            cell = Cell(place, way, tmp_path / way, skipped, stack)
            assert_promises(cell, cell.run())


def test_ways_that_cannot_be_say_why() -> None:
    for place in PLACES.values():
        for way, reason in {**place.idle, **place.never}.items():
            assert reason.startswith(f"{way}: ")
