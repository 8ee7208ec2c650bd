"""Sessions recover runs whose process died."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from waiting import wait_until

from agentnb import Agent, Run, Store, ToolCall, recover
from agentnb.agent.from_log import agent_of
from agentnb.core.log.events import Event
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import AgentnbError, SettingsError, StoreError, TraceError, UnknownTool
from agentnb.models import ScriptedModel
from agentnb.models.model import Reply
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.session import Session
from agentnb.store.run_file import RunFile

Line = Any


def work(number: int) -> str:
    """Work."""
    return f"did {number}"


def script(*, cost: float = 0.0) -> list[Line]:
    last = Reply(Message("assistant", (Text("Done."),)), usage=Usage(cost=cost), stop_reason="end_turn")
    return [ToolCall("work", {"number": 1}), ToolCall("work", {"number": 2}), last]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Store(tmp_path / "runs"))


def cut_off(store: Store, run: Run, rounds: int) -> str:
    """Truncate the log after this many rounds, as if the process had died; return the run id."""
    return cut_log(store.path(run.id), "round_finished", rounds - 1).stem


def interrupted(store: Store, *, parent: str | None = None) -> str:
    """Return a run of another kernel that died after its first round."""
    agent = Agent(ScriptedModel(script()), tools=[work], todos=False)
    return cut_off(store, _run(agent, store, parent), 1)


def _run(agent: Agent, store: Store, parent: str | None) -> Run:

    return asyncio.run(agent.run("go", store=store, parent_id=parent))


def again(run: Run, replies: list[Line]) -> Agent:
    return agent_of(run, tools=[work], model=ScriptedModel(replies))


def test_recovered_run_resumes_and_becomes_the_last_run(session: Session) -> None:
    run_id = interrupted(session.store)
    live = session.recover(run_id, partial(again, replies=script()[1:]))
    run = live.result(30)
    assert (run.id, run.status, run.text, len(run.rounds), run.times_recovered) == (run_id, "completed", "Done.", 3, 1)
    assert session.store.load(run_id) == run
    assert session.last_run() is run


def test_watch_receives_all_events_in_order_on_one_thread(session: Session) -> None:
    told: list[tuple[int, str]] = []

    def watch(item: object) -> None:
        if isinstance(item, Event):
            told.append((item.seq, threading.current_thread().name))

    run = session.recover(interrupted(session.store), partial(again, replies=script()[1:]), RunOptions(watch=watch)).result(30)
    assert [seq for seq, _ in told] == list(range(len(run.events)))
    assert {name for _, name in told} == {"agentnb"}


def test_recovered_run_spends_from_the_session_budget(session: Session) -> None:
    session.set_default("session-budget", "5")
    session.recover(interrupted(session.store), partial(again, replies=script(cost=0.5)[1:])).result(30)
    assert session.budget.spent == 0.5


def test_exhausted_session_budget_refuses_recovery(session: Session) -> None:
    run_id = interrupted(session.store)
    before = session.store.path(run_id).read_bytes()
    session.set_default("session-budget", "1")
    session.budget.settle(1.0)
    with pytest.raises(SettingsError, match="The session budget is used up"):
        session.recover(run_id, partial(again, replies=[]))
    assert session.store.path(run_id).read_bytes() == before
    session.set_default("session-budget", "2")
    assert session.recover(run_id, partial(again, replies=script()[1:])).result(30).status == "completed"


def test_missing_tool_leaves_the_run_for_the_next_attempt(session: Session) -> None:
    run_id = interrupted(session.store)
    with pytest.raises(UnknownTool, match="work"):
        session.recover(run_id, partial(agent_of, model=ScriptedModel([])))
    assert session.running() == [] and not session.has_run
    assert session.recover(run_id, partial(again, replies=script()[1:])).result(30).status == "completed"


def test_run_being_recovered_is_not_recovered_twice(session: Session) -> None:
    asked, let_go = threading.Event(), threading.Event()

    def held(request: Request) -> str:
        asked.set()
        assert let_go.wait(30)
        return "done"

    live = session.start(Agent(ScriptedModel([held])), "go")
    assert asked.wait(30)
    try:
        with pytest.raises(SettingsError, match="is already running here"):
            session.recover(live.run_id, partial(again, replies=[]))
    finally:
        let_go.set()
    live.result(30)
    with pytest.raises(SettingsError, match=r"has ended.*continue_from=run"):
        session.recover(live.run_id, partial(again, replies=[]))


def test_active_run_is_not_interrupted_without_lock_support(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentnb.store.store.is_being_written", lambda file: False)  # as on Windows
    asked, let_go = threading.Event(), threading.Event()

    def held(request: Request) -> str:
        asked.set()
        assert let_go.wait(30)
        return "done"

    live = session.start(Agent(ScriptedModel([held])), "go")
    assert asked.wait(30)
    ids = list(session.interrupted_ids())
    let_go.set()
    live.result(30)
    assert ids == []


@pytest.fixture
def elsewhere(session: Session) -> Iterator[str]:
    """Return a run that another kernel has already recovered."""
    run_id = interrupted(session.store)
    file, _ = RunFile.reopen(session.store.path(run_id))
    yield run_id
    file.close()


def test_refused_recovery_explains_why(session: Session, elsewhere: str) -> None:
    newer = interrupted(session.store)
    path = session.store.path(newer)
    path.write_bytes(path.read_bytes().replace(b'"schema":', b'"schema":9', 1))
    wrong: list[tuple[str, type[AgentnbError], str]] = [
        ("nothing", StoreError, "There is no run 'nothing'"),
        (elsewhere, StoreError, "running in another process"),
        (newer, TraceError, "written by a newer agentnb"),
    ]
    for run_id, kind, told in wrong:
        with pytest.raises(kind, match=told):
            session.recover(run_id, partial(again, replies=[]))
    with pytest.raises(SettingsError, match=r"No run in .* was interrupted"):
        session.newest_interrupted()


def test_new_kernel_mentions_the_interrupted_run(session: Session) -> None:
    cut = interrupted(session.store)
    with pytest.raises(SettingsError, match=f"To resume it: %agent recover {cut}"):
        session.last_run()


def test_newest_interrupted_run_is_a_top_level_run(session: Session) -> None:
    first = interrupted(session.store)
    newest = interrupted(session.store)
    nested = interrupted(session.store, parent=newest)
    session.start(Agent(ScriptedModel(["fine"])), "go").result(30)
    assert list(session.interrupted_ids()) == [nested, newest, first]
    assert session.newest_interrupted() == newest
    session.recover(newest, partial(again, replies=script()[1:])).result(30)
    assert session.newest_interrupted() == first


def test_cancelled_recovery_stops_the_run(session: Session) -> None:
    begun = threading.Event()

    async def work(number: int) -> str:
        """Work, and never end."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    run_id = interrupted(session.store)
    agent = Agent(ScriptedModel(script()[1:]), tools=[work], todos=False)

    async def cancelled() -> None:
        task = asyncio.create_task(recover(run_id, agent=agent, store=session.store))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    wait_until(lambda: session.store.summary(run_id).status == "cancelled")
