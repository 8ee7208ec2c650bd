"""The example files of chats: event sequences of turns by the documents' names, and what a log is by these names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from agentnb.core.log import events as e
from agentnb.core.log.work_events import PlanProposed, StepStarted
from agentnb.core.run.agent_state import plan_step_number
from agentnb.detect.run import Run

HERE = Path(__file__).parents[1] / "chat" / "examples"
REMOVED = frozenset({"analysis", "strategy_selected"})
"""Names of the documents that no run has."""
WITHOUT_NAME = frozenset(
    {
        *("round_started", "guidance_given", "retry_scheduled", "compaction_started", "context_compacted"),
        *("reply_streamed", "spent_besides", "tool_admitted", "todos_changed", "question_answered", "loop_detected"),
        *("round_finished", "command_received", "run_suspended", "run_recovered", "warned"),
        *("step_attempted", "branch_taken", "result_given", "plan_edited", "plan_approved"),
        *("plan_rejected", "model_called", "tools_changed", "server_started", "server_changed"),
        *("finding_made", "guidance_drawn", "grant_given", "grant_withdrawn", "outcome_given"),
        "other",
    }
)
"""Our kinds for which the documents have no name."""
LIMITS = {"max_tool_calls_per_turn": "tool_call_limit", "max_seconds": "session_time_limit"}
"""The documents' codes of limits."""
_REPEATED = re.compile(r"(\d+) x \((.*)\)")


def loaded(name: str) -> Any:
    """Load an example file."""
    text = (HERE / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else YAML(typ="safe", pure=True).load(text)


NAMES = frozenset(one["name"] for one in loaded("event-names.yaml"))


def sequence(name: str) -> list[str]:
    """The events of a turn in the documents' words, each repetition written out."""
    found: list[str] = []
    for one in loaded("events.yaml")[name]:
        repeated = _REPEATED.fullmatch(one)
        found += [one] if repeated is None else _with_tool(repeated[2].split(", ")) * int(repeated[1])
    assert {one.split()[0] for one in found} <= NAMES, found
    return found


def _with_tool(names: list[str]) -> list[str]:
    """The names of a repetition, which does not say the tool."""
    return [f"{one} tides_fetch" if one in ("tool_call", "tool_result") else one for one in names]


def document_events(log: Iterable[e.AnyEvent], *, is_whole: bool = True) -> list[str]:
    """The events of a turn's log and of its nested runs, in order, in the documents' words.

    A switch of ``run.agent_state`` follows the event that makes it. Each name is one of the documents, and not a removed one.
    ``is_whole``: the log holds a whole turn: the last name, and no other, ends it.
    """
    run, state = Run(), None
    found: list[str] = []
    for event in log:
        if run.id and event.run_id != run.id:
            found += _of_nested(event)
            continue
        run.apply(event)
        if not getattr(event, "parent_call", ""):  # a call that a tool makes itself is no event of the documents
            found += _named(event, run)
        if run.agent_state is not None and run.agent_state != state:
            found.append(f"agent_state {run.agent_state}")
        state = run.agent_state
    if is_whole and run.status == "waiting_on_user":
        found.append("done")
    words = [one.split()[0] for one in found]
    assert set(words) <= NAMES - REMOVED, words
    assert not is_whole or [place for place, one in enumerate(found) if _is_terminal(one)] == [len(found) - 1], found
    return found


def _is_terminal(name: str) -> bool:
    return name == "done" or (name.startswith("error ") and name.endswith(" error"))


def _named(event: e.AnyEvent, run: Run) -> Iterable[str]:
    """The documents' names of an event. A kind without a name must be listed as such."""
    kind = type(event).__struct_config__.tag
    if kind in NAMED:
        return NAMED[kind](event, run)
    assert kind in WITHOUT_NAME, f"{kind} has neither a name of the documents, nor is it listed as without"
    return ()


def _session(event: e.RunStarted, run: Run) -> Iterator[str]:
    yield "session"
    if event.settings.get("entity_loaded"):
        yield "ontology_loaded"
    if event.continued_from:
        yield "last_turn_context"


def _text(event: e.ModelReplied, run: Run) -> Iterator[str]:
    if event.message.text.strip():
        yield "text"


def _proposed(event: PlanProposed, run: Run) -> Iterator[str]:
    """A draft is ready for review as soon as it is made; the question follows the words that explain it.

    A draft of an earlier turn that this run continues is logged again, but not made again.
    """
    extensions = {one["name"]: one.get("settings", {}) for one in run.settings.get("extensions", [])}
    carried = [one["plan"]["id"] for one in extensions.get("plans", {}).get("drafts", [])]
    if event.plan_id not in carried:
        yield "plan_created"
        if event.plan.get("execution_mode") == "draft_only":
            yield "plan_ready_for_review"


def _done(event: e.RunFinished, run: Run) -> Iterator[str]:
    if run.error is None:  # that has ended the turn
        yield "error error error" if event.status == "failed" else "done"


def _step(name: str) -> Callable[[Any, Run], Iterator[str]]:
    def named(event: Any, run: Run) -> Iterator[str]:
        number = plan_step_number(event.step)
        if number >= 0:  # else it is the execution of the plan
            yield f"{name} {number + 1}"

    return named


NAMED: dict[object, Callable[[Any, Run], Iterable[str]]] = {
    "run_started": _session,
    "model_replied": _text,
    "reply_given": lambda event, run: ["text"],
    "tool_started": lambda event, run: [f"tool_call {event.call.name}"],
    "tool_finished": lambda event, run: [f"tool_result {event.result.name}"],
    "call_blocked": lambda event, run: [f"tool_call {event.call.name}", f"tool_result {event.call.name}"],
    "question_asked": lambda event, run: [],
    "plan_proposed": _proposed,
    "plan_reviewed": lambda event, run: [f"plan_review {event.verdict}"],
    "context_shifted": lambda event, run: [f"context_shift {event.context_type}"],
    "step_started": _step("step_start"),
    "step_finished": _step("step_complete"),
    "step_skipped": _step("step_complete"),
    "limit_reached": lambda event, run: [f"error {LIMITS.get(event.limit, event.limit)} warning"],
    "error_raised": lambda event, run: [f"error {event.error.type} error"],
    "run_finished": _done,
}
"""The documents' names of our kinds of events."""


def _of_nested(event: e.AnyEvent) -> Iterator[str]:
    if isinstance(event, e.RunStarted):
        yield "executor_spawned"
    elif isinstance(event, e.RunFinished):
        yield "executor_result"


def plan_events(run: Run, load: Callable[[str], Run]) -> list[str]:
    """The events of a run in the documents' words, each step of its plans at its place in the plan's own run."""
    found: list[str] = []
    log, places = [*run.events], [0]
    for place, event in enumerate(log):
        if isinstance(event, StepStarted) and event.nested:
            inside = load(event.nested)
            here = document_events(log[: place + 1], is_whole=False)
            found += [*here[len(found) - sum(places) :]]
            steps = [*_of_steps(inside, load)]
            found += steps
            places.append(len(steps))
    whole = document_events(log)[len(found) - sum(places) :]
    told_there = [one for one in found if one.startswith("context_shift ")]
    return found + [one for one in whole if one not in told_there]


def _of_steps(inside: Run, load: Callable[[str], Run]) -> Iterator[str]:
    """The events of the steps of a plan, by its own run."""
    so_far = Run()
    for event in inside.events:
        so_far.apply(event)
        kind = type(event).__struct_config__.tag
        if kind in ("run_started", "run_finished") or kind in WITHOUT_NAME:
            continue
        if kind != "error_raised":  # which its step has
            yield from NAMED[kind](event, so_far)
        if isinstance(event, StepStarted) and event.nested:
            yield from ("executor_spawned", "executor_result")
