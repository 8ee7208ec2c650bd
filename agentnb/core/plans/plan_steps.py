"""The steps of a plan as its log has them: any JSON that a model wrote, read without checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentnb.core.log.events import NestedStart
from agentnb.core.messages import ToolCall
from agentnb.core.run.agent_state import ASKING as ASKING  # noqa: PLC0414  # handed on, beside REPLYING
from agentnb.core.run.call_window import call_key
from agentnb.core.run.work_records import StepRecord

TOOL, NOOP, ABORT, ELICITATION, CLARIFY = "tool", "noop", "abort", "elicitation", "clarify_intent"
QUESTIONS = (ELICITATION, CLARIFY)
"""The types of steps that ask the person."""
CALL = "call"
"""The kind of a step of the log that the action of a task takes: a call of a tool or a model, or a question."""
EXECUTOR = "executor"
"""The operation of the model calls of a step, and the name under which runs of a chat's plan log for which call they are."""
REPLYING = "reply-"
"""The prefix of the number in the path of a step that asks a planner, in place of a call; `ASKING`: the person."""
_OTHERS = (NOOP, ABORT, *QUESTIONS)
PENDING, DROPPED, KNOWN, PASSED, BLOCKED, NOT_RUN = "pending", "dropped", "known", "passed", "blocked", "not_run"
"""The states that only steps of plans have: not begun; equal to an earlier step; its result was there before; there was nothing
to do; blocked as a repeat; the plan ended before it. All others are those of `StepRecord`.
"""


class PlanStep(msgspec.Struct, frozen=True, gc=False):
    """A step of a plan, with its progress."""

    number: int
    """From 0, as ``$step[N]`` counts."""
    id: str = ""
    """The id of its result."""
    kind: str = TOOL
    """tool, elicitation, clarify_intent, noop or abort."""
    name: str = ""
    args: Any = None
    reason: str = ""
    """Why the planner wants it."""
    status: str = PENDING
    problem: str = ""
    """Why it cannot be run as it is written."""
    same_as: int | None = None
    """The first step of the plan that makes the same call."""
    record: StepRecord | None = None
    """The step of the log that does it; None while it has not begun, and for steps that leave none."""
    error: str = ""
    result: Any = None
    questions: tuple[str, ...] = ()
    """Ids of the questions that it asked."""
    begun: tuple[NestedStart, ...] = ()
    """The runs that its tool began."""
    traceback: str = ""

    @property
    def asks(self) -> bool:
        """True if it asked the person in place of a call: what its type says, or for arguments that the call lacks."""
        return self.record is not None and self.record.id.rpartition("/")[2].startswith(ASKING)

    @property
    def is_open(self) -> bool:
        """True if it has begun and not ended."""
        return self.record is not None and self.record.status == "running"


def steps_of(plan: Mapping[str, Any], plan_id: str) -> list[PlanStep]:
    """Return the steps of a plan, none of which has begun; a plan without a list has none."""
    written = plan.get("steps")
    found: list[PlanStep] = []
    first: dict[tuple[str, bytes], int] = {}
    for number, data in enumerate(written if isinstance(written, list | tuple) else ()):
        step = _step(data if isinstance(data, Mapping) else {"reason": data}, number, plan_id)
        if step.kind == TOOL and step.name and not step.problem:
            key = call_key(ToolCall(step.name, step.args or {}, ""))
            if (before := first.setdefault(key, number)) != number:
                step = msgspec.structs.replace(step, same_as=before)
        found.append(step)
    return found


def _step(data: Mapping[str, Any], number: int, plan_id: str) -> PlanStep:
    kind, tools = text_of(data.get("type")), data.get("tools")
    name = text_of(data.get("name"))
    if not name and isinstance(tools, list | tuple):
        name = ", ".join(map(text_of, tools))
    reason = next(filter(None, (text_of(data.get(key)) for key in ("reason", "description", "content"))), "")
    if kind in QUESTIONS and isinstance(asked := data.get("elicitation"), Mapping):
        reason = text_of(asked.get("message")) or reason
    return PlanStep(
        number,
        text_of(data.get("id")) or f"{plan_id or 'step'}-{number}",
        kind if kind in _OTHERS else TOOL,
        name,
        data.get("args"),
        reason,
        problem=text_of(data.get("problem")),
    )


def text_of(value: Any) -> str:
    """Return a value that should be a text; empty for None."""
    return value if isinstance(value, str) else "" if value is None else str(value)
