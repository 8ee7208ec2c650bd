"""How many calls go to a provider at once."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest

from agentnb.models.limiter import MOST_AT_ONCE, Limiter

PATIENCE = 20


class Place:
    """Counts who is inside, from all threads, and remembers the order of coming in."""

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
    """On a loop of its own; a test that hangs fails."""

    async def patiently() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await make()

    return asyncio.run(patiently())  # type: ignore[arg-type]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def free_places(limiter: Limiter) -> int:
    """How many can come in at once now; all leave again."""
    entered: list[Any] = []
    while len(entered) <= MOST_AT_ONCE:
        place = limiter.place()
        coming = asyncio.ensure_future(place.__aenter__())
        await turns()
        if not coming.done():
            coming.cancel()
            await asyncio.wait([coming])
            break
        entered.append(place)
    for place in entered:
        await place.__aexit__(None, None, None)
    return len(entered)


@pytest.mark.req("R2.40")
@pytest.mark.parametrize("most", [1, 3, 32])
def test_a_hundred_calls_from_several_threads_never_are_more_at_once_than_allowed(most: int) -> None:
    place = Place(Limiter(most))

    async def some() -> None:
        await asyncio.gather(*(place.stay(until=lambda: asyncio.sleep(0.001)) for _ in range(25)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run(some), range(4)))
    assert len(place.order) == 100 and place.inside == 0
    assert place.most <= most
    assert run(lambda: free_places(place.limiter)) == min(most, MOST_AT_ONCE + 1)


def test_as_many_as_allowed_go_at_once() -> None:
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


def test_who_comes_first_goes_first() -> None:
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


def test_who_comes_while_others_wait_does_not_push_in() -> None:
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
def test_after_a_refusal_half_as_many_go_and_each_success_lets_one_more_in() -> None:
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


def test_a_success_wakes_one_that_waits() -> None:
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
def test_after_a_refusal_none_goes_before_the_time_that_was_asked_for() -> None:
    place = Place(Limiter(8))
    entered: list[float] = []

    async def closed() -> float:
        opens = monotonic() + 0.15
        place.limiter.was_refused(0.15)
        place.limiter.was_refused(0.01)  # a shorter one does not open it sooner

        async def look() -> None:
            entered.append(monotonic())

        await asyncio.gather(*(place.stay(until=look) for _ in range(5)))
        return opens

    opens = run(closed)
    assert len(entered) == 5 and min(entered) >= opens


@pytest.mark.req("R2.40")
def test_when_it_opens_no_more_go_than_are_allowed_by_then() -> None:
    place = Place(Limiter(8))

    async def closed() -> None:
        place.limiter.was_refused(0.1)
        early = [asyncio.ensure_future(place.stay(until=lambda: asyncio.sleep(0.001))) for _ in range(8)]
        await turns()
        for _ in range(3):  # of calls that were on their way
            place.limiter.was_refused(0.05)
        await asyncio.gather(*early)

    run(closed)
    assert len(place.order) == 8 and place.most == 1


def test_a_place_that_was_left_while_it_was_closed_can_be_had_when_it_opens() -> None:
    place = Place(Limiter(1))

    async def closed() -> None:
        go = asyncio.Event()
        holder = asyncio.ensure_future(place.stay("holder", go.wait))
        await turns()
        waiting = [asyncio.ensure_future(place.stay(number)) for number in range(4)]
        await turns()
        place.limiter.was_refused(0.05)
        go.set()
        await asyncio.gather(holder, *waiting)

    run(closed)
    assert sorted(map(str, place.order)) == ["0", "1", "2", "3", "holder"]


def test_one_that_comes_back_when_it_opens_goes_before_those_that_came_later() -> None:
    limiter, order = Limiter(1), []

    async def come(number: int) -> None:
        await limiter._enter(number)
        order.append(number)
        limiter._leave()

    async def queue() -> None:
        async with limiter.place():
            tasks = [asyncio.ensure_future(come(number)) for number in (7, 3, 5)]
            await turns()
        await asyncio.wait(tasks)

    run(queue)
    assert order == [3, 5, 7]


@pytest.mark.parametrize("why", ["full", "closed"])
def test_a_wait_for_a_place_is_cancelled_at_once_and_keeps_nothing(why: str) -> None:
    limiter = Limiter(1)

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
    limiter._closed_until = 0.0
    assert run(lambda: free_places(limiter)) == 1


def test_one_that_is_let_in_at_the_moment_it_goes_away_hands_the_place_on() -> None:
    place = Place(Limiter(1))

    async def race() -> None:
        go = asyncio.Event()
        holder = asyncio.ensure_future(place.stay("holder", go.wait))
        await turns()
        leaver, next_one = asyncio.ensure_future(place.stay("leaver")), asyncio.ensure_future(place.stay("next"))
        await turns()
        go.set()
        holder.add_done_callback(lambda _: leaver.cancel())  # in the very turn in which it was let in
        await asyncio.wait([holder, leaver, next_one])
        assert leaver.cancelled()

    run(race)
    assert place.order == ["holder", "next"]
    assert run(lambda: free_places(place.limiter)) == 1


def abandoned_waiter(limiter: Limiter) -> tuple[asyncio.AbstractEventLoop, list[Any]]:
    """One that waits on a loop which then is closed without a word to it."""
    loop = asyncio.new_event_loop()
    coming = limiter.place().__aenter__()
    tasks = [loop.create_task(coming)]
    loop.run_until_complete(turns())
    assert not tasks[0].done()
    loop.close()
    return loop, tasks


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("when", ["kept", "swept away before", "swept away after"])
def test_one_whose_loop_was_closed_holds_nobody_up_and_gives_back_nothing_that_it_had_not(when: str) -> None:
    limiter = Limiter(1)
    logged: list[Any] = []

    async def hold() -> None:
        async with limiter.place():
            kept = [await asyncio.to_thread(abandoned_waiter, limiter) for _ in range(3)]
            for loop, _ in kept:
                loop.set_exception_handler(lambda *about: logged.append(about))  # it says that a task was destroyed
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


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_cancelled_refused_and_let_in_no_place_is_lost_or_doubled(seed: int) -> None:
    chance = random.Random(seed)
    place = Place(Limiter(chance.choice([1, 2, 5])))

    async def storm() -> None:
        tasks: list[asyncio.Task[None]] = []
        for _ in range(60):
            stay = chance.choice([0.0, 0.0, 0.0005])
            tasks.append(asyncio.ensure_future(place.stay(until=lambda stay=stay: asyncio.sleep(stay))))
            await turns(chance.randrange(3))
            what = chance.random()
            if what < 0.3:
                chance.choice(tasks).cancel()
            elif what < 0.4:
                place.limiter.was_refused(chance.choice([0.0, 0.001]))
            elif what < 0.7:
                place.limiter.went_well()
        await asyncio.wait(tasks)

    threads = [threading.Thread(target=run, args=(storm,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert place.inside == 0 and place.most <= place.limiter._most
    assert run(lambda: free_places(place.limiter)) == place.limiter.allowed
