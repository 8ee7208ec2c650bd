"""What a plan is made of, in either of its two forms: that of a planner, and that of a chat.

A planner's plan has an intention, steps that call tools, and perhaps a question to the person. A chat's plan has numbered steps
with a description, the tools that each may use, and the steps that it depends on. One class holds both.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.plans.plan_steps import ABORT, CLARIFY, ELICITATION, NOOP, TOOL
from agentnb.core.questions import INPUT_REQUIRED, TEXT

PlanForm: TypeAlias = Literal["planner", "chat"]
TYPES = (TOOL, ELICITATION, NOOP, ABORT)
"""The types of a planner's steps."""
CHAT_TYPES = ("research", "action", "analysis", "synthesis")
"""The types of a chat's steps."""
MAX_STEPS = 1_000
"""Maximum steps of a plan."""
MAX_RETRIES = 100
"""Maximum further attempts of a step: they follow each other at once."""
NO_FORM = {"type": "object", "properties": {}}
"""The schema of a question whose answer has no fields."""


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a plan, or a step of it, asks the person."""

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


class PlanStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a plan."""

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
    """What of it could not be used, in a model's reply: it is not run, and has this as its error."""
    number: int | None = None
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
        """What the step asks the person; None if it asks nothing."""
        if self.type not in (ELICITATION, CLARIFY):
            return None
        return self.elicitation or PlanQuestion(message=self.content or "")

    @property
    def has_result(self) -> bool:
        """Whether it leaves a result that later steps can refer to."""
        return self.type not in (NOOP, ABORT)

    @property
    def data(self) -> dict[str, Any]:
        """The step in the form of a planner, as plain data."""
        asked = None if self.elicitation is None else self.elicitation.data
        more = {"id": self.id, "content": self.content, "elicitation": asked, "problem": self.problem}
        given = {key: value for key, value in more.items() if value is not None}
        usual = {"type": self.type, "name": self.name, "args": self.args, "reason": self.reason, "retries": self.retries}
        return {**given, **usual}

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


class PlanSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole plan, as it was written."""

    id: str | None = None
    intention: str | None = None
    steps: tuple[PlanStep, ...] = ()
    elicitation: PlanQuestion | None = None
    """What must be asked before any step is run."""
    reasoning: str | None = None
    """Of a chat's plan: why it is made so."""
    form: PlanForm = "planner"
    """The form that it was written in."""

    @property
    def question(self) -> PlanQuestion | None:
        """What the plan asks the person before its steps; None if it asks nothing."""
        return None if self.elicitation is None or self.elicitation.is_empty else self.elicitation

    @property
    def data(self) -> dict[str, Any]:
        """The plan as plain data, in the form that it was written in; a field that is empty is None."""
        return self.chat_data if self.form == "chat" else self.planner_data

    @property
    def planner_data(self) -> dict[str, Any]:
        """The plan in the form of a planner, as plain data."""
        asked = None if self.question is None else self.question.data
        steps = [step.data for step in self.steps]
        return {"id": self.id, "intention": self.intention, "steps": steps, "elicitation": asked}

    @property
    def chat_data(self) -> dict[str, Any]:
        """The plan in the form of a chat, as plain data."""
        steps = [{"stepNumber": number, **step.chat_data} for number, step in enumerate(self.steps, 1)]
        about = {"id": self.id, "reasoning": self.reasoning or self.intention}
        return {"steps": steps, **{key: value for key, value in about.items() if value is not None}}
