"""Plan reviews: the reviewer's prompt and verdict words."""

from __future__ import annotations

import pytest
from plan_turns import TWO

from agentnb import Plan
from agentnb.chat.plans.planning import PlanRequest, read_review, review_request
from agentnb.core.request import ToolSpec


def test_verdicts_are_recognized_in_any_case(subtests: pytest.Subtests) -> None:
    cases = {"approve": "approved", " Rejected ": "rejected", "REJECT": "rejected", "changes_requested": "needs_changes"}
    for word, verdict in {**cases, "needs_changes": "needs_changes", "approved": "approved"}.items():
        with subtests.test(word):
            review = read_review(f'So: {{"verdict": "{word}", "notes": " Mind the day. "}}')
            assert review == (verdict, "Mind the day.")
    assert read_review('{"verdict": "perhaps"}') is None is read_review("Approved")


def test_reviewer_reads_plan_objective_and_tools() -> None:
    asked = PlanRequest("Compare the tides", requested_outputs=("the hours",))
    text = (
        review_request(asked, Plan.read(TWO), [ToolSpec("tides_fetch", "", {}), ToolSpec("tables_compare", "", {})])
        .messages[0]
        .text
    )
    assert all(one in text for one in ("Compare the tides", "the hours", "tables_compare", '"station":"brest"'))
