"""Chat turns have the documented event order and agent states."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from chat_examples import NAMED, NAMES, REMOVED, WITHOUT_NAME, document_events, loaded, sequence
from run_builder import RunBuilder, begun
from scripted_runs import even_failed
from virtual_time import VirtualTimeLoop

from agentnb import Agent, ContextType, Run, ToolCall, tool
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.events import KINDS
from agentnb.errors import ProviderTrouble
from agentnb.models.scripted import Line, ScriptedModel


def tides_fetch(station: int = 0) -> str:
    """Fetch the tide table of a station."""
    return f"The tide of {station} is at 04:12"


def turn(*replies: Line, tools: Any = (tides_fetch,), **settings: Any) -> Run:
    """Run a bare agent in virtual time."""
    agent = Agent(ScriptedModel([*replies]), tools=[*tools], **{"policy": "chat", **settings})
    return played(agent, "When is high water?")


def played(agent: Agent, prompt: str, **options: Any) -> Run:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return even_failed(lambda: runner.run(agent.run(prompt, **options)))


def call(station: int = 0) -> ToolCall:
    return ToolCall("tides_fetch", {"station": station})


def out_of_time() -> Run:
    """Return a turn whose tool exceeds its time limit."""

    @tool(timeout=7_200)
    async def tides_fetch(station: int = 0) -> str:
        """Fetch the tide table of a station, very slowly."""
        await asyncio.sleep(3_600)
        return "too late"

    return turn(call(), "It takes long.", tools=[tides_fetch])


def in_context(name: str, *replies: Line, tools: Any = (), load: Any = None, entity: str = "") -> Agent:
    """Return an agent in a built-in context."""
    context = replace(ContextType.named(name), load=load)
    return context.apply(Agent(ScriptedModel([*replies]), tools=tools), entity)


def continued() -> Run:
    """Return the second turn of a project conversation."""
    agent = in_context("project", "At 04:12.", "At 16:40.", load=lambda entity: f"{entity} has two gauges", entity="p-1")
    return played(agent, "And the next one?", continue_from=played(agent, "When is high water?"))


def destructive() -> Run:
    """Return a turn with an approved deletion of a task."""

    def delete_task(number: int) -> str:
        """Delete a task."""
        return "deleted"

    agent = in_context("project", ToolCall("delete_task", {"number": 1}), "Deleted.", tools=[delete_task])
    return played(agent, "Delete the first task", approve=lambda call, run: True)


TURNS: dict[str, Callable[[], Run]] = {
    "answer only": lambda: turn("At 04:12."),
    "one tool call": lambda: turn(call(), "At 04:12."),
    "no tools": lambda: turn("I have no tools.", tools=[]),
    "tool call limit": lambda: turn(*map(call, range(9)), "This is what I have."),
    "time limit": out_of_time,
    "continued conversation with an entity": continued,
    "destructive call": destructive,
    "blank message": lambda: played(in_context("global"), " "),
    "model failure": lambda: turn(ProviderTrouble("scripted: unreachable", "Try again later")),
}


@pytest.mark.req("R3.13", "R3.14", "R3.28", "R3.29", "R3.30", "R3.31", "K3.1", "K3.2")
def test_turn_has_the_documented_event_order(subtests: pytest.Subtests) -> None:
    for name, make in TURNS.items():
        with subtests.test(name):
            log, expected = [*make().events], sequence(name)
            assert document_events(log) == expected
            for end in range(len(log)):
                so_far = document_events(log[:end], is_whole=False)
                assert so_far == expected[: len(so_far)]
                states = [one.split()[1] for one in so_far if one.startswith("agent_state ")]
                assert Run.from_events(log[:end]).agent_state == (states[-1] if states else None)


@pytest.mark.req("R3.28", "R3.29", "KX.10")
def test_each_event_kind_has_a_documented_name_or_exception() -> None:
    kinds = {kind.__struct_config__.tag for kind in KINDS}
    named = kinds & {*re.findall(r"\w+", str(loaded("event-names.yaml")))}
    assert named == kinds & NAMED.keys() - {"reply_given"} and kinds - NAMED.keys() == WITHOUT_NAME
    assert REMOVED < NAMES


def test_turn_without_an_end_or_with_two_is_refused(subtests: pytest.Subtests) -> None:
    ended = e.RunFinished, {"status": "completed", "stop_reason": "natural", "seconds": 1.0}
    broken = e.ErrorRaised, {"error": e.RunError("ProviderTrouble", "down"), "where": "model"}
    assert document_events(RunBuilder().extend(*begun(0), broken).events)[-1] == "error ProviderTrouble error"
    assert document_events(RunBuilder().round("Well.").extend(ended).events)[-1] == "done"
    for name, facts in {"no end": [], "two ends": [broken, broken], "goes on": [ended, *begun(1), ended]}.items():
        with subtests.test(name), pytest.raises(AssertionError):
            document_events(RunBuilder().round("Well.").extend(*facts).events)


def test_plan_context_and_nested_events_have_documented_names() -> None:
    built = RunBuilder(context_type="project", continued_from="r-0", settings={"entity_loaded": True}).extend(*begun(0))
    built.add(w.PlanProposed, plan_id="a", plan={"steps": [{}, {}]}).add(w.PlanReviewed, plan_id="a", verdict="approved")
    built.add(w.StepStarted, step="exec", step_kind="task", agent="llm/exec:run_plan")
    built.add(w.StepStarted, step="exec/0", step_kind="call").add(w.ContextShifted, context_type="task")
    nested = RunBuilder(run_id="r-2").events[0]
    between = [nested, e.RunFinished(seq=1, at=None, run_id="r-2", status="completed", stop_reason="natural", seconds=1.0)]
    log = [*built.events, *between, *_rest(built)]
    assert document_events(log) == [
        *("session", "ontology_loaded", "last_turn_context", "agent_state thinking", "plan_created", "plan_review approved"),
        *("agent_state executing_plan", "step_start 1", "context_shift task", "executor_spawned", "executor_result"),
        *("step_complete 1", "step_complete 2", "agent_state thinking", "text", "agent_state waiting_on_user", "done"),
    ]


def _rest(built: RunBuilder) -> list[e.AnyEvent]:
    """Return the remaining events of a plan run: a skipped step, then text."""
    count = len(built.events)
    built.add(w.StepFinished, step="exec/0").add(w.StepSkipped, step="exec/1", reason="it depends on step 1")
    built.add(w.StepFinished, step="exec").round("Done.")
    return built.add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).events[count:]
