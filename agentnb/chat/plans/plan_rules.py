"""The rules of a context about plans: which tools the steps must call, in which order, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from agentnb.workflow.plans.plan_spec import PlanSpec


def broken_rules(plan: PlanSpec, rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the tools of the rules that the plan breaks, each once: missing, called too often, or out of order."""
    steps = [set(filter(None, (step.name, *step.tools))) for step in plan.steps]
    wanted = [rule for rule in rules if rule.get("tools")]  # others are hints
    places = [[place for place, names in enumerate(steps) if _calls(names, rule["tools"])] for rule in wanted]
    broken: list[str] = []
    for index, (rule, found) in enumerate(zip(wanted, places, strict=True)):
        is_missing = not found and rule.get("required", False)
        is_often = rule.get("most") is not None and len(found) > rule["most"]
        is_late = bool(found) and any(later and later[0] < found[0] for later in places[index + 1 :])
        if is_missing or is_often or is_late:
            broken.append(", ".join(rule["tools"]))
    return list(dict.fromkeys(broken))


def hints(rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what the rules say to a planner, each as a sentence."""
    found = []
    for rule in rules:
        if rule.get("tools"):
            names = " or ".join(rule["tools"])
            often = f" at most {rule['most']} times" if rule.get("most") else ""
            found.append(f"{'A step calls' if rule.get('required') else 'A step may call'} {names}{often}, in this order.")
        if rule.get("hint"):
            found.append(str(rule["hint"]))
    return found


def _calls(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
