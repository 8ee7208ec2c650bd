"""Runs that wait for a draft: their agents, and the user's answers."""

from __future__ import annotations

import asyncio
from typing import Any

from marked_logs import cut_log
from plan_turns import TWO, agent, call
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, recover, tool
from agentnb.core.log.work_events import PlanApproved, PlanEdited, PlanProposed, PlanRejected
from agentnb.runtime.host.live_run import LiveRun

DRAFT = call(execution_mode="draft_only")
PLAN_EVENTS = (PlanProposed, PlanEdited, PlanApproved, PlanRejected)


def drafting(*after: Any, reply: str = TWO, **settings: Any) -> Agent:
    """Return an agent whose model makes a draft, explains it, and then gives these replies."""
    return agent(DRAFT, reply, "Shall it run?", *after, **settings)


def waiting(made: Agent, **options: Any) -> LiveRun:
    """Return the handle of a run that waits for an answer."""
    live = made.start("Draft it", RunOptions(**options))
    wait_until(lambda: live.run.waiting or live.done)
    return live


def answered(live: LiveRun, *answers: Any) -> Run:
    """Answer the questions of the run in order and return the ended run."""
    for answer in answers:
        wait_until(lambda: live.run.waiting or live.done)
        question = live.run.waiting[0]
        live.answer(answer, question.id)
        wait_until(lambda: question not in live.run.waiting)  # noqa: B023  # called at once
    return live.result(PATIENCE)


def recovered(run_id: str, store: Store, made: Agent, **options: Any) -> Run:
    """Recover the run until it ends or waits."""
    return asyncio.run(recover(run_id, agent=made, store=store, trust_log=True, **options))


def events_of(run: Run, kind: Any) -> list[Any]:
    """Return the events of this kind."""
    return [event for event in run.events if isinstance(event, kind)]


def kinds(run: Run) -> list[str]:
    """Return the kinds of the run's plan events."""
    return [type(event).__name__ for event in events_of(run, PLAN_EVENTS)]


def who(run: Run, kind: Any) -> list[str]:
    """Return the actor of each event."""
    return [event.by for event in events_of(run, kind)]


def steps_of(*steps: dict[str, Any]) -> dict[str, Any]:
    """Return the answer that replaces the draft's steps."""
    return {"edit": {"steps": [*steps]}}


def named(request: Any) -> str:
    """Return the id of the last draft in a request."""
    texts = [part.text for message in request.messages for part in message.parts if hasattr(part, "text")]
    ids = [text.split('"plan_id":"')[1].split('"')[0] for text in texts if '"plan_id":"' in text]
    return ids[-1]


def run_it(request: Any) -> ToolCall:
    """Call the last draft of the conversation."""
    return call("call_2", plan_id=named(request))


def left_after(whole: Store, run: Run, store: Store, end: int | str, inside: int | str | None = "whole") -> None:
    """Store the log of a process that died after this event, with all, part or none of its plan's log."""
    store.prepare()
    nested = [record.nested for record in run.step_records.values()]
    for name in (run.id, *(nested if inside is not None else ())):
        (store.folder / whole.path(name).name).write_bytes(whole.path(name).read_bytes())
    cut_log(store.path(run.id), end)
    if inside not in ("whole", None):
        cut_log(store.path(nested[0]), inside)


class Fetched:
    """Tools with effects, and a record of their arguments."""

    def __init__(self) -> None:
        self.stations: list[str] = []

    def tools(self) -> list[Any]:
        """The tools."""

        @tool(effects={"write"})
        def tides_fetch(station: str) -> str:
            """Fetch the tide table of a station."""
            self.stations.append(station)
            return f"{station}: 05:10"

        @tool(effects={"write"})
        def tables_compare(left: str, right: str) -> str:
            """Compare two tables."""
            self.stations.append(f"{left} and {right}")
            return "both at 05:10"

        return [tides_fetch, tables_compare]
