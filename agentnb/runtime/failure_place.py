"""The place where a run failed: component, stage and tool, all from the log."""

from __future__ import annotations

from typing import TypedDict

from agentnb.core.log.work_events import StepFinished, StepStarted
from agentnb.core.plans.plan_history import EXECUTION, PLANNING
from agentnb.core.run.rounds import BROKEN_OFF, NOT_RUN, CallRecord
from agentnb.core.run.work_records import StepRecord
from agentnb.detect.run import Run

LOOP, WORKFLOW = "loop", "workflow"
"""Components that do the work of a run, in rounds or in steps."""
START, MODEL_CALL, COMPACTION, TOOL_CALL, REPLY = "start", "model_call", "compaction", "tool_call", "reply"
"""Stages of an agent; ``reply``: a policy judged its reply."""
PLAN, RUN_PLAN, STEP = "planning", "plan_execution", "step"
"""Stages of a workflow."""


class FailurePlace(TypedDict):
    """Fields of an error event."""

    component: str
    stage: str
    tool: str


def failure_place(run: Run, component: str) -> FailurePlace:
    """Return the place of an error during a run; fields that the log does not determine are empty."""
    names = {record.call.name for record in open_calls(run)}
    if names:
        return {"component": component, "stage": TOOL_CALL, "tool": names.pop() if len(names) == 1 else ""}
    step = None if run.rounds else _failed_step(run) or _open_step(run)
    return (
        {"component": component, "stage": _stage_of_loop(run), "tool": ""} if step is None else _of_step(run, step, component)
    )


def place_of_verdict(run: Run, component: str) -> FailurePlace:
    """Return the place of a failure after the work has ended: the last step if it failed, otherwise the last reply."""
    if run.rounds:
        return {"component": component, "stage": REPLY, "tool": ""}
    step = _failed_step(run)
    return {"component": component, "stage": STEP, "tool": ""} if step is None else _of_step(run, step, component)


def open_calls(run: Run) -> list[CallRecord]:
    """Return the running calls: those of steps if there are any, otherwise the model's (one of which may be running
    the steps).
    """
    current = run.open_round
    for records in ([call.record for call in run.step_calls], current.records if current is not None else ()):
        if calls := [record for record in records if record.result is None and not record.waits]:
            return calls
    return []


def _stage_of_loop(run: Run) -> str:
    current = run.open_round
    if current is None:
        return "" if run.rounds else START
    if current.is_compacting:
        return COMPACTION
    return MODEL_CALL if current.reply is None or current.stop_reason == BROKEN_OFF else ""


def _open_step(run: Run) -> StepRecord | None:
    """Return the innermost open step, or None."""
    started = [step for step in run.step_records.values() if step.status == "running"]
    return max(started, key=lambda one: one.id.count("/"), default=None)


def _failed_step(run: Run) -> StepRecord | None:
    """Return the step whose failure ended the last top-level step, since a block fails with the error of a step inside it."""
    last: StepFinished | None = None
    failed: StepFinished | None = None
    for event in reversed(run.events):
        if isinstance(event, StepFinished):
            if failed is None:
                if event.status != "failed":
                    return None
                last = failed = event
            elif event.status == "failed" and event.error == failed.error and event.step.startswith(f"{failed.step}/"):
                failed = event
        elif isinstance(event, StepStarted) and (last is None or event.step == last.step):
            break
    return None if failed is None else run.step_records[failed.step]


def _of_step(run: Run, step: StepRecord, component: str) -> FailurePlace:
    call = next((step_call.record for step_call in reversed(run.step_calls) if step_call.step == step.id), None)
    if call is not None:
        ran = call.result is None or call.result.error_code not in NOT_RUN
        return {"component": component, "stage": TOOL_CALL, "tool": call.call.name if ran else ""}
    around = run.step_records.get(step.id.rpartition("/")[0])
    actions = {step.agent, around.agent if around is not None else ""}
    stage = PLAN if PLANNING in actions else RUN_PLAN if step.agent == EXECUTION else STEP
    return {"component": component, "stage": stage, "tool": ""}
