"""The fold of steps, plans, other model calls, findings and scope: the effect of `work_events` on a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from agentnb.core.guidance import GuidanceTexts
from agentnb.core.log import work_events as w
from agentnb.core.log.handlers import Handlers
from agentnb.core.request import role_of
from agentnb.core.run.agent_state import EXECUTION
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.work_records import StepRecord, begin_step, end_step, plan_after
from agentnb.core.usage import counts
from agentnb.core.view import with_item

handles = Handlers()


@handles
def _step_started(run: RunFacts, event: w.StepStarted) -> None:
    run._steps[event.step] = begin_step(event, run._steps.get(event.step))
    run._outputs.start(event)
    if event.agent == EXECUTION:
        run._agent_states.begin_plan(event.step, _plan_size(run, event.inputs))
    else:
        run._agent_states.begin_step(event.step)


def _plan_size(run: RunFacts, inputs: Any) -> int:
    """Return the number of steps in an execution's plan: the plan among its inputs, or else the latest one."""
    inputs_plan = inputs.get("plan") if isinstance(inputs, Mapping) else None
    plan_id = inputs_plan.get("id") if isinstance(inputs_plan, Mapping) else None
    if not plan_id and run._plans:
        plan_id = next(reversed(run._plans))
    record = run._plans.get(plan_id) if isinstance(plan_id, str) else None
    plan = inputs_plan if record is None else record.plan
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    return len(steps) if isinstance(steps, list | tuple) else 0


def _step(run: RunFacts, step: str) -> StepRecord:
    return run._steps.get(step) or StepRecord(step)


def _change_step(run: RunFacts, step: str, **changes: Any) -> None:
    run._steps[step] = replace(_step(run, step), **changes)


@handles
def _step_attempted(run: RunFacts, event: w.StepAttempted) -> None:
    _change_step(run, event.step, attempts=event.attempt, error=event.error)


@handles
def _step_skipped(run: RunFacts, event: w.StepSkipped) -> None:
    _change_step(run, event.step, status="skipped", reason=event.reason, goes_to="")


@handles
def _step_finished(run: RunFacts, event: w.StepFinished) -> None:
    before = _step(run, event.step)
    run._steps[event.step] = end_step(event, before)
    run._outputs.finish(event, before.kind, before.parent, before.agent)
    run._agent_states.end_step(event.step)
    if event.sets:
        run._variables.update(event.sets)


@handles
def _branch_taken(run: RunFacts, event: w.BranchTaken) -> None:
    before = run._steps.get(event.step) or StepRecord(event.step, "goto", status="completed", attempts=1)
    reason = f"to {event.to}" + (f": {event.reason}" * bool(event.reason))
    run._steps[event.step] = replace(before, reason=reason, goes_to=event.to)
    if event.count:
        edge = f"{event.step} -> {event.to}"
        run._back_edges[edge] = run._back_edges.get(edge, 0) + 1


@handles
def _result_given(run: RunFacts, event: w.ResultGiven) -> None:
    run._result = event


@handles
def _plan_changed(run: RunFacts, event: w.PlanEvent) -> None:
    run._plans[event.plan_id] = plan_after(event, run._plans.get(event.plan_id))


@handles
def _model_called(run: RunFacts, event: w.ModelCalled) -> None:
    run._model_calls = with_item(run._model_calls, event)
    if counts(event.usage, event.error):
        run._use(event.usage)


@handles
def _reply_given(run: RunFacts, event: w.ReplyGiven) -> None:
    run._messages.append(event.message)
    run._text = event.message.text
    run._agent_states.say()


@handles
def _tools_changed(run: RunFacts, event: w.ToolsChanged) -> None:
    run._tools = event.tools
    run._roles = {tool.name: tool.role or role_of(tool.name) for tool in event.tools}


@handles
def _finding_made(run: RunFacts, event: w.FindingMade) -> None:
    run._findings = with_item(run._findings, event)


@handles
def _guidance_drawn(run: RunFacts, event: w.GuidanceDrawn) -> None:
    run._drawn = event
    if event.texts is not None:
        run._guidance = GuidanceTexts(event.set, event.version, event.texts)


@handles
def _grant_given(run: RunFacts, event: w.GrantGiven) -> None:
    run._grants[event.grant_id] = event


@handles
def _grant_withdrawn(run: RunFacts, event: w.GrantWithdrawn) -> None:
    run._grants.pop(event.grant_id, None)


@handles
def _context_shifted(run: RunFacts, event: w.ContextShifted) -> None:
    run._context_type, run._entity = event.context_type, event.entity
    run._contexts = tuple(dict.fromkeys((*run._contexts, event.context_type)))


@handles
def _outcome_given(run: RunFacts, event: w.OutcomeGiven) -> None:
    assessment = event.assessment
    others = [
        earlier for earlier in run._assessments if (earlier.source, earlier.name) != (assessment.source, assessment.name)
    ]  # replaces an earlier one
    run._assessments = (*others, assessment)


@handles
def _nothing_known(run: RunFacts, event: w.ServerStarted | w.ServerChanged | w.OtherEvent) -> None:
    """Ignore the event, which remains in the list of all events."""
