"""Data types of a plan in either form: for a planner or for a chat.

A planner's plan has an intention, steps that call tools, and optionally a question for the person. A chat plan has
numbered steps with a description, allowed tools and dependencies. `PlanSpec` represents both.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from agentnb.core.messages import JsonObject
from agentnb.core.plans.plan_steps import ABORT, ELICITATION, NOOP, TOOL, PlanQuestion, PlanStep

PlanForm: TypeAlias = Literal["planner", "chat"]
TYPES = (TOOL, ELICITATION, NOOP, ABORT)
"""Step types of a planner's plan."""


class PlanSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A complete plan, as written."""

    id: str | None = None
    intention: str | None = None
    steps: tuple[PlanStep, ...] = ()
    elicitation: PlanQuestion | None = None
    """Question to ask instead of running the steps."""
    reasoning: str | None = None
    """Rationale of a chat plan."""
    form: PlanForm = "planner"
    """The form in which it was written."""

    @property
    def question(self) -> PlanQuestion | None:
        """Question for the person, asked instead of the steps, or None."""
        return None if self.elicitation is None or self.elicitation.is_empty else self.elicitation

    @property
    def data(self) -> JsonObject:
        """Plain data in the original form; empty fields are None."""
        return self.chat_data if self.form == "chat" else self.planner_data

    @property
    def planner_data(self) -> JsonObject:
        """Plain data in the planner's form."""
        question = None if self.question is None else self.question.data
        steps = [step.data for step in self.steps]
        return {"id": self.id, "intention": self.intention, "steps": steps, "elicitation": question}

    @property
    def chat_data(self) -> JsonObject:
        """Plain data in the chat form."""
        steps = [{"stepNumber": number, **step.chat_data} for number, step in enumerate(self.steps, 1)]
        extra = {"id": self.id, "reasoning": self.reasoning or self.intention}
        return {"steps": steps, **{key: value for key, value in extra.items() if value is not None}}
