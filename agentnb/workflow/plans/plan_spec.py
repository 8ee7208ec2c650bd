"""What a plan is made of, in either of its two forms: that of a planner, and that of a chat.

A planner's plan has an intention, steps that call tools, and perhaps a question to the person. A chat's plan has numbered steps
with a description, the tools that each may use, and the steps that it depends on. One class holds both.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.plans.plan_steps import ABORT, ELICITATION, NOOP, TOOL, PlanQuestion, PlanStep

PlanForm: TypeAlias = Literal["planner", "chat"]
TYPES = (TOOL, ELICITATION, NOOP, ABORT)
"""The types of a planner's steps."""


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
        question = None if self.question is None else self.question.data
        steps = [step.data for step in self.steps]
        return {"id": self.id, "intention": self.intention, "steps": steps, "elicitation": question}

    @property
    def chat_data(self) -> dict[str, Any]:
        """The plan in the form of a chat, as plain data."""
        steps = [{"stepNumber": number, **step.chat_data} for number, step in enumerate(self.steps, 1)]
        extra = {"id": self.id, "reasoning": self.reasoning or self.intention}
        return {"steps": steps, **{key: value for key, value in extra.items() if value is not None}}
