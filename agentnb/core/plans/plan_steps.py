"""The steps of a plan, and their progress. The log has any JSON that a model wrote: it is read without checks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from agentnb.core.log.events import NestedStart
from agentnb.core.messages import ToolCall
from agentnb.core.questions import INPUT_REQUIRED, TEXT
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
CHAT_TYPES = ("research", "action", "analysis", "synthesis")
"""The types of a chat's steps."""
NO_FORM = {"type": "object", "properties": {}}
"""The schema of a question whose answer has no fields."""


_AS_WRITTEN = {
    "schema": "requestedSchema",
    "number": "stepNumber",
    "executor_required": "executorRequired",
    "depends_on": "dependsOn",
}
"""The names in plain data of the fields that have others here."""


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_AS_WRITTEN):
    """A question of a plan, or of a step of it, to the person."""

    message: str = ""
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: dict(NO_FORM))
    """JSON Schema of the answer, an object."""

    @property
    def is_empty(self) -> bool:
        """Whether it has neither words nor fields, and so asks nothing."""
        return not self.message.strip() and not self.schema.get("properties")

    @property
    def asked_schema(self) -> dict[str, Any]:
        """The schema of the answer that a person can give: text, if there are no fields."""
        return self.schema if self.schema.get("properties") else TEXT

    @property
    def data(self) -> dict[str, Any]:
        """The question as plain data: ``{message, requestedSchema}``."""
        return {"message": self.message.strip() or INPUT_REQUIRED, "requestedSchema": self.schema}


class PlanStep(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, rename=_AS_WRITTEN):
    """A step of a plan, as it is written in either form."""

    type: str = TOOL
    id: str | None = None
    name: str | None = None
    """The registry name of the tool that it calls."""
    args: dict[str, Any] | None = None
    """Arguments of the tool. A text that is ``$step[N].output`` with a path, and nothing else, stands for an earlier output."""
    reason: str | None = None
    retries: int = 0
    """Further attempts after the first one."""
    content: str | None = None
    elicitation: PlanQuestion | None = None
    problem: str | None = None
    """The part of a model's reply that could not be used: the step is not run, and has this as its error."""
    number: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Of a chat's step: its number, from 1."""
    description: str | None = None
    """Of a chat's step: what it does."""
    tools: tuple[str, ...] = ()
    """Of a chat's step: the tools that it may use, by their registry names."""
    executor_required: bool = False
    """Of a chat's step: whether an agent with these tools does it."""
    depends_on: tuple[int, ...] = ()
    """Of a chat's step: the numbers of the steps that must be done before it."""

    @property
    def question(self) -> PlanQuestion | None:
        """Its question to the person, if it has one."""
        if self.type not in QUESTIONS:
            return None
        return self.elicitation or PlanQuestion(message=self.content or "")

    @property
    def kind(self) -> str:
        """tool, elicitation, clarify_intent, noop or abort."""
        return self.type if self.type in _OTHERS else TOOL

    @property
    def label(self) -> str:
        """The names of its tools."""
        return self.name or ", ".join(self.tools)

    @property
    def purpose(self) -> str:
        """Why the planner wants it, or what it asks."""
        asked = self.question.message if self.question is not None else ""
        return asked or self.reason or self.description or self.content or ""

    @property
    def has_result(self) -> bool:
        """Whether it leaves a result that later steps can refer to."""
        return self.type not in (NOOP, ABORT)

    @property
    def data(self) -> dict[str, Any]:
        """The step in the form of a planner, as plain data."""
        usual = {"type": self.type, "name": self.name, "args": self.args, "reason": self.reason, "retries": self.retries}
        if self.id is None and self.content is None and self.elicitation is None and self.problem is None:  # nearly all
            return usual
        asked = None if self.elicitation is None else self.elicitation.data
        more = {"id": self.id, "content": self.content, "elicitation": asked, "problem": self.problem}
        return {**{key: value for key, value in more.items() if value is not None}, **usual}

    @property
    def chat_data(self) -> dict[str, Any]:
        """The step in the form of a chat, as plain data; a planner's step has no number in it."""
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
    """From 0, as ``$step[N]`` counts."""
    id: str
    """The id of its result."""
    status: str = PENDING
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


def steps_of(plan: Mapping[str, Any], plan_id: str) -> list[StepProgress]:
    """Return the steps of a plan, none of which has begun; a plan without a list has none."""
    written = plan.get("steps")
    steps: list[StepProgress] = []
    first: dict[tuple[str, bytes], int] = {}
    for index, data in enumerate(written if isinstance(written, list | tuple) else ()):
        step, before = _step(data), index
        if step.kind == TOOL and step.label and not step.problem:
            before = first.setdefault(call_key(ToolCall(step.label, step.args or {}, "")), index)
        name = step.id or f"{plan_id or 'step'}-{step.number or index}"
        steps.append(StepProgress(step, index, name, same_as=None if before == index else before))
    return steps


def _step(data: Any) -> PlanStep:
    """Return a step; a field of another type is left out."""
    fields = data if isinstance(data, Mapping) else {"reason": text_of(data)}
    with suppress(msgspec.ValidationError):
        return msgspec.convert(fields, PlanStep)
    valid: dict[str, Any] = {}
    for field in msgspec.structs.fields(PlanStep):
        with suppress(msgspec.ValidationError, KeyError):
            valid[field.name] = msgspec.convert(fields[field.encode_name], field.type)
    return PlanStep(**valid)


def text_of(value: Any) -> str:
    """Return a value that should be a text; empty for None."""
    return value if isinstance(value, str) else "" if value is None else str(value)
