"""Asks a model for the plan of a chat, twice at most: the second time with what is wrong in the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from agentnb.chat.plans.plan_request import PlanRequest
from agentnb.chat.plans.plan_rules import broken_rules, hints
from agentnb.chat.prompts import prompt
from agentnb.core.messages import encodable, user
from agentnb.core.redaction import redact
from agentnb.core.request import Request, ToolSpec
from agentnb.errors import BrokenReply
from agentnb.workflow.plans.plan_checks import read_for_tools
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.reply_plans import plan_in_reply

ATTEMPTS = 2
INVALID, RULES = "invalid_plan", "plan_rules"
"""The codes of errors: a plan that is not valid, and one that breaks the rules of its context."""
MAX_PROBLEMS = 10


class Made(NamedTuple):
    """What came of an attempt: a plan, or what is wrong with it."""

    plan: PlanSpec | None = None
    code: str = ""
    problems: tuple[str, ...] = ()


def plan_request(
    asked: PlanRequest,
    intent: Mapping[str, Any],
    tools: Sequence[ToolSpec],
    rules: Sequence[Mapping[str, Any]],
    before: Made | None,
) -> Request:
    """Return the request for a plan. ``before``: the attempt whose problems are to be mended."""
    parts = [prompt("chat_planner")]
    if told := hints(rules):
        parts.append("## Rules of this context\n\n" + "\n".join(f"- {one}" for one in told))
    text = f"## What is wanted\n\n{msgspec.json.encode(dict(intent)).decode()}"
    if before is not None:
        wrong = "\n".join(f"- {one}" for one in before.problems)
        text += f"\n\n## What was wrong in the last plan\n\n{wrong}\n\nWrite the whole plan again: the bare JSON object."
    wanted = dict.fromkeys((asked.objective, asked.message))  # a blank objective is the message
    planning = {"query": "\n\n".join(wanted), "results": []}
    return redact(Request(encodable("\n\n".join(parts)), (user(encodable(text)),), tuple(tools), {"planning": planning}))


def read_made(text: str, calls: Sequence[Any], tools: Sequence[ToolSpec], rules: Sequence[Mapping[str, Any]]) -> Made:
    """Return the plan of a reply with ids of its own, checked; or what is wrong with it."""
    try:
        read = plan_in_reply(text, calls)
    except BrokenReply as error:
        return Made(None, INVALID, (error.what,))
    if read is None or not read.plan.steps:
        return Made(None, INVALID, ("the reply holds no plan with steps",))
    checked, found = read_for_tools(read.plan.chat_data, tools)
    problems = [str(problem) for problem in found.found]
    if checked is None or problems:
        return Made(read.plan, INVALID, tuple(problems[:MAX_PROBLEMS]))
    plan = structs.replace(checked.plan, form="chat")
    if broken := broken_rules(plan, rules):
        told = tuple([f"the rules of the context ask for {name}: once, in the given order" for name in broken])
        return Made(plan, RULES, told)
    return Made(plan)
