"""Runs that wait for a draft: agents that make one, and the answers of the person."""

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
    """An agent whose model makes a draft, explains it, and then replies so."""
    return agent(DRAFT, reply, "Shall it run?", *after, **settings)


def waiting(made: Agent, **options: Any) -> LiveRun:
    """The handle on a run that waits for its person."""
    live = made.start("Draft it", RunOptions(**options))
    wait_until(lambda: live.run.waiting or live.done)
    return live


def answered(live: LiveRun, *answers: Any) -> Run:
    """The run when it has ended: each of its questions gets the next answer."""
    for answer in answers:
        wait_until(lambda: live.run.waiting or live.done)
        question = live.run.waiting[0]
        live.answer(answer, question.id)
        wait_until(lambda: question not in live.run.waiting)  # noqa: B023  # called at once
    return live.result(PATIENCE)


def recovered(run_id: str, store: Store, made: Agent, **options: Any) -> Run:
    """The run, resumed until it ends or waits."""
    return asyncio.run(recover(run_id, agent=made, store=store, trust_log=True, **options))


def events_of(run: Run, kind: Any) -> list[Any]:
    """The events of a run of this kind."""
    return [event for event in run.events if isinstance(event, kind)]


def kinds(run: Run) -> list[str]:
    """What happened to the plans of a run."""
    return [type(event).__name__ for event in events_of(run, PLAN_EVENTS)]


def who(run: Run, kind: Any) -> list[str]:
    """Who did what these events say."""
    return [event.by for event in events_of(run, kind)]


def steps_of(*steps: dict[str, Any]) -> dict[str, Any]:
    """The answer that makes the draft these steps."""
    return {"edit": {"steps": [*steps]}}


def named(request: Any) -> str:
    """The id of the last draft in a request."""
    texts = [part.text for message in request.messages for part in message.parts if hasattr(part, "text")]
    found = [text.split('"plan_id":"')[1].split('"')[0] for text in texts if '"plan_id":"' in text]
    return found[-1]


def run_it(request: Any) -> ToolCall:
    """The call of a model that runs the last draft of its conversation."""
    return call("call_2", plan_id=named(request))


def left_after(whole: Store, run: Run, store: Store, end: int | str, inside: int | str | None = "whole") -> None:
    """Leave of a run what a process leaves that died after this event; of its plan's run all, as much as this, or nothing."""
    store.prepare()
    nested = [one.nested for one in run.step_records.values()]
    for name in (run.id, *(nested if inside is not None else ())):
        (store.folder / whole.path(name).name).write_bytes(whole.path(name).read_bytes())
    cut_log(store.path(run.id), end)
    if inside not in ("whole", None):
        cut_log(store.path(nested[0]), inside)


class Fetched:
    """Tools that do more than read, and what they were called with."""

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
