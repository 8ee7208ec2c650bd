"""Checks of a chat plan against the available tools and its context's rules for tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from msgspec import structs

from agentnb.core.request import ToolSpec
from agentnb.workflow.plans.plan_checks import read_for_tools
from agentnb.workflow.plans.plan_spec import PlanSpec

INVALID, RULES = "invalid_plan", "plan_rules"
"""Error codes: an invalid plan, and a plan that breaks the rules of its context."""


class CheckedPlan(NamedTuple):
    """A plan, or its problems."""

    plan: PlanSpec | None
    code: str = ""
    problems: tuple[str, ...] = ()


def check_chat_plan(data: Mapping[str, Any], specs: Iterable[ToolSpec], rules: Iterable[Mapping[str, Any]]) -> CheckedPlan:
    """Validate a chat plan from plain data: its steps must use only these tools and satisfy the context's rules."""
    read, problems = read_for_tools(data, specs)
    if read is None or problems.found:
        return CheckedPlan(None, INVALID, tuple(map(str, problems.found)))
    if not read.plan.steps:
        return CheckedPlan(None, INVALID, ("The plan has no steps",))
    if broken := broken_rules(read.plan, rules):
        messages = [f"The context's rules require {name} once, in the given order" for name in broken]
        return CheckedPlan(None, RULES, tuple(messages))
    return CheckedPlan(structs.replace(read.plan, form="chat"))


def broken_rules(plan: PlanSpec, rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the tools whose rules are broken, each once: missing, called too often, or out of order."""
    steps = [set(filter(None, (step.name, *step.tools))) for step in plan.steps]
    wanted = [rule for rule in rules if rule.get("tools")]  # the others are hints
    places = [[position for position, names in enumerate(steps) if _calls(names, rule["tools"])] for rule in wanted]
    broken: list[str] = []
    for index, (rule, positions) in enumerate(zip(wanted, places, strict=True)):
        is_missing = not positions and rule.get("required", False)
        is_often = rule.get("most") is not None and len(positions) > rule["most"]
        is_late = bool(positions) and any(later and later[0] < positions[0] for later in places[index + 1 :])
        if is_missing or is_often or is_late:
            broken.append(", ".join(rule["tools"]))
    return list(dict.fromkeys(broken))


def hints(rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the rules as sentences addressed to a planner."""
    sentences = []
    for rule in rules:
        if rule.get("tools"):
            names = " or ".join(rule["tools"])
            often = f" at most {rule['most']} times" if rule.get("most") else ""
            sentences.append(f"{'A step calls' if rule.get('required') else 'A step may call'} {names}{often}, in this order.")
        if rule.get("hint"):
            sentences.append(str(rule["hint"]))
    return sentences


def _calls(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
