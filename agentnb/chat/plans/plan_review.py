"""The judgement of a reviewer about a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from agentnb.chat.plans.plan_request import PlanRequest
from agentnb.chat.prompts import prompt
from agentnb.context.side_question import side_question
from agentnb.core.request import Request
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.templates.json_in_text import json_values

Verdict: TypeAlias = Literal["approved", "rejected", "needs_changes"]
OPERATION = "plan_review"
REVIEWER = "plan_reviewer"
NO_ANSWER, UNREADABLE = "The reviewer did not answer.", "The reviewer's answer cannot be read."
_VERDICTS: dict[str, Verdict] = {
    "approved": "approved",
    "approve": "approved",
    "rejected": "rejected",
    "reject": "rejected",
    "needs_changes": "needs_changes",
    "changes_requested": "needs_changes",
}
"""The words for each verdict, those of the documents included."""


class Review(NamedTuple):
    """What a reviewer says of a plan."""

    verdict: Verdict
    notes: str = ""

    @property
    def data(self) -> dict[str, str]:
        """The review as plain data."""
        return {"verdict": self.verdict, "notes": self.notes, "reviewer": REVIEWER}


def review_request(asked: PlanRequest, plan: PlanSpec, tools: Sequence[str]) -> Request:
    """Return the request that asks for a review."""
    about = {"objective": asked.objective, "requested_outputs": list(asked.requested_outputs), "tools": list(tools)}
    text = f"{msgspec.json.encode(about).decode()}\n\nThe plan:\n{msgspec.json.encode(plan.chat_data).decode()}"
    asked_for = side_question(text, prompt("reviewer"))
    return structs.replace(asked_for, settings={"review": True})


def read_review(text: str) -> Review | None:
    """Return the review in a reply; None if there is none."""
    for value in json_values(text):
        verdict = _VERDICTS.get(str(value.get("verdict", "")).strip().lower()) if isinstance(value, dict) else None
        if verdict is not None:
            return Review(verdict, str(value.get("notes") or "").strip())
    return None
