"""Drafts that wait for their person when the turn is over: approved, declined, changed, put aside, and found again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_turns import TWO, agent, call, error_of, plan, result_of, step

from agentnb import Agent, Run, RunOptions, Store, tool
from agentnb.chat.plans.plans import Plans
from agentnb.core.log.work_events import GrantGiven, GrantWithdrawn, PlanApproved, PlanEdited, PlanProposed, PlanRejected
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel

DRAFT = call(execution_mode="draft_only")


def drafting(*after: Any, **settings: Any) -> Agent:
    """An agent whose model makes a draft of two steps, explains it, and then replies so."""
    return agent(DRAFT, TWO, "Shall it run?", *after, **settings)


async def waiting(made: Agent, prompt: str = "Draft it", **options: Any) -> Any:
    """The handle on a run that waits for its draft."""
    live = made.start(prompt, RunOptions(**options))
    while not live.run.waiting and not live.done:
        await asyncio.sleep(0.01)
    return live


async def test_an_approved_draft_runs_once_and_the_model_tells_what_came_of_it() -> None:
    live = await waiting(drafting("Both are high at 05:10."))
    (question,) = live.run.waiting
    assert (question.kind, live.run.status, live.run.text) == ("plan_review", "waiting_on_user", "Shall it run?")
    live.answer("approve")
    run = await live
    kinds = [type(event).__name__ for event in run.events if isinstance(event, PlanProposed | PlanApproved)]
    assert kinds == ["PlanProposed", "PlanApproved"] and run.text == "Both are high at 05:10."
    assert [one.operation for one in run.model_calls] == ["plan_generation"] and run.status == "completed"
    (step_,) = run.step_records.values()
    assert (step_.status, step_.output["status"], step_.output["summary"]) == ("completed", "executed", "2 of 2 steps done.")
    told = run.messages[-2].text
    assert question.call_id in told and '"status":"executed"' in told and '"station":"brest"' in told
