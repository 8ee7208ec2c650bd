"""A cell and the panel may start runs at once: none is forgotten, and all share the loops there are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.request import Request
from agentnb.models import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun
from agentnb.session.session import Session
from agentnb.store.store import Store

AT_ONCE = 12


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Store(tmp_path / "runs"))


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Set at the end: the models of this module answer then."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks through the runs lets the other threads go on between one and the next."""
    done = LiveRun.done

    def slowly(live: LiveRun) -> bool:
        time.sleep(0.001)
        return done.fget(live)  # type: ignore[attr-defined]  # a property of the class

    monkeypatch.setattr(LiveRun, "done", property(slowly))


def held(let_go: threading.Event) -> Agent:
    def reply(request: Request) -> str:
        assert let_go.wait(30)
        return "done"

    return Agent(ScriptedModel([reply]))


def at_once(session: Session, agents: list[Agent]) -> list[LiveRun]:
    """One run of each, all begun in the same moment, each on a thread of its own."""
    barrier, started = threading.Barrier(len(agents)), list[LiveRun]()

    def begin(agent: Agent) -> None:
        barrier.wait(30)
        started.append(session.start(agent, "go"))

    threads = [threading.Thread(target=begin, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(started) == len(agents)
    return started


@pytest.mark.usefixtures("take_turns")
def test_runs_that_are_started_at_once_are_all_known(session: Session, let_go: threading.Event) -> None:
    started: list[LiveRun] = []
    for _ in range(3):
        started += at_once(session, [held(let_go) for _ in range(AT_ONCE)])
        assert {live.run_id for live in session.running()} == {live.run_id for live in started}
    let_go.set()
    assert all(live.result(30).text == "done" for live in started)


def test_runs_that_are_started_at_once_share_one_loop(session: Session) -> None:
    seen: set[int] = set()

    async def where() -> str:
        """Tell."""
        seen.add(threading.get_ident())
        return "here"

    agents = [Agent(ScriptedModel([ToolCall("where"), "done"]), tools=[where], policy="minimal") for _ in range(AT_ONCE)]
    for live in at_once(session, agents):
        live.result(30)
    assert len(seen) == 1


def test_a_run_that_ends_while_another_is_started_is_not_forgotten(
    session: Session, let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = session.start(held(let_go), "go")
    answers = iter([False])
    with monkeypatch.context() as patched:
        patched.setattr(LiveRun, "done", property(lambda live: next(answers, True)))  # it ends right after it was asked
        second = session.start(held(let_go), "go")
    assert session.running() == [first, second]
    let_go.set()
    for live in (first, second):
        live.result(30)
