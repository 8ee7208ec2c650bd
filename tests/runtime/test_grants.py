"""Grants of a session or a parent run are copied into the log of a run, until revoked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from run_checks import codes

from agentnb import Agent, Run, RunOptions, Store, ToolCall, recover, reproduce
from agentnb.core.log import work_events as w
from agentnb.core.run.rounds import DENIED
from agentnb.models import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.questions.grants import SessionGrants
from agentnb.session.session import Session
from agentnb.tools.tool import ToolContext

WRITE = ToolCall("write", {"path": "a"})


def agent(*replies: Any, after: Callable[[], Any] = lambda: None) -> Agent:
    """An agent that may write and send; its tool ``write`` calls ``after``."""

    async def write(path: str) -> str:
        after()
        return f"wrote {path}"

    async def send(to: str) -> str:
        return f"sent to {to}"

    return Agent(ScriptedModel([*replies, "Done."]), tools=[write, send], todos=False)


def delegating(inner: Agent, *replies: Any) -> Agent:
    """An agent with a tool ``delegate`` that starts another agent, and a tool ``write``."""

    async def delegate(context: ToolContext) -> str:
        return str((await context.start_run(inner, "go")).text)

    async def write(path: str) -> str:
        return f"wrote {path}"

    return Agent(ScriptedModel([*replies, "Done."]), tools=[delegate, write], todos=False)


def grants(run: Run) -> list[tuple[str, str, str, str]]:
    return [(grant.tool, grant.reach, grant.by, grant.given_in) for grant in run.grants]


def test_session_grant_applies_to_its_runs_and_nested_runs(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))
    session.grants.give("write")
    session.grants.give("delegate", by="program")
    options = RunOptions(approve="ask", can_ask=False)
    run = session.start(delegating(agent([WRITE]), [ToolCall("delegate")], [WRITE]), "go", options).result(30)
    nested = next(stored for stored in map(session.store.load, session.store.ids()) if stored.parent_id == run.id)
    for one in (run, nested):
        assert codes(one) == [None] * len(codes(one)) and not one.questions
        assert grants(one)[0] == ("write", "session", "person", "") and Run.from_events(one.events) == one
    assert grants(run)[1] == ("delegate", "session", "program", "")
    alone = asyncio.run(agent([WRITE]).run("go", approve="ask"))
    assert codes(alone) == [DENIED] and not alone.grants, "a run of no session"


def test_revoked_grant_stops_applying_to_live_runs() -> None:
    kept = SessionGrants()
    grant_id = kept.give("write")
    with use_host(Host(grants=kept)):
        run = asyncio.run(agent([WRITE], [WRITE], after=lambda: kept.withdraw(grant_id)).run("go", approve="ask"))
    assert codes(run) == [None, DENIED] and not run.grants
    assert [event.grant_id for event in run.events if isinstance(event, w.GrantWithdrawn)] == [grant_id]


def test_new_grant_applies_to_live_runs() -> None:
    kept = SessionGrants()
    calls = [[WRITE], [WRITE]]
    with use_host(Host(grants=kept)):
        answers = ["deny"]

        def answer(question: Any) -> str:
            kept.give("write")
            return answers.pop()

        run = asyncio.run(agent(*calls).run("go", approve="ask", answer=answer))
    assert codes(run) == [DENIED, None] and len(run.questions) == 1


def test_grants_of_an_ended_session_do_not_apply_on_resume(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ("another session", "the same session"):
        with subtests.test(name):
            store, kept = Store(tmp_path / name), SessionGrants()
            kept.give("write")
            with use_host(Host(grants=kept)):
                run = asyncio.run(agent([WRITE]).run("go", store=store, approve="ask"))
            path = store.path(run.id)
            cut_log(path, next(event.seq for event in run.events if isinstance(event, w.GrantGiven)) + 4)
            is_same = name == "the same session"
            with use_host(Host(grants=kept if is_same else SessionGrants())):
                run = asyncio.run(recover(run.id, agent=agent([WRITE]), store=store))
            assert codes(run) == [None, None if is_same else DENIED]
            assert bool(run.grants) == is_same


def test_always_answer_applies_to_runs_nested_at_any_depth(tmp_path: Path) -> None:
    store = Store(tmp_path)
    middle = delegating(agent([WRITE]), [ToolCall("delegate")])
    outer = delegating(middle, [WRITE], [ToolCall("delegate")])
    options = RunOptions(store=store, approval_mode="ask", answer=lambda question: "always")
    run = asyncio.run(outer.run("go", options))
    assert [one.question.about.tool for one in run.questions if one.question.about] == ["write", "delegate"]
    assert grants(run) == [("write", "run", "program", ""), ("delegate", "run", "program", "")]
    nested = [stored for stored in map(store.load, store.ids()) if stored.id != run.id]
    assert len(nested) == 2
    for one in nested:
        assert sorted(grants(one)) == [("delegate", "run", "program", run.id), ("write", "run", "program", run.id)]
        assert not one.questions


def test_always_answer_in_a_nested_run_allows_the_tool_outside() -> None:
    outer = delegating(agent([WRITE]), [ToolCall("delegate")], [WRITE])
    run = asyncio.run(outer.run("go", approve="ask", answer=lambda question: "always"))
    assert [one.question.about.tool for one in run.questions if one.question.about] == ["delegate", "write"]
    assert codes(run) == [None, None]


def test_run_with_calls_under_a_session_grant_is_reproducible() -> None:
    kept = SessionGrants()
    kept.give("write")
    other = ToolCall("send", {"to": "ann"})
    with use_host(Host(grants=kept)):
        run = asyncio.run(agent([WRITE], [other]).run("go", approve="ask", answer=lambda question: "deny"))
    assert codes(run) == [None, DENIED]
    again = asyncio.run(reproduce(run))
    assert codes(again) == codes(run) and not again.grants
