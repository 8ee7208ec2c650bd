"""``%%agent --plans`` in a real kernel: a draft, which a message of the person lets run."""

from __future__ import annotations

from typing import Any

SETUP = """
import json
from agentnb.core.messages import ToolCall
from agentnb.models import ScriptedModel

async def tides_fetch(station: str) -> str:
    "Fetch the tide table of a station."
    return f"{station}: 05:10"

PLAN = json.dumps({"steps": [{"stepNumber": 1, "type": "research", "description": "Fetch", "tools": ["tides_fetch"],
                              "args": {"station": "brest"}, "executorRequired": False, "dependsOn": []}]})

def plan(**more):
    return ToolCall("agent_create_plan", {"objective": "Fetch", **more}, "c1")

def drafted():
    return next(iter(run.plans))
"""


def test_a_draft_waits_for_a_message_of_the_person_and_then_runs_once(kernel: Any) -> None:
    kernel.run(SETUP)
    kernel.run("talker = ScriptedModel([plan(execution_mode='draft_only'), PLAN, 'Shall it run?'])")
    cell = kernel.run("%%agent --plans --context project:p-1 -m talker -t tides_fetch\nDraft it")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.text, [one.status for one in run.plans.values()]") == "('Shall it run?', ['proposed'])"
    kernel.run("talker = ScriptedModel([plan(plan_id=drafted()), 'It is high at 05:10.'])")
    again = kernel.run("%%agent --plans --continue run -m talker -t tides_fetch\nYes, run it")
    assert again.status == "ok", again.error
    assert kernel.value("json.loads(run.rounds[0].results[0].text)['status'], run.context_type") == "('executed', 'project')"
