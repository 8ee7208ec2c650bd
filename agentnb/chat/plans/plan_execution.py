"""Runs a plan of a chat as a nested workflow, which is a step of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from agentnb.agent.extension import Extension
from agentnb.chat.logged_context import contexts_of_log
from agentnb.chat.plans.known_drafts import spec_of
from agentnb.chat.plans.plan_outcome import FAILED, executed
from agentnb.chat.plans.plan_reach import arguments_text, reach_of
from agentnb.chat.plans.planning import NAME
from agentnb.core.log.work_events import BY_PLAN, ContextShifted, GrantGiven, GrantWithdrawn, PlanApproved
from agentnb.core.messages import ToolCall
from agentnb.core.plans.plan_steps import EXECUTOR
from agentnb.core.request import ToolSpec
from agentnb.core.run.agent_state import EXECUTION
from agentnb.core.run.rounds import MAX_TOOL_CALLS
from agentnb.core.run.work_records import PlanRecord
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.run import Run
from agentnb.models.model import Model
from agentnb.models.registry import make_model
from agentnb.policies.gates import Block, Gate
from agentnb.policies.gates.calls import too_many
from agentnb.runtime.host.consent import since_refusal
from agentnb.runtime.run_end import Suspended
from agentnb.tools.tool import Inside

CALLS = "calls"
"""The number of tool calls in the output of the step, which models do not see."""
_NOT_OF_PLANS = frozenset({NAME, TODO_TOOL})
"""Tools that no step of a plan calls."""


class PlanExecution(NamedTuple):
    """How the plans of a chat are run; the fields as for `Plans`."""

    model: str | Model | None
    max_tool_calls: int
    max_seconds: float | None

    async def run(self, record: PlanRecord, inside: Inside, *, by: str, call_id: str = "") -> dict[str, Any]:
        """Run a plan, or resume it if a process that died had begun it, and return its result.

        ``call_id``: the call of the tool that runs it; empty if it runs between rounds.
        """
        before = inside.run.step_records.get(record.id)
        if before is not None and before.status != "running":  # in the process that died
            return without_calls(before.output or {"status": FAILED, "plan_id": record.id, "summary": before.error})
        extension = Extension(name=EXECUTOR, settings=_about(inside.run, record.id, call_id))
        orchestration = spec_of(record).orchestration(
            tools=[tool for tool in inside.tools if tool.spec.name not in _NOT_OF_PLANS],
            model=model_of(self.model) or inside.model,
            agent_settings={"todos": False, "extensions": [extension]},
            gates=(*inside.own_gates, limit_of_calls(self.max_tool_calls)),
            settings={"extensions": [extension.as_logged]},
        )
        if not is_approved(inside.run, record.id):  # else a process that died had begun it
            words = record.words if call_id else ""  # between rounds the person was asked
            inside.record(PlanApproved, plan_id=record.id, by=by, call_id=call_id, words=words)
        step: dict[str, Any] = {
            "agent": EXECUTION,
            "inputs": {"plan": {"id": record.id}},
            "seconds": None if call_id else self.max_seconds,  # a call has its own limit
            "in_call": bool(call_id),
        }

        def output(run: Any) -> dict[str, Any]:
            return {**executed(record, run), CALLS: run.calls_made}

        ended = await inside.start_step(record.id, orchestration, output, **step)
        _shift(inside, ended, call_id)
        return without_calls(output(ended))


def without_calls(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of the step as models see it."""
    return {key: value for key, value in output.items() if key != CALLS}


def limit_of_calls(most: int) -> Gate:
    """Return a gate that blocks each call beyond so many in all runs of one execution together."""
    counts: dict[str, int] = {}  # the calls by run, the last one that passed included

    def limit(call: ToolCall, run: Run) -> Block | None:
        if run.calls_made + sum(count for run_id, count in counts.items() if run_id != run.id) >= most:
            return too_many(call, MAX_TOOL_CALLS, most)
        counts[run.id] = run.calls_made + 1  # with this one, if it runs
        return None

    return limit


def model_of(given: str | Model | None) -> Model | None:
    """Return a model of `Plans`; None for that of the run."""
    return None if given is None else make_model(given)


def _about(run: Run, plan_id: str, call_id: str) -> dict[str, Any]:
    """Return for what the runs of a plan are made: their own logs have no conversation, context or profile."""
    plan = run.plans[plan_id].plan
    return {
        "conversation": run.conversation,
        "context": run.context_type,
        "profile": run.profile,
        "execution_mode": plan.get("execution_mode", ""),
        "call_id": call_id,
    }


def _shift(inside: Inside, ended: Run, call_id: str) -> None:
    """Shift the run to the context to which a step of the plan has shifted."""
    run: Run = inside.run
    context = contexts_of_log(run).canonical(ended.context_type)
    if context and (context, ended.entity) != (run.context_type, run.entity):
        reason = next((event.reason for event in reversed(ended.events) if isinstance(event, ContextShifted)), "")
        inside.record(ContextShifted, context_type=context, entity=ended.entity, call_id=call_id, reason=reason)


def is_approved(run: Run, plan_id: str, call_id: str | None = None) -> bool:
    """Return whether the approval of a plan, by this call if it is given, is in the part of the log that counts."""
    approvals = (event for event in since_refusal(run.events) if isinstance(event, PlanApproved) and event.plan_id == plan_id)
    return any(call_id is None or event.call_id == call_id for event in approvals)


@contextmanager
def shown_calls_allowed(record: PlanRecord, inside: Inside, by: str) -> Iterator[None]:
    """Allow the calls that the plan shows with all arguments while it runs; a run that is suspended keeps them allowed."""
    plan = spec_of(record)
    reach = reach_of(plan, plan_specs(inside))
    shown = {f"{plan.id}/{index}": step for index, step in enumerate(plan.steps) if reach[index] == "shown"}
    granted = _granted(inside)
    for name, step in shown.items():
        if name not in granted:
            inside.record(GrantGiven, grant_id=name, tool=step.tools[0], arguments=arguments_text(step.args), by=by)
    try:
        yield
    except Suspended:
        shown = {}
        raise
    finally:
        granted = _granted(inside)
        for name in [name for name in shown if name in granted]:
            inside.record(GrantWithdrawn, grant_id=name, by=BY_PLAN)


def _granted(inside: Inside) -> set[str]:
    return {grant.grant_id for grant in inside.run.grants}


def plan_specs(inside: Inside) -> list[ToolSpec]:
    """Return the tools that steps of plans may call, as a model sees them."""
    return specs_of_plans(tool.spec for tool in inside.tools)


def specs_of_plans(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Return those of the tools of a run that steps of plans may call."""
    return [spec for spec in specs if spec.name not in _NOT_OF_PLANS]
