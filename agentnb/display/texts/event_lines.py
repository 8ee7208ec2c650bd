"""Lines for events that are not displayed in any other way: steps, plans, other model calls, findings and unknown kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from agentnb.core.log import work_events as w
from agentnb.core.log.events import (
    NO_STORE,
    AnyEvent,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RoundStarted,
    RunRecovered,
    RunSuspended,
    ToolAdmitted,
    ToolsOffered,
)
from agentnb.core.plans.plan_history import GENERATION
from agentnb.core.plans.plan_steps import CALL
from agentnb.core.questions import choice_in_words
from agentnb.core.request import ToolSpec
from agentnb.core.run.agent_state import EXECUTION
from agentnb.core.run.timeline import CLARIFY_BLANK
from agentnb.core.run.work_records import is_substituted
from agentnb.core.step_retry import format_retries
from agentnb.core.usage import Usage
from agentnb.display.texts.labels import duration, first_line, pluralize, thousands
from agentnb.display.texts.question_labels import server_of_rule
from agentnb.display.texts.step_labels import ASKS, call_name

MAX_LINE_CHARACTERS = 200
"""Maximum characters of a line."""
MAX_LINES = 40
"""Maximum lines shown per round."""
MAX_NAMES = 4
"""Maximum tool names on a line."""
SHOWN = frozenset({*w.WorkEvent.__args__, RunSuspended, RunRecovered} - {w.ResultGiven, w.OutcomeGiven})
"""Kinds of events that are shown as lines. A workflow's result is shown as its answer, and an outcome next to the state."""


LISTED = w.StepEvent | w.PlanProposed
"""Events that the lists of steps and plans show."""


class WorkNames:
    """The names of a run's steps and plans, for use in its lines. Pass it every event."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._plans: dict[str, int] = {}

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        if isinstance(event, w.PlanProposed):
            self._plans.setdefault(event.plan_id, len(self._plans) + 1)
        elif isinstance(event, w.StepStarted) and event.step_kind == CALL:
            self._calls[event.step] = call_name(event.step, event.agent, event.title)

    def of_step(self, path: str) -> str:
        """Return the name of a step, such as ``step load``, ``step 0 tides_fetch``, ``planning``, or the name of a plan."""
        if path in self._plans:
            return self.of_plan(path)
        name = self._calls.get(path, path)
        return f"step {name}" if path not in self._calls or name[:1].isdigit() else name

    def of_plan(self, plan_id: str) -> str:
        """Return the name of a plan: its number if known, or else its id."""
        return f"plan {self._plans.get(plan_id, plan_id)}"


def event_line(event: AnyEvent, tools: Sequence[ToolSpec] | None = None, names: WorkNames | None = None) -> str:
    """Return an event as a short line without control characters, such as ``step load completed in 1.2 s``.

    Empty for kinds that are displayed in another way. ``tools``: the run's previous tools, if known; a change then names the
    tools added, removed and changed. ``names``: names of steps and plans.
    """
    if (of_work := _OF_WORK.get(type(event))) is not None:
        return first_line(of_work(event, names or WorkNames()), MAX_LINE_CHARACTERS)
    words = _WORDS.get(type(event))
    if tools is not None and isinstance(event, w.ToolsChanged):
        return first_line(_tools_changed_from(tools, event), MAX_LINE_CHARACTERS)
    return "" if words is None else first_line(words(event), MAX_LINE_CHARACTERS)


def without_steps(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Yield the events that lists of steps and plans do not show."""
    return (event for event in events if not is_listed(event))


def is_listed(event: AnyEvent) -> bool:
    """True if the lists of steps and plans show the event; this includes the usage of successful planning."""
    if isinstance(event, w.ModelCalled):
        return event.operation == GENERATION and not event.error
    return isinstance(event, LISTED)


class AlsoHappened:
    """The lines for a run's events, by the index of the round. Pass it every event."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self._by_round: dict[int, list[str]] = {}
        self._more: dict[int, int] = {}
        self._index = 0
        self._tools: Sequence[ToolSpec] | None = None
        self._names = WorkNames()
        self._suspended: tuple[list[str], int] | None = None
        """Place of the line of the last suspension, until its end is known."""
        for event in events:
            self.take(event)

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        self._names.take(event)
        if isinstance(event, RoundStarted):
            self._index = event.index
        elif type(event) in SHOWN and (line := event_line(event, self._tools, self._names)):
            lines = self._by_round.setdefault(self._index, [])
            if isinstance(event, RunSuspended):
                self._suspended = (lines, len(lines)) if len(lines) < MAX_LINES else None
            if len(lines) < MAX_LINES:
                lines.append(line)
            else:
                self._more[self._index] = self._more.get(self._index, 0) + 1
        if isinstance(event, ToolsOffered):
            self._tools = event.tools
        if self._suspended and (end := _end_of_suspension(event)):
            lines, place = self._suspended
            lines[place] = end
        if isinstance(event, QuestionAsked | QuestionAnswered):
            self._suspended = None

    def during(self, index: int) -> Sequence[str]:
        """Return the lines of this round. Lines from before the first round belong to the first."""
        more = self._more.get(index)
        lines = self._by_round.get(index, [])
        return [*lines, f"and {pluralize(more, 'more event')}: see tables.events for all"] if more else lines


def _end_of_suspension(event: AnyEvent) -> str:
    if isinstance(event, QuestionAnswered) and not event.withdrawn:
        answer = "declined" if event.declined else choice_in_words(event.answer)
        return first_line(f"suspended, then answered: {answer}", MAX_LINE_CHARACTERS)
    return "suspended, then resumed" if isinstance(event, RunRecovered) else ""


def _decision_line(event: w.PlanApproved | w.PlanRejected, names: WorkNames, how: str, why: str) -> str:
    quoted = f"“{why}”" if why and event.by == "person" else why
    return f"{names.of_plan(event.plan_id)} {how} by {event.by}{_because(quoted)}"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _step_started(event: w.StepStarted, names: WorkNames) -> str:
    iteration = f", iteration {event.iteration}" if event.iteration > 1 else ""
    if event.step_kind == CALL:
        message = event.inputs.get("message") if isinstance(event.inputs, dict) else None
        is_question = names.of_step(event.step) == ASKS
        run = f": run {event.nested}" if event.agent == EXECUTION and event.nested else ""
        return f"{ASKS}: {message}" if is_question and isinstance(message, str) else f"{names.of_step(event.step)} began{run}"
    title = f" ({event.title})" if event.title else ""
    return f"step {event.step}{title} began{iteration}"


def _step_finished(event: w.StepFinished, names: WorkNames) -> str:
    took = f" in {duration(event.seconds)}" if event.seconds else ""
    took += f" after {format_retries(event.attempts - 1)}" if event.attempts > 1 else ""
    became = "used a substitute" if is_substituted(event.status, event.error) else event.status
    name = names.of_step(event.step)
    return f"{'question' if name == ASKS else name} {became}{took}{_because(event.error)}"


def _plan_proposed(event: w.PlanProposed, names: WorkNames) -> str:
    steps = event.plan.get("steps")
    size = pluralize(len(steps), "step") if isinstance(steps, list | tuple) else ""
    return f"{names.of_plan(event.plan_id)}{_because(size if steps or not size else 'no steps left')}"


def _model_called(event: w.ModelCalled) -> str:
    if event.operation == CLARIFY_BLANK:
        return ""  # not a model call
    model = f" by {event.model.partition('?')[0]}" if event.model else ""
    facts = [*usage_words(event.usage), *([duration(event.seconds)] if event.seconds else [])]
    failed = f" failed: {event.error}" if event.error else ""
    purpose = "planning" if event.operation == GENERATION else f"model call for {event.operation}"
    return " · ".join([f"{purpose}{model}{failed}", *facts])


def usage_words(usage: Usage) -> list[str]:
    """Return the tokens and cost of a model call, if known."""
    tokens = (usage.input or 0) + (usage.output or 0)
    cost = [f"${usage.cost:.4f}"] if usage.cost else []
    return [f"{thousands(tokens)} tokens", *cost] if tokens else cost


def _tools_changed(event: w.ToolsChanged) -> str:
    return f"tools from now on: {_some([tool.name for tool in event.tools]) or 'none'}{_for_reason(event)}"


def _tools_changed_from(tools: Sequence[ToolSpec], event: w.ToolsChanged) -> str:
    """Return the difference from the previous tools, or all tools if there is no difference."""
    before, after = {tool.name: tool for tool in tools}, {tool.name: tool for tool in event.tools}
    differences = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name, tool in after.items() if before.get(name, tool) != tool],
    }
    parts = [f"{word}: {_some(names)}" for word, names in differences.items() if names]
    return f"tools {'; '.join(parts)}{_for_reason(event)}" if parts else _tools_changed(event)


def _some(names: Sequence[str]) -> str:
    """Return the first few names and the number of others."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _for_reason(event: w.ToolsChanged) -> str:
    return f" ({_REASONS.get(event.reason, event.reason)})" if event.reason else ""


def _server_changed(event: w.ServerChanged) -> str:
    before = f", before: {event.target_before}" if event.target_before else ""
    target = f"is now {event.target}{before}" if event.is_other else ""
    tools = f"changed since first seen: {', '.join(event.tools)}" if event.tools else ""
    return f"MCP server {event.server}: {'; '.join(filter(None, [target, tools]))}"


def _finding_made(event: w.FindingMade) -> str:
    first, last = event.first + 1, event.last + 1
    rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
    return f"{event.severity}: {event.sentence or event.rule.replace('_', ' ')} ({rounds})"


def _grant_given(event: w.GrantGiven) -> str:
    server = server_of_rule(event.rule or event.tool)
    calls = f"all tools of the MCP server {server}" if server else event.rule or f"all calls of {event.tool}"
    return f"{calls} allowed"


def _guidance_drawn(event: w.GuidanceDrawn) -> str:
    round_words = "" if event.round is None else f" for round {event.round + 1}"
    return f"guidance {event.set} drawn{round_words}, with a probability of {event.propensity:.3g}"


def _context_shifted(event: w.ContextShifted) -> str:
    on = f", on {event.entity}" if event.entity else ""
    return f"context {event.context_type}{on}{_because(event.reason)}"


def _other(event: w.OtherEvent) -> str:
    fields = msgspec.json.encode(event.data).decode("utf-8", "replace") if event.data else ""
    return f"{event.name.replace('_', ' ')}{_because(fields)}"


_CONSENT = {
    "taken": "log from elsewhere: you accepted its approvals and answers as yours",
    "refused": "log from elsewhere: its approvals and answers do not count",
}
_REASONS = {"mcp_servers": "MCP servers"}
_SUSPENDED = {
    "nobody_here": "suspended, since nobody could answer here; your answer resumes it",
    "asked": "suspended, since you chose Later; your answer resumes it",
    NO_STORE: "ended at its question: without a store, the run cannot wait for an answer",
}
_WORDS: dict[type[Event], Callable[[Any], str]] = {
    ToolAdmitted: lambda event: f"call of {event.call.name} is waiting{_because(event.reason)}",
    RunRecovered: lambda event: _CONSENT.get(event.consent, ""),
    RunSuspended: lambda event: _SUSPENDED.get(event.why, "suspended; your answer resumes it"),
    w.ModelCalled: _model_called,
    w.ToolsChanged: _tools_changed,
    w.ServerStarted: lambda event: f"connecting to the MCP server {event.server}: {event.target}",
    w.ServerChanged: _server_changed,
    w.FindingMade: _finding_made,
    w.GuidanceDrawn: _guidance_drawn,
    # Grants of the parent run are shown there; grants of single calls belong to their plan's approval.
    w.GrantGiven: lambda event: "" if event.given_in or event.arguments else _grant_given(event),
    w.GrantWithdrawn: lambda event: "" if event.by == w.BY_PLAN else f"grant {event.grant_id} withdrawn",
    w.ContextShifted: _context_shifted,
    w.ReplyGiven: lambda _: "reply without a model",
    w.OtherEvent: _other,
}
_OF_WORK: dict[type[Event], Callable[[Any, WorkNames], str]] = {
    w.StepStarted: _step_started,
    w.StepAttempted: lambda event, names: f"{names.of_step(event.step)}: attempt {event.attempt} failed{_because(event.error)}",
    w.StepSkipped: lambda event, names: f"{names.of_step(event.step)} skipped{_because(event.reason)}",
    w.StepFinished: _step_finished,
    w.BranchTaken: lambda event, names: f"step {event.step} continues with {event.to}{_because(event.reason)}",
    w.PlanProposed: _plan_proposed,
    w.PlanEdited: lambda event, names: f"{names.of_plan(event.plan_id)} edited by {event.by}",
    w.PlanApproved: lambda event, names: _decision_line(event, names, "approved", event.words),
    w.PlanRejected: lambda event, names: _decision_line(event, names, "rejected", event.reason or event.words),
    w.PlanReviewed: lambda event, names: f"{names.of_plan(event.plan_id)} reviewed: {event.verdict}{_because(event.notes)}",
}
"""Lines about steps and plans."""
