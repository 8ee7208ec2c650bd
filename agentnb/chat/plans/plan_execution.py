"""Runs a chat plan as a nested workflow that is a step of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from agentnb.agent.extension import Extension
from agentnb.chat.logged_context import contexts_of_log
from agentnb.chat.plans.known_drafts import spec_of
from agentnb.chat.plans.plan_outcome import FAILED, executed_result
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
from agentnb.policies.gates.call_count import too_many
from agentnb.runtime.host.consent import since_refusal
from agentnb.runtime.run_end import Suspended
from agentnb.tools.tool import CallServices

CALLS = "calls"
"""Key for the number of tool calls in a step's output; hidden from models."""
_NOT_OF_PLANS = frozenset({NAME, TODO_TOOL})
"""Tools that a plan's steps never call."""


class PlanExecution(NamedTuple):
    """Settings for running a chat's plans; the fields are those of `Plans`."""

    model: str | Model | None
    max_tool_calls: int
    max_seconds: float | None

    async def run(self, record: PlanRecord, inside: CallServices, *, by: str, call_id: str = "") -> dict[str, Any]:
        """Run a plan, or resume one that a dead process began, and return its result.

        ``call_id``: the call whose tool runs it; empty if it runs between rounds.
        """
        before = inside.run.step_records.get(record.id)
        if before is not None and before.status != "running":  # in the dead process
            return without_calls(before.output or {"status": FAILED, "plan_id": record.id, "summary": before.error})
        extension = Extension(name=EXECUTOR, settings=_about(inside.run, record.id, call_id))
        orchestration = spec_of(record).orchestration(
            tools=[tool for tool in inside.tools if tool.spec.name not in _NOT_OF_PLANS],
            model=model_of(self.model) or inside.model,
            agent_settings={"todos": False, "extensions": [extension]},
            gates=(*inside.own_gates, limit_of_calls(self.max_tool_calls)),
            settings={"extensions": [extension.as_logged]},
        )
        if not is_approved(inside.run, record.id):  # else a dead process had begun it
            words = record.words if call_id else ""  # between rounds the person was asked
            inside.record(PlanApproved, plan_id=record.id, by=by, call_id=call_id, words=words)
        step: dict[str, Any] = {
            "agent": EXECUTION,
            "inputs": {"plan": {"id": record.id}},
            "seconds": None if call_id else self.max_seconds,  # a call has its own limit
            "in_call": bool(call_id),
        }

        def output(run: Any) -> dict[str, Any]:
            return {**executed_result(record, run), CALLS: run.calls_made}

        ended = await inside.start_step(record.id, orchestration, output, **step)
        _shift(inside, ended, call_id)
        return without_calls(output(ended))


def without_calls(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step's output as shown to models."""
    return {key: value for key, value in output.items() if key != CALLS}


def limit_of_calls(most: int) -> Gate:
    """Return a gate that blocks calls beyond this number, across all runs of one execution."""
    counts: dict[str, int] = {}  # calls by run, including the latest permitted call

    def limit(call: ToolCall, run: Run) -> Block | None:
        if run.calls_made + sum(count for run_id, count in counts.items() if run_id != run.id) >= most:
            return too_many(call, MAX_TOOL_CALLS, most)
        counts[run.id] = run.calls_made + 1  # including this one, if it runs
        return None

    return limit


def model_of(model: str | Model | None) -> Model | None:
    """Return the model for a setting of `Plans`, or None for the run's model."""
    return None if model is None else make_model(model)


def _about(run: Run, plan_id: str, call_id: str) -> dict[str, Any]:
    """Return the background of a plan's runs: their own logs have no conversation, context or profile."""
    plan = run.plans[plan_id].plan
    return {
        "conversation": run.conversation,
        "context": run.context_type,
        "profile": run.profile,
        "execution_mode": plan.get("execution_mode", ""),
        "call_id": call_id,
    }


def _shift(inside: CallServices, ended: Run, call_id: str) -> None:
    """Shift the run to the context that a step of the plan has shifted to."""
    run: Run = inside.run
    context = contexts_of_log(run).canonical(ended.context_type)
    if context and (context, ended.entity) != (run.context_type, run.entity):
        reason = next((event.reason for event in reversed(ended.events) if isinstance(event, ContextShifted)), "")
        inside.record(ContextShifted, context_type=context, entity=ended.entity, call_id=call_id, reason=reason)


def is_approved(run: Run, plan_id: str, call_id: str | None = None) -> bool:
    """True if the relevant part of the log records that the plan was approved (by the given call, if any)."""
    approvals = (event for event in since_refusal(run.events) if isinstance(event, PlanApproved) and event.plan_id == plan_id)
    return any(call_id is None or event.call_id == call_id for event in approvals)


@contextmanager
def shown_calls_allowed(record: PlanRecord, inside: CallServices, by: str) -> Iterator[None]:
    """Allow the plan's fully specified calls while it runs; if the run is suspended, they remain allowed."""
    plan = spec_of(record)
    reach = reach_of(plan, plan_specs(inside))
    shown = {f"{plan.id}/{index}": step for index, step in enumerate(plan.steps) if reach[index] == "shown"}
    granted = _granted_ids(inside)
    for name, step in shown.items():
        if name not in granted:
            inside.record(GrantGiven, grant_id=name, tool=step.tools[0], arguments=arguments_text(step.args), by=by)
    try:
        yield
    except Suspended:
        shown = {}
        raise
    finally:
        granted = _granted_ids(inside)
        for name in [name for name in shown if name in granted]:
            inside.record(GrantWithdrawn, grant_id=name, by=BY_PLAN)


def _granted_ids(inside: CallServices) -> set[str]:
    return {grant.grant_id for grant in inside.run.grants}


def plan_specs(inside: CallServices) -> list[ToolSpec]:
    """Return the tools that a plan's steps may call, as shown to a model."""
    return specs_of_plans(tool.spec for tool in inside.tools)


def specs_of_plans(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Return the tools of a run that a plan's steps may call."""
    return [spec for spec in specs if spec.name not in _NOT_OF_PLANS]
