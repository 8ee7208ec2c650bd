"""``%%agent --plans`` in a real kernel: a draft that a message of the person approves."""

from __future__ import annotations

from typing import Any

import pytest

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


def test_draft_waits_for_a_message_and_runs_once(kernel: Any) -> None:
    kernel.run("talker = ScriptedModel([plan(execution_mode='draft_only'), PLAN, 'Shall it run?'])")
    cell = kernel.run("%%agent --plans --context project:p-1 -m talker -t tides_fetch\nDraft it")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.text, [one.status for one in run.plans.values()]") == "('Shall it run?', ['proposed'])"
    kernel.run("talker = ScriptedModel([plan(plan_id=drafted()), 'It is high at 05:10.'])")
    again = kernel.run("%%agent --plans --continue run -m talker -t tides_fetch\nYes, run it")
    assert again.status == "ok", again.error
    assert kernel.value("json.loads(run.rounds[0].results[0].text)['status'], run.context_type") == "('executed', 'project')"


DRAFTED = "talker = ScriptedModel([plan(execution_mode='draft_only'), PLAN, 'Shall it run?'])"
CELL = "%%agent --plans -m talker -t tides_fetch\nDraft it"
HIGH = "talker = ScriptedModel(['It is high at 05:10.'])"


@pytest.mark.req("R3.38")
def test_draft_is_approved_by_command_plan_id_or_run_id(kernel: Any) -> None:
    for named in ("", "{drafted()} ", "{run.id} "):
        kernel.run(DRAFTED)
        assert kernel.run(CELL).status == "ok"
        assert kernel.value("run.status, run.is_suspended, run.waiting[0].kind") == "('waiting_on_user', True, 'plan_review')"
        kernel.run(HIGH)
        line = kernel.value(f"f'%agent approve {named}-m talker'").strip("'")
        approved = kernel.run(line)
        assert approved.status == "ok", approved.error
        value = kernel.value("run.text, run.status, [one.status for one in run.step_records.values()]")
        assert value == "('It is high at 05:10.', 'completed', ['completed'])"


def test_approval_without_a_draft_is_refused_and_several_need_ids(kernel: Any) -> None:
    nothing = kernel.run("%agent approve")
    assert "Nothing is waiting for your approval" in nothing.error
    ids = []
    for _ in range(2):
        kernel.run(DRAFTED)
        kernel.run(CELL)
        ids.append(kernel.value("drafted()").strip("'"))
    several = kernel.run("%agent approve")
    assert all(run_id in several.error for run_id in ids)
    unknown = kernel.run("%agent approve plan-70")
    assert "plan-70" in unknown.error
    kernel.run(HIGH)
    assert kernel.run(f"%agent approve {ids[0]} -m talker").status == "ok"
    kernel.run(HIGH)
    assert kernel.run("%agent approve -m talker").status == "ok"
    assert kernel.value("[*run.plans]") == f"['{ids[1]}']"


def test_next_cell_approves_a_draft_and_ends_its_run(kernel: Any) -> None:
    kernel.run(DRAFTED)
    kernel.run(CELL)
    kernel.run("first = run; talker = ScriptedModel([plan(plan_id=drafted()), 'It is high at 05:10.'])")
    again = kernel.run("%%agent --plans --continue -m talker -t tides_fetch\nYes, run it")
    assert again.status == "ok", again.error
    assert kernel.value("run.text, next(iter(run.plans.values())).words") == "('It is high at 05:10.', 'Yes, run it')"
    kernel.run(kernel.value("f'%agent load {first.id}'").strip("'"))
    assert kernel.value("run.status, run.stop_reason, len(run.waiting)") == "('completed', 'continued', 0)"
    assert kernel.run("%agent approve").status == "error"
