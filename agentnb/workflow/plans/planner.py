"""The action ``llm/core:plan``, which asks a model for a plan, an answer, or a question for the person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import structs

from agentnb.core.messages import encodable, user
from agentnb.core.plans.plan_history import EXECUTION, GENERATION, PLANNING
from agentnb.core.plans.plan_steps import REPLYING, text_of
from agentnb.core.redaction import redact
from agentnb.core.request import Request, ToolSpec
from agentnb.errors import BrokenReply
from agentnb.policies.ending import CUT
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.workflow.plans.execution import run_plan
from agentnb.workflow.plans.offered_tools import select_tools
from agentnb.workflow.plans.plan_reader import OF_PLANS
from agentnb.workflow.plans.plan_results import StepResult, ask_question, last_of_each_call, read_results
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.prompt_template import fill_template, has_place, template_text
from agentnb.workflow.plans.reply_plans import AGAIN, plan_in_reply
from agentnb.workflow.tasks.action_table import Action
from agentnb.workflow.tasks.model_steps import ModelAnswer
from agentnb.workflow.tasks.task_calls import ActionCall

PROMPT = Path(__file__).with_name("prompts") / "planner.md"
NO_ANSWER = "The model returned neither a plan nor an answer"


async def plan(call: ActionCall) -> dict[str, Any]:
    """Return the next plan, or the answer: the action ``llm/core:plan``.

    Input: ``query``, ``context``, ``model``, ``tools`` (names; by default, all tools of the run), ``results``,
    ``transcript``, and ``promptTemplate``. A question in the plan is asked here; planning then continues with its
    answer among the results.
    """
    fields, results = call.input, read_results(call.input.get("results"))
    texts = {"query": text_of(fields.get("query")), "context": text_of(fields.get("context"))}
    template = template_text(fields.get("promptTemplate"), call.work_dir) or PROMPT.read_text(encoding="utf-8")
    tools, transcript = (
        select_tools(fields.get("tools"), call.tools),
        _start_transcript(fields.get("transcript"), texts["query"]),
    )
    for turn in count(1):
        call.check_plans(f"{REPLYING}{turn}")
        request = _request(template, {**texts, "transcript": transcript}, tools, results)
        reply = await call.ask_model(f"{REPLYING}{turn}", request, GENERATION, model=fields.get("model"))
        next_plan, answer = _parse_reply(reply, results)
        names = ", ".join(step.name or step.type for step in next_plan.steps)
        transcript.append({"role": "assistant", "content": reply.text or names})
        call.propose(reply.id, next_plan.data)
        if next_plan.question is None:
            output = {"plan": {**dict.fromkeys(OF_PLANS), **next_plan.data}, "answer": answer, "elicitation": None}
            return {**output, "results": results, "transcript": transcript}
        results.append(await ask_question(call, str(turn), reply.id, next_plan.question))
    raise AssertionError("the loop ends only by returning")


def _request(template: str, known: Mapping[str, Any], tools: tuple[ToolSpec, ...], results: Sequence[StepResult]) -> Request:
    """Return the request for the next plan. Results of equal calls are shown only once, with the most recent result."""
    query, shown = known["query"], last_of_each_call(results)
    listed = [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]
    system = "" if has_place(template, "context") else known["context"]
    text = encodable(fill_template(template, {**known, "results": shown, "tools": listed})) or query
    return redact(Request(encodable(system), (user(text),), tools, {"planning": {"query": query, "results": shown}}))


def _parse_reply(reply: ModelAnswer, results: Sequence[StepResult]) -> tuple[PlanSpec, str | None]:
    """Parse a reply; return its plan, with unique ids for the plan and its steps, and its answer, if any."""
    if reply.stop_reason in CUT:
        raise BrokenReply("The model's plan was cut off at the token limit", "Raise max_tokens, or ask for less")
    read = plan_in_reply(reply.text, reply.calls)
    if read is None:
        if not reply.text.strip():
            raise BrokenReply(NO_ANSWER, AGAIN)
        return PlanSpec(id=reply.id), reply.text.strip()
    used_ids = {result["id"] for result in results} if reply.calls else set()
    steps = []
    for index, (step, faults) in enumerate(zip(read.plan.steps, read.faults, strict=True)):
        is_own = step.id is not None and step.id not in used_ids
        problem = "; ".join(fault.message for fault in faults) or None
        steps.append(structs.replace(step, id=step.id if is_own else f"{reply.id[:8]}-{index}", problem=problem))
    return structs.replace(read.plan, id=reply.id, steps=tuple(steps)), read.answer


def _start_transcript(transcript: Any, query: str) -> list[dict[str, Any]]:
    """Return the transcript so far, ending with the person's question."""
    messages = (
        [dict(message) for message in transcript if isinstance(message, Mapping)]
        if isinstance(transcript, list | tuple)
        else []
    )
    last = next((message.get("content") for message in reversed(messages) if message.get("role") == "user"), None)
    return messages if last == query or not query else [*messages, {"role": "user", "content": query}]


for _action in (plan, run_plan):
    _action.keeps_input = True  # type: ignore[attr-defined]  # the input is not modified, so it needs no copy
PLAN_ACTIONS: Mapping[str, Action] = MappingProxyType({PLANNING: plan, EXECUTION: run_plan})
ACTION_NAMES = frozenset(map(tool_of_word, PLAN_ACTIONS))
"""The names of the actions as tool names."""
