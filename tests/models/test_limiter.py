"""The limit of parallel calls to a provider."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from fake_time import fake_clock, run_at_once
from free_places import free_places
from property_settings import size
from waiting import PATIENCE, turns

from agentnb.models.defaults import LONGEST_CLOSED, MAX_AT_ONCE
from agentnb.models.transport import limiter as limiter_module
from agentnb.models.transport.connections import Endpoint, limiter_of
from agentnb.models.transport.limiter import LOOK_AGAIN, Limiter, NoPlace
from agentnb.settings import Key


class Place:
    """Counts holders of slots in all threads, and records their order."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.inside = self.most = 0
        self.order: list[Any] = []
        self._lock = threading.Lock()

    async def stay(self, name: Any = None, until: Callable[[], Awaitable[Any]] = lambda: asyncio.sleep(0)) -> None:
        async with self.limiter.place():
            with self._lock:
                self.inside += 1
                self.most = max(self.most, self.inside)
                self.order.append(name)
            try:
                await until()
            finally:
                with self._lock:
                    self.inside -= 1


def run(make: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine on a new loop, with a timeout."""

    async def patiently() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await make()

    return asyncio.run(patiently())  # type: ignore[arg-type]


@pytest.mark.req("R2.40")
@pytest.mark.parametrize("most", [1, 3, 32])
def test_hundred_calls_from_several_threads_stay_within_the_limit(most: int) -> None:
    place = Place(Limiter(most))

    async def some() -> None:
        await asyncio.gather(*(place.stay(until=lambda: asyncio.sleep(0.001)) for _ in range(25)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run(some), range(4)))
    assert len(place.order) == 100 and place.inside == 0
    assert place.most <= most
    assert run(lambda: free_places(place.limiter)) == min(most, MAX_AT_ONCE + 1)


def test_limiter_admits_exactly_its_limit_at_once() -> None:
    place = Place(Limiter(3))

    async def fill() -> None:
        go = asyncio.Event()
        tasks = [asyncio.ensure_future(place.stay(until=go.wait)) for _ in range(5)]
        await turns()
        assert place.inside == 3
        go.set()
        await asyncio.gather(*tasks)
        assert len(place.order) == 5

    run(fill)


def test_waiters_are_served_in_order() -> None:
    place = Place(Limiter(2))

    async def queue() -> None:
        go = asyncio.Event()
        holders = [asyncio.ensure_future(place.stay("holder", go.wait)) for _ in range(2)]
        await turns()
        waiting = [asyncio.ensure_future(place.stay(number)) for number in range(10)]
        await turns()
        go.set()
        await asyncio.gather(*holders, *waiting)

    run(queue)
    assert place.order == ["holder", "holder", *range(10)]


def test_newcomer_does_not_overtake_waiters() -> None:
    place = Place(Limiter(1))

    async def queue() -> None:
        go = asyncio.Event()
        holder = asyncio.ensure_future(place.stay("holder", go.wait))
        await turns()
        waiting = asyncio.ensure_future(place.stay("waited"))
        await turns()
        go.set()
        await asyncio.gather(holder, place.stay("late"), waiting)

    run(queue)
    assert place.order == ["holder", "waited", "late"]


@pytest.mark.req("R2.40")
def test_refusal_halves_the_limit_and_successes_raise_it() -> None:
    limiter = Limiter(8)
    seen = [limiter.allowed]
    for _ in range(5):
        limiter.was_refused(0.0)
        seen.append(limiter.allowed)
    assert seen == [8, 4, 2, 1, 1, 1]
    assert run(lambda: free_places(limiter)) == 1
    for _ in range(9):
        limiter.went_well()
        seen.append(limiter.allowed)
    assert seen[6:] == [2, 3, 4, 5, 6, 7, 8, 8, 8]
    assert run(lambda: free_places(limiter)) == 8


def test_success_wakes_a_waiter() -> None:
    place = Place(Limiter(2))
    place.limiter.was_refused(0.0)

    async def grow() -> None:
        go = asyncio.Event()
        tasks = [asyncio.ensure_future(place.stay(until=go.wait)) for _ in range(3)]
        await turns()
        assert place.inside == 1
        place.limiter.went_well()
        await turns()
        assert place.inside == 2
        go.set()
        await asyncio.gather(*tasks)

    run(grow)


@pytest.mark.req("R2.40")
def test_calls_wait_for_the_requested_time_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, place = fake_clock(monkeypatch), Place(Limiter(8))
    opens = clock.now + 15
    entered: list[float] = []

    async def look() -> None:
        entered.append(clock.now)

    async def closed() -> None:
        place.limiter.was_refused(15)
        place.limiter.was_refused(1)  # a shorter one does not open it sooner
        await asyncio.gather(*(place.stay(until=look) for _ in range(5)))

    run_at_once(clock, closed())
    assert len(entered) == 5 and min(entered) >= opens


@pytest.mark.req("R2.40")
def test_reopening_admits_only_the_lowered_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, place = fake_clock(monkeypatch), Place(Limiter(8))

    async def closed() -> None:
        place.limiter.was_refused(10)
        early = [asyncio.ensure_future(place.stay(until=lambda: asyncio.sleep(1))) for _ in range(8)]
        await turns()
        for _ in range(3):  # of calls that were on their way
            place.limiter.was_refused(5)
        await asyncio.gather(*early)

    run_at_once(clock, closed())
    assert len(place.order) == 8 and place.most == 1


def test_slot_freed_during_closure_is_available_on_reopening(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, place = fake_clock(monkeypatch), Place(Limiter(1))

    async def closed() -> None:
        go = asyncio.Event()
        holder = asyncio.ensure_future(place.stay("holder", go.wait))
        await turns()
        waiting = [asyncio.ensure_future(place.stay(number)) for number in range(4)]
        await turns()
        place.limiter.was_refused(5)
        go.set()
        await asyncio.gather(holder, *waiting)

    run_at_once(clock, closed())
    assert sorted(map(str, place.order)) == ["0", "1", "2", "3", "holder"]


def test_earlier_waiter_keeps_its_place_after_rechecking(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, place = fake_clock(monkeypatch), Place(Limiter(1))

    async def queue() -> None:
        holder = asyncio.ensure_future(place.stay("holder", lambda: asyncio.sleep(1.25 * LOOK_AGAIN)))
        await turns()
        first = asyncio.ensure_future(place.stay("first"))
        await asyncio.sleep(0.5 * LOOK_AGAIN)
        await asyncio.gather(holder, first, place.stay("later"))

    run_at_once(clock, queue())
    assert place.order == ["holder", "first", "later"]


@pytest.mark.parametrize("why", ["full", "closed"])
def test_cancelled_wait_for_a_slot_leaves_no_trace(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, limiter = fake_clock(monkeypatch), Limiter(1)

    async def cancel() -> None:
        if why == "closed":
            limiter.was_refused(100)
            holder = None
        else:
            holder = limiter.place()
            await holder.__aenter__()
        waiting = asyncio.ensure_future(Place(limiter).stay())
        await turns()
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if holder is not None:
            await holder.__aexit__(None, None, None)
        assert asyncio.all_tasks() == {asyncio.current_task()} | {t for t in asyncio.all_tasks() if "patiently" in repr(t)}

    run(cancel)
    clock.now += limiter.closed_for
    assert run(lambda: free_places(limiter)) == 1


def test_waiter_cancelled_at_admission_passes_on_its_slot() -> None:
    place = Place(Limiter(1))

    async def race() -> None:
        go = asyncio.Event()
        holder = asyncio.ensure_future(place.stay("holder", go.wait))
        await turns()
        leaver, next_one = asyncio.ensure_future(place.stay("leaver")), asyncio.ensure_future(place.stay("next"))
        await turns()
        go.set()
        holder.add_done_callback(lambda _: leaver.cancel())  # in the same loop turn as the admission
        await asyncio.wait([holder, leaver, next_one])
        assert leaver.cancelled()

    run(race)
    assert place.order == ["holder", "next"]
    assert run(lambda: free_places(place.limiter)) == 1


def abandoned_waiter(limiter: Limiter) -> tuple[asyncio.AbstractEventLoop, list[Any]]:
    """Start a waiter on a loop that is then closed without cancelling it."""
    loop = asyncio.new_event_loop()
    coming = limiter.place().__aenter__()
    tasks = [loop.create_task(coming)]
    loop.run_until_complete(turns())
    assert not tasks[0].done()
    loop.close()
    return loop, tasks


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("when", ["kept", "swept away before", "swept away after"])
def test_waiter_of_a_closed_loop_neither_blocks_nor_returns_slots(when: str) -> None:
    limiter = Limiter(1)
    logged: list[Any] = []

    async def hold() -> None:
        async with limiter.place():
            kept = [await asyncio.to_thread(abandoned_waiter, limiter) for _ in range(3)]
            for loop, _ in kept:
                loop.set_exception_handler(lambda *about: logged.append(about))  # asyncio reports a destroyed task
            if when == "swept away before":
                kept.clear()
                gc.collect()
            last = asyncio.ensure_future(Place(limiter).stay())
            await turns()
        await last
        if when == "swept away after":
            kept.clear()
            gc.collect()
        assert await free_places(limiter) == 1
        for _, tasks in kept:
            tasks[0]._log_destroy_pending = False

    run(hold)
    gc.collect()
    assert run(lambda: free_places(limiter)) == 1


@pytest.mark.slow("generated crowds of calls")
def test_slot_count_stays_exact_through_cancellations_refusals_and_admissions(subtests: pytest.Subtests) -> None:
    for seed in range(size(15, nightly=40)):
        with subtests.test(seed=seed):
            chance = random.Random(seed)
            most = chance.choice([1, 2, 5])
            place = Place(Limiter(most))
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(run, [partial(storm, place, chance)] * 2))
            assert place.inside == 0 and place.most <= most
            assert run(partial(free_places, place.limiter)) == place.limiter.allowed


async def storm(place: Place, chance: random.Random) -> None:
    """Sixty sequential arrivals; some are cancelled, some refused and some admitted."""
    tasks: list[asyncio.Task[None]] = []
    for _ in range(60):
        stay = chance.choice([0.0, 0.0, 0.0005])
        tasks.append(asyncio.ensure_future(place.stay(until=partial(asyncio.sleep, stay))))
        await turns(chance.randrange(3))
        what = chance.random()
        if what < 0.3:
            chance.choice(tasks).cancel()
        elif what < 0.4:
            place.limiter.was_refused(chance.choice([0.0, 0.001]))
        elif what < 0.7:
            place.limiter.went_well()
    await asyncio.wait(tasks)


# Loops that end without cleanup


def left_behind(place: Place, count: int = 40) -> asyncio.AbstractEventLoop:
    """Return a stopped loop whose calls hold slots and wait for more."""
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(place.stay(until=lambda: asyncio.sleep(1000))) for _ in range(count)]
    loop.run_until_complete(turns())
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.tasks = tasks  # type: ignore[attr-defined]  # nothing is swept away meanwhile
    return loop


@pytest.mark.req("K0.12")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", ["closed", "stopped"])
def test_slots_of_a_loop_ended_during_calls_are_reused(how: str) -> None:
    place = Place(Limiter())
    loops = [left_behind(place) for _ in range(3)]
    known = [weakref.ref(loop) for loop in loops]
    assert place.inside >= MAX_AT_ONCE
    if how == "closed":
        for loop in loops:
            loop.close()
    assert run(lambda: free_places(place.limiter)) == MAX_AT_ONCE
    for loop in loops:
        loop.close()
    loops.clear()
    del loop
    gc.collect()  # collected waiters return no slot twice
    assert run(lambda: free_places(place.limiter)) == MAX_AT_ONCE
    gc.collect()
    assert not any(ref() for ref in known), "a limiter keeps no closed loop"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_earlier_waiter_gets_the_slot_of_an_ended_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter_module, "LOOK_AGAIN", 0.01)
    limiter, ready, go = Limiter(1), threading.Event(), threading.Event()

    def hold() -> None:
        async def until_told() -> None:
            task = asyncio.ensure_future(Place(limiter).stay(until=lambda: asyncio.sleep(1000)))
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            await turns()
            ready.set()
            await asyncio.to_thread(go.wait)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(until_told())
        loop.close()

    async def wait() -> None:
        waiting = asyncio.ensure_future(Place(limiter).stay())
        await turns()
        assert not waiting.done()
        go.set()
        await waiting

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait(PATIENCE)
    run(wait)
    thread.join(PATIENCE)
    gc.collect()
    assert run(lambda: free_places(limiter)) == 1


def test_rechecking_waiters_never_share_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, place = fake_clock(monkeypatch), Place(Limiter(2))

    async def many() -> None:
        await asyncio.gather(*(place.stay(number, lambda: asyncio.sleep(3 * LOOK_AGAIN)) for number in range(40)))

    run_at_once(clock, many())
    assert sorted(place.order) == list(range(40)) and place.most == 2
    assert all(abs(turn - number) <= 4 for turn, number in enumerate(place.order))  # none lost its turn


# Waiting times


@pytest.mark.req("K0.12")
def test_overlong_wait_for_a_slot_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, limiter = fake_clock(monkeypatch), Limiter(4)

    async def main() -> None:
        limiter.was_refused(0.0, asked=10.0)
        for most, longest in ((9.0, math.inf), (math.inf, 9.0)):
            with pytest.raises(NoPlace) as caught:
                await limiter.place(most, longest).__aenter__()
            assert (caught.value.seconds, caught.value.held) == (10.0, 0.0)
        async with limiter.place(10.0, 10.0) as held:
            assert held == pytest.approx(10)
            async with limiter.place(0.0) as held:  # of the two that are allowed
                assert held == 0
                with pytest.raises(NoPlace) as caught:
                    await limiter.place(5.0).__aenter__()
                assert caught.value.seconds == 0 and caught.value.held == pytest.approx(5, abs=0.01)
        assert await free_places(limiter) == limiter.allowed

    run_at_once(clock, main())


@pytest.mark.req("R2.40")
def test_simultaneous_refusals_close_once_but_provider_waits_extend_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, limiter = fake_clock(monkeypatch), Limiter()
    limiter.was_refused(4.0)
    limiter.was_refused(64.0)
    assert limiter.closed_for == 4
    limiter.was_refused(0.0, asked=20.0)
    limiter.was_refused(0.0, asked=7.0)
    assert limiter.closed_for == 20
    clock.now += 21
    assert limiter.closed_for == 0
    limiter.was_refused(8.0)
    assert limiter.closed_for == 8
    limiter.was_refused(0.0, asked=math.inf)
    assert limiter.closed_for == LONGEST_CLOSED


# Ownership


@pytest.mark.req("R2.40")
def test_each_provider_key_has_one_limiter_for_every_use() -> None:
    def of(provider: str, text: str, url: str | None = None) -> Limiter:
        return limiter_of(Endpoint(provider, url, Key("OPENAI_API_KEY", text, "here"), "OPENAI_API_KEY"))

    assert of("openai", "one") is of("openai", "one") is of("openai-responses", "one")
    assert of("openai", "one") is not of("openai", "two")
    assert of("openai", "one") is not of("openai", "one", "http://127.0.0.1:1/v1")
    assert of("openai", "one").name == "openai"


FORK = """
import asyncio, os, signal
from concurrent.futures import ThreadPoolExecutor
from agentnb.models.transport.connections import CallLimits, Endpoint, client_of, current_limits, limiter_of
from agentnb.models.transport.limiter import Limiter

class Library:
    def client(self, *made_with):
        return Client()

class Client:
    async def close(self):
        pass

def new_client():
    with ThreadPoolExecutor(1) as executor:
        loop.set_default_executor(executor)
        return loop.run_until_complete(client_of(endpoint, library))

def make(account):
    global child
    if account.provider == "anthropic":
        child = os.fork()  # while the lock of the limiters is held
        if child == 0:
            signal.alarm(30)
            is_new = not limiter_of(endpoint).closed_for and limiter_of(endpoint).allowed == 32
            os._exit(0 if is_new and new_client() is not client else 3)
    return Limiter()

endpoint, library, loop = Endpoint("openai", None, None), Library(), asyncio.new_event_loop()
current_limits.set(CallLimits(make))
limiter_of(endpoint).was_refused(1000)
client = new_client()
limiter_of(Endpoint("anthropic", None, None))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert limiter_of(endpoint).closed_for and new_client() is client
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_process_starts_with_new_limiters_and_clients() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_waiting_for_occupied_slots_is_not_counted_as_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, limiter = fake_clock(monkeypatch), Limiter(1)

    async def main() -> None:
        holder = asyncio.ensure_future(Place(limiter).stay(until=lambda: asyncio.sleep(50)))
        await turns()
        async with limiter.place(most=1.0) as held:
            assert held == 0 and clock.now >= 1050
        await holder

    run_at_once(clock, main())
