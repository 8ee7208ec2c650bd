"""Runs a plan of a chat as a nested workflow, which is a step of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from agentnb.agent.extension import Extension
from agentnb.chat.logged_context import contexts_of_log
from agentnb.chat.plans.plan_outcome import FAILED, executed
from agentnb.chat.plans.plan_reach import arguments_text, reach_of
from agentnb.chat.plans.plan_request import NAME
from agentnb.chat.plans.plan_review import Review
from agentnb.core.log.work_events import BY_PLAN, ContextShifted, GrantGiven, GrantWithdrawn, PlanApproved
from agentnb.core.messages import ToolCall
from agentnb.core.plans.plan_steps import EXECUTOR
from agentnb.core.request import ToolSpec
from agentnb.core.run.agent_state import EXECUTION
from agentnb.core.run.rounds import MAX_TOOL_CALLS
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.run import Run
from agentnb.models.model import Model
from agentnb.models.registry import make_model
from agentnb.policies.gates import Block
from agentnb.policies.gates.calls import too_many
from agentnb.runtime.host.consent import since_refusal
from agentnb.runtime.run_end import Suspended
from agentnb.tools.tool import Inside
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.plan_spec import PlanSpec


class PlanCalls:
    """Blocks each call beyond so many in all runs of one execution together. A gate."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[str, int] = {}
        """The calls by run, the last one that passed included."""

    def __call__(self, call: ToolCall, run: Run) -> Block | None:
        """Block the call, or let it pass."""
        others = sum(made for run_id, made in self._made.items() if run_id != run.id)
        if others + run.calls_made >= self._most:
            return too_many(call, MAX_TOOL_CALLS, self._most)
        self._made[run.id] = run.calls_made + 1  # with this one, if it runs
        return None


CALLS = "calls"
"""The number of tool calls in the output of the step, which models do not see."""
_NOT_OF_PLANS = frozenset({NAME, TODO_TOOL})
"""Tools that no step of a plan calls."""


class PlanExecution:
    """How the plans of a chat are run."""

    def __init__(self, model: str | Model | None, max_tool_calls: int, max_seconds: float | None) -> None:
        """As for `Plans`."""
        self._model = model
        self._max_tool_calls = max_tool_calls
        self.max_seconds = max_seconds

    @property
    def model(self) -> Model | None:
        """The model of plans; None for that of the run."""
        return None if self._model is None else make_model(self._model)

    async def run(
        self,
        plan: PlanSpec,
        inside: Inside,
        *,
        by: str,
        call_id: str = "",
        words: str = "",
        review: Review | None = None,
        is_edited: bool = False,
    ) -> dict[str, Any]:
        """Run a plan, or resume it if a process that died had begun it, and return its result.

        ``call_id``: the call of the tool that runs it; empty if it runs between rounds.
        """
        path = plan.id or ""
        before = inside.run.step_records.get(path)
        if before is not None and before.status != "running":  # in the process that died
            given = before.output or {"status": FAILED, "plan_id": path, "summary": before.error}
            return {key: value for key, value in given.items() if key != CALLS}
        about = Extension(name=EXECUTOR, settings=_about(inside.run, path, call_id))
        settings = {"todos": False, "extensions": [about]}
        gates = (*inside.own_gates, PlanCalls(self._max_tool_calls))
        tools = [tool for tool in inside.tools if tool.spec.name not in _NOT_OF_PLANS]
        model, logged = self.model or inside.model, {"extensions": [about.as_logged]}
        what = Plan.of(plan).orchestration(tools=tools, model=model, agent_settings=settings, gates=gates, settings=logged)
        if not is_approved(inside.run, path):  # else a process that died had begun it
            inside.record(PlanApproved, plan_id=path, by=by, call_id=call_id, words=words)
        seconds = None if call_id else self.max_seconds  # a call has its own limit
        result: dict[str, Any] = {}

        def output(run: Any) -> dict[str, Any]:
            result.update(executed(plan, run, review, is_edited=is_edited))
            return {**result, CALLS: run.calls_made}

        inputs = {"plan": {"id": path}}
        step: dict[str, Any] = {"agent": EXECUTION, "inputs": inputs, "seconds": seconds, "in_call": bool(call_id)}
        _shift(inside, await inside.start_step(path, what, output, **step), call_id)
        return result


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
        reason = next((one.reason for one in reversed(ended.events) if isinstance(one, ContextShifted)), "")
        inside.record(ContextShifted, context_type=context, entity=ended.entity, call_id=call_id, reason=reason)


def is_approved(run: Run, plan_id: str, call_id: str | None = None) -> bool:
    """Return whether the approval of a plan, by this call if it is given, is in the part of the log that counts."""
    approvals = (event for event in since_refusal(run.events) if isinstance(event, PlanApproved) and event.plan_id == plan_id)
    return any(call_id is None or event.call_id == call_id for event in approvals)


@contextmanager
def shown_calls_allowed(plan: PlanSpec, inside: Inside, by: str) -> Iterator[None]:
    """Allow the calls that the plan shows with all arguments while it runs; a run that is suspended keeps them allowed."""
    given = [one.grant_id for one in inside.run.grants]
    names = []
    for place in reach_of(plan, plan_specs(inside)).shown:
        name, step = f"{plan.id}/{place}", plan.steps[place]
        names.append(name)
        if name not in given:
            inside.record(GrantGiven, grant_id=name, tool=step.tools[0], arguments=arguments_text(step.args), by=by)
    try:
        yield
    except Suspended:
        names = []
        raise
    finally:
        known = {one.grant_id for one in inside.run.grants}
        for name in names:
            if name in known:
                inside.record(GrantWithdrawn, grant_id=name, by=BY_PLAN)


def plan_specs(inside: Inside) -> list[ToolSpec]:
    """Return the tools that steps of plans may call, as a model sees them."""
    return specs_of_plans(tool.spec for tool in inside.tools)


def specs_of_plans(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Return those of the tools of a run that steps of plans may call."""
    return [spec for spec in specs if spec.name not in _NOT_OF_PLANS]
