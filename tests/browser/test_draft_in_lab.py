"""The draft of a plan in a real JupyterLab: read, edited, approved and declined."""

from __future__ import annotations

import re
from typing import Any

import pytest
from test_approval_in_lab import IN_SIGHT
from test_card_in_lab import card, chip, nothing_is_left, shared
from waiting import wait_until

pytestmark = pytest.mark.browser
SETUP = """
import json
from agentnb import tool

@tool(effects={"write"})
async def tides_fetch(station: str, days: int = 1) -> str:
    "Fetch the tide table of a station."
    return f"{station}: 05:10 and 17:30"

@tool(effects={"read"})
def tables_compare(left: str, right: str) -> str:
    "Compare two tables."
    return "Both are high at 05:10."

def step(number, text, tools, *after, executor=False, **args):
    about = {"stepNumber": number, "type": "research", "description": text, "tools": tools, "dependsOn": [*after]}
    return {**about, "executorRequired": executor, **({"args": args} if args else {})}

PLAN = json.dumps({"steps": [
    step(1, "Fetch the table of Brest", ["tides_fetch"], station="brest"),
    step(2, "Fetch the table of Cork", ["tides_fetch"], station="cork", days=2),
    step(3, "Find the hours at which both are high", ["tables_compare"], 1, 2, executor=True),
], "reasoning": "The tables do not need each other, the comparison needs both."})
DRAFT = ToolCall("agent_create_plan", {"objective": "Compare the tides", "execution_mode": "draft_only"}, "c1")
model = Slow([DRAFT, PLAN, "I would fetch both tables and compare them.", "Compared.", "Both are high at 05:10."])
"""
GO = "%%agent --plans -m model -t tides_fetch tables_compare\nCompare the tides of Brest and Cork."


def drafted(lab: Any, setup: str = SETUP, go: str = GO) -> tuple[int, Any]:
    """Run the cell until its draft waits; return its index and the question."""
    index = shared(lab, setup, go)
    lab.start(index)
    draft = card(lab, index).get_by_role("group", name="A draft of a plan")
    draft.get_by_role("button", name="Approve").wait_for()
    return index, draft


@pytest.mark.req("R3.37", "R3.38")
def test_draft_is_edited_in_its_table_and_runs_as_approved(lab: Any) -> None:
    index, draft = drafted(lab)
    chip(lab, index, "Plan awaits your approval")
    lab.shots("draft", draft)
    draft.get_by_role("button", name="Move step 2 up").click()
    draft.locator("tbody tr", has_text="Cork").first.get_by_text(re.compile("^1$")).wait_for()
    draft.get_by_role("button", name="Move step 2 down").click()
    refused = draft.locator("tbody tr").nth(1).get_by_role("alert").first
    refused.get_by_text("Invalid edit: step 3 depends on step 2, which must stay before it. The plan is unchanged").wait_for()
    lab.shots("draft-move-refused", draft)
    draft.get_by_role("button", name="Move step 3 up").click()
    draft.locator("tbody tr").nth(2).get_by_text("Invalid edit").wait_for()
    wait_until(lambda: draft.get_by_text("Invalid edit").count() == 1)
    draft.get_by_text("Edit step 1").click()
    form = draft.locator("form[data-place='0']")
    lab.shots("draft-form", draft)
    form.get_by_label("What it does").fill("")
    form.get_by_role("button", name="Save the step").click()
    form.locator(".agentnb-field-error", has_text="shorter").wait_for()
    lab.shots("draft-refused", draft)
    form.get_by_label("What it does").fill("Fetch the table of Galway")
    form.get_by_label("station").fill("galway")
    draft.get_by_role("button", name="Approve").click()
    form.locator(".agentnb-field-error", has_text="Save this step first").wait_for()
    form.get_by_role("button", name="Save the step").click()
    draft.get_by_text('station="galway"').wait_for()
    draft.get_by_role("button", name="Add a step").click()
    draft.get_by_role("button", name="Remove step 4").click()
    draft.get_by_text("you changed it").wait_for()
    lab.shots("draft-edited", draft)
    draft.get_by_role("button", name="Approve").click()
    lab.cell(index).locator(".agentnb-run > .agentnb-head .agentnb-chip", has_text="Done").wait_for()
    lab.cell(index).get_by_text("Transcript, 3 rounds").click()
    lab.cell(index).get_by_text("You approved it.").wait_for()
    lab.shots("draft-approved", lab.cell(index).locator(".agentnb-run").first)
    nothing_is_left(lab)


@pytest.mark.req("R3.37", "R3.39")
def test_chip_counts_plan_steps_and_shows_the_review(lab: Any) -> None:
    setup = f"""{SETUP}
STEPS = [step(1, "Fetch the table of Brest", ["tides_fetch"], station="brest"), step(2, "Wait", ["wait"], 1, what="plan-seen")]
PLAN = json.dumps({{"steps": [*STEPS, step(3, "Tell", [], 1, 2)]}})
REVIEW = ToolCall("agent_create_plan", {{"objective": "Compare", "execution_mode": "agent_review"}}, "c1")
VERDICT = json.dumps({{"verdict": "approved", "notes": "Read-only, in a sound order."}})
model = Slow([REVIEW, PLAN, VERDICT, "Compared.", "High."])
"""
    index = shared(lab, setup, "%%agent --plans --approve auto -m model -t tides_fetch wait\nCompare the tides.")
    lab.start(index)
    chip(lab, index, "Executing plan, step 2 of 3")
    lab.shots("plan-review", card(lab, index))
    lab.allow("plan-seen")
    lab.cell(index).locator(".agentnb-run > .agentnb-head .agentnb-chip", has_text="Done").wait_for()
    nothing_is_left(lab)


@pytest.mark.nightly("by day a draft is edited and approved")
def test_answers_to_a_draft_stay_in_sight_at_700_px(lab: Any) -> None:
    index, draft = drafted(lab)
    for width in (700, 1400):
        lab.width(width)
        wait_until(lambda: draft.get_by_role("button", name="Approve").evaluate(IN_SIGHT))
    draft.get_by_role("button", name="Approve").click()
    lab.cell(index).locator(".agentnb-run > .agentnb-head .agentnb-chip", has_text="Done").wait_for()
    lab.cell(index).locator(".agentnb-meta", has_text="3 rounds · 1 plan of 3 steps").first.wait_for()
    nothing_is_left(lab)


@pytest.mark.nightly("by day a draft is edited and approved")
def test_draft_is_declined_with_reason_or_approved_with_text(lab: Any) -> None:
    index, draft = drafted(lab, SETUP.replace('"Compared.", "Both are high at 05:10."', '"Then not."'))
    draft.get_by_role("button", name="Reject…").click()
    draft.get_by_label("Reason, for the model").fill("Too many stations")
    draft.get_by_role("button", name="Reject", exact=True).click()
    lab.cell(index).locator(".agentnb-run > .agentnb-head .agentnb-chip", has_text="Plan rejected").wait_for()
    lab.cell(index).get_by_text("Transcript, 3 rounds").click()
    lab.cell(index).get_by_text("You rejected it: “Too many stations”").wait_for()
    setup = f"""{SETUP}
class Running(Slow):
    async def stream(self, request):
        if self.replies[0] == "run it":
            named = json.loads(request.messages[2].parts[0].text)["plan_id"]
            self.replies[0] = [ToolCall("agent_create_plan", {{"objective": "Run it", "plan_id": named}}, "c2")]
        async for item in super().stream(request):
            yield item
model = Running([DRAFT, PLAN, "Shall it run?", "run it", "Compared.", "High."])
"""
    index, draft = drafted(lab, setup, GO.replace("%%agent", "%%agent --approve auto"))
    field = card(lab, index).get_by_placeholder("Say something to the agent while it works")
    field.fill("Yes, go ahead")
    field.press("Enter")
    lab.cell(index).locator(".agentnb-run > .agentnb-head .agentnb-chip", has_text="Done").wait_for()
    lab.cell(index).get_by_text("Transcript, 4 rounds").click()
    lab.cell(index).get_by_text("Approved by your message: “Yes, go ahead”").first.wait_for()
    lab.shots("draft-in-words", lab.cell(index).locator(".agentnb-run").first)
    nothing_is_left(lab)
