"""Runs with a waiting or answered plan draft."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from run_builder import RunBuilder, answered, begun, called

from agentnb import Run
from agentnb.chat.plans.draft_question import draft_question
from agentnb.chat.plans.known_drafts import spec_of
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage

FETCH = ToolSpec("fetch", "", {"type": "object", "properties": {"station": {"type": "string"}}, "required": ["station"]})
LOOK = ToolSpec("look", "", {"type": "object", "properties": {}})
STEPS: list[dict[str, Any]] = [
    {"description": "Fetch Brest", "tools": ["fetch"], "args": {"station": "brest"}},
    {"description": "Fetch what that names", "tools": ["fetch"], "args": {"station": "$step[0].output"}, "dependsOn": [1]},
    {"description": "Look around", "tools": ["look"], "executorRequired": True, "dependsOn": [1]},
    {"description": "Tell", "tools": [], "dependsOn": [2, 3]},
    {"description": "Do what cannot be done", "tools": ["gone"]},
]


def steps(*chosen: dict[str, Any]) -> list[dict[str, Any]]:
    """Number these steps and fill in omitted fields."""
    usual: dict[str, Any] = {"type": "research", "executorRequired": False, "dependsOn": []}
    return [{"stepNumber": number, **usual, **one} for number, one in enumerate(chosen or STEPS, 1)]


def drafted(*facts: Any, plan: list[dict[str, Any]] | None = None, problem: str = "", **fields: Any) -> Run:
    """Return a run with a waiting draft and these further events."""
    data = {"steps": plan or steps(), "reasoning": "In this order.", "execution_mode": "draft_only"}
    built = RunBuilder(tools=(FETCH, LOOK), **fields)
    call = called("agent_create_plan", "c1", objective="Compare")
    for index, part in enumerate((call, Text("Shall it run?"))):
        usage = Usage(input=100, output=10, cost=0.01)
        built.extend(*begun(index), (e.ModelReplied, {"message": Message("assistant", (part,)), "usage": usage}))
        built.extend(*(answered(call) if part is call else []), (e.RoundFinished, {"index": index, "status": "success"}))
    built.add(w.PlanProposed, plan_id="p-1", plan=data, call_id="c1")
    question = draft_question(spec_of(built.run.plans["p-1"]), (FETCH, LOOK), problem)
    built.add(e.QuestionAsked, question=replace(question, id="q1"))
    return built.extend(*facts).run


def answer(value: Any, **fields: Any) -> tuple[type[e.Event], dict[str, Any]]:
    """Return the event that answers the draft."""
    return e.QuestionAnswered, {"question_id": "q1", "answer": value, **fields}
