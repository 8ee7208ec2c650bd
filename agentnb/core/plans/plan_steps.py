"""The steps of a plan, and their progress. A logged plan may be any JSON from a model, and is read without validation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from agentnb.core.log.events import NestedStart
from agentnb.core.messages import JsonObject, ToolCall
from agentnb.core.questions import INPUT_REQUIRED, TEXT
from agentnb.core.run.agent_state import ASKING as ASKING  # noqa: PLC0414  # re-exported beside REPLYING
from agentnb.core.run.call_window import call_key
from agentnb.core.run.work_records import StepRecord

TOOL, NOOP, ABORT, ELICITATION, CLARIFY = "tool", "noop", "abort", "elicitation", "clarify_intent"
QUESTIONS = (ELICITATION, CLARIFY)
"""Types of steps that ask the person."""
CALL = "call"
"""Kind of a logged step that performs a task's action: a call to a tool or a model, or a question."""
EXECUTOR = "executor"
"""Operation of a step's model calls, and settings key under which nested runs of a chat's plan log their call."""
REPLYING = "reply-"
"""Prefix of the number in the path of a step that asks a planner instead of making a call; `ASKING` is the prefix for asking
the person."""
_OTHERS = (NOOP, ABORT, *QUESTIONS)
PENDING, DROPPED, KNOWN, PASSED, BLOCKED, NOT_RUN = "pending", "dropped", "known", "passed", "blocked", "not_run"
"""Additional statuses of plan steps: not begun; equal to an earlier step; result already known; nothing to do; blocked as a
repeat; plan ended before it. All others are those of `StepRecord`."""
CHAT_TYPES = ("research", "action", "analysis", "synthesis")
"""Types of steps in a chat's plan."""
NO_FORM = {"type": "object", "properties": {}}
"""Schema of a question without form fields."""


_AS_WRITTEN = {
    "schema": "requestedSchema",
    "number": "stepNumber",
    "executor_required": "executorRequired",
    "depends_on": "dependsOn",
}
"""Names that renamed fields have in plain data."""


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_AS_WRITTEN):
    """A question to the person from a plan or one of its steps."""

    message: str = ""
    schema: JsonObject = msgspec.field(default_factory=lambda: dict(NO_FORM))
    """JSON Schema of the answer, an object."""

    @property
    def is_empty(self) -> bool:
        """True if the question has neither text nor fields."""
        return not self.message.strip() and not self.schema.get("properties")

    @property
    def asked_schema(self) -> JsonObject:
        """The schema of the person's answer: text if there are no fields."""
        return self.schema if self.schema.get("properties") else TEXT

    @property
    def data(self) -> JsonObject:
        """The question as plain data: ``{message, requestedSchema}``."""
        return {"message": self.message.strip() or INPUT_REQUIRED, "requestedSchema": self.schema}


class PlanStep(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, rename=_AS_WRITTEN):
    """A step of a plan, as written in either format."""

    type: str = TOOL
    id: str | None = None
    name: str | None = None
    """Registry name of the step's tool."""
    args: JsonObject | None = None
    """Arguments of the tool. A string consisting of ``$step[N].output`` with a path refers to an earlier output."""
    reason: str | None = None
    retries: int = 0
    """Number of attempts after the first."""
    content: str | None = None
    elicitation: PlanQuestion | None = None
    problem: str | None = None
    """The unusable part of a model's reply; the step is not run, and this is its error."""
    number: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """For a chat's step: its number, from 1."""
    description: str | None = None
    """For a chat's step: its description."""
    tools: tuple[str, ...] = ()
    """For a chat's step: the tools it may use, by their registry names."""
    executor_required: bool = False
    """For a chat's step: True if an agent with these tools executes it."""
    depends_on: tuple[int, ...] = ()
    """For a chat's step: numbers of the steps that must be completed first."""

    @property
    def question(self) -> PlanQuestion | None:
        """The step's question to the person, if any."""
        if self.type not in QUESTIONS:
            return None
        return self.elicitation or PlanQuestion(message=self.content or "")

    @property
    def kind(self) -> str:
        """The kind of step: tool, elicitation, clarify_intent, noop or abort."""
        return self.type if self.type in _OTHERS else TOOL

    @property
    def label(self) -> str:
        """The names of the step's tools."""
        return self.name or ", ".join(self.tools)

    @property
    def purpose(self) -> str:
        """The planner's reason for the step, or the step's question."""
        question_text = self.question.message if self.question is not None else ""
        return question_text or self.reason or self.description or self.content or ""

    @property
    def has_result(self) -> bool:
        """True if the step produces a result for later steps."""
        return self.type not in (NOOP, ABORT)

    @property
    def data(self) -> JsonObject:
        """The step in the planner's format, as plain data."""
        common = {"type": self.type, "name": self.name, "args": self.args, "reason": self.reason, "retries": self.retries}
        if self.id is None and self.content is None and self.elicitation is None and self.problem is None:  # the usual case
            return common
        question_data = None if self.elicitation is None else self.elicitation.data
        optional = {"id": self.id, "content": self.content, "elicitation": question_data, "problem": self.problem}
        return {**{key: value for key, value in optional.items() if value is not None}, **common}

    @property
    def chat_data(self) -> JsonObject:
        """The step in the chat's format, as plain data; steps of a planner have no number."""
        tools = list(self.tools) or ([self.name] if self.name else [])
        return {
            **({} if self.number is None else {"stepNumber": self.number}),
            "type": self.type if self.type in CHAT_TYPES else "action",
            "description": self.description or self.reason or self.content or self.name or self.type,
            "tools": tools,
            **({} if self.args is None else {"args": self.args}),
            "executorRequired": self.executor_required,
            "dependsOn": list(self.depends_on),
        }


class StepProgress(msgspec.Struct, frozen=True, gc=False):
    """The progress of a step of a plan."""

    written: PlanStep
    number: int
    """Number of the step, from 0, as in ``$step[N]``."""
    id: str
    """The id of the step's result."""
    status: str = PENDING
    same_as: int | None = None
    """The first step of the plan with the same call."""
    record: StepRecord | None = None
    """The logged step that executes this one, or None if it has not begun or has no events."""
    error: str = ""
    result: Any = None
    questions: tuple[str, ...] = ()
    """Ids of the step's questions."""
    begun: tuple[NestedStart, ...] = ()
    """The runs started by the step's tool."""
    traceback: str = ""

    @property
    def asks(self) -> bool:
        """True if the step asked the person instead of making a call, because of its type or missing arguments."""
        return self.record is not None and self.record.id.rpartition("/")[2].startswith(ASKING)

    @property
    def is_open(self) -> bool:
        """True if the step has begun and not ended."""
        return self.record is not None and self.record.status == "running"


def steps_of(plan: Mapping[str, Any], plan_id: str) -> list[StepProgress]:
    """Return the steps of a plan as not yet begun; empty for a plan without a list of steps."""
    listed = plan.get("steps")
    steps: list[StepProgress] = []
    first: dict[tuple[str, bytes], int] = {}
    for index, data in enumerate(listed if isinstance(listed, list | tuple) else ()):
        step, before = _step(data), index
        if step.kind == TOOL and step.label and not step.problem:
            before = first.setdefault(call_key(ToolCall(step.label, step.args or {}, "")), index)
        name = step.id or f"{plan_id or 'step'}-{step.number or index}"
        steps.append(StepProgress(step, index, name, same_as=None if before == index else before))
    return steps


def _step(data: Any) -> PlanStep:
    """Parse a step, dropping fields of the wrong type."""
    fields = data if isinstance(data, Mapping) else {"reason": text_of(data)}
    with suppress(msgspec.ValidationError):
        return msgspec.convert(fields, PlanStep)
    valid: JsonObject = {}
    for field in msgspec.structs.fields(PlanStep):
        with suppress(msgspec.ValidationError, KeyError):
            valid[field.name] = msgspec.convert(fields[field.encode_name], field.type)
    return PlanStep(**valid)


def text_of(value: Any) -> str:
    """Return a value that should be a string; empty for None."""
    return value if isinstance(value, str) else "" if value is None else str(value)
