"""A plan as HTML and as text: what it is for, its steps in their order, and what it asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agentnb.core.plans.plan_steps import ABORT, NOOP, PlanQuestion, PlanStep
from agentnb.core.redaction import redact
from agentnb.core.step_retry import retries_told
from agentnb.display.markup import NOTHING, Html, tag
from agentnb.display.style import kept
from agentnb.display.texts.call_labels import argument_words
from agentnb.display.texts.labels import clean, counted, first_line
from agentnb.workflow.plan import Plan

MAX_STEPS = 200
"""Steps that are shown; of more, only the count is."""
MAX_OF_A_CALL = 300
"""Characters of a call with its arguments."""
MAX_OF_WORDS = 300
MAX_TOOLS = 5
"""Tools that the line to type names."""


class StepLine(NamedTuple):
    """A step as it is shown."""

    place: str
    """The number by which other steps refer to it: from 0 in a planner's plan, as it says itself in a chat's."""
    what: str
    about: str


def plan_html(plan: Plan, variable: str = "plan") -> Html:
    """Return the plan as a list of its steps. ``variable``: the one that holds it, for what to type next."""
    rows = [
        tag(
            "li",
            "plan-row",
            tag("span", "plan-place", line.place),
            tag("span", "plan-told", tag("b", "", line.what), " ", tag("span", "plan-about", line.about)),
        )
        for line in _lines(plan)
    ]
    parts = (
        tag("div", "plan-head", tag("b", "", "Plan"), " ", tag("span", "meta", _about(plan))),
        tag("div", "plan-words", told) if (told := _purpose(plan)) else NOTHING,
        tag("div", "plan-words", told) if (told := _asked_first(plan)) else NOTHING,
        tag("ol", "plan-steps", *rows) if rows else NOTHING,
        tag("div", "plan-words", _rest(plan)) if _rest(plan) else NOTHING,
        tag("div", "plan-hint", _how_to_run(plan, variable)),
    )
    return kept(tag("div", "plan", *parts))


def plan_text(plan: Plan, variable: str = "plan") -> str:
    """Return the same as lines of text."""
    lines = [f"Plan · {_about(plan)}", _purpose(plan), _asked_first(plan)]
    lines += [f"  {'  '.join(filter(None, line))}" for line in _lines(plan)]
    return "\n".join(filter(None, [*lines, _rest(plan), _how_to_run(plan, variable)]))


def _about(plan: Plan) -> str:
    return counted(len(plan.steps), "step") if plan.steps else "no steps"


def _purpose(plan: Plan) -> str:
    return _shown(plan.intention or plan.reasoning or "", MAX_OF_WORDS)


def _asked_first(plan: Plan) -> str:
    return "" if plan.question is None else f"Asks before any step: {_question(plan.question)}"


def _rest(plan: Plan) -> str:
    more = len(plan.steps) - MAX_STEPS
    return f"and {counted(more, 'more step')}" if more > 0 else ""


def _lines(plan: Plan) -> Iterator[StepLine]:
    for index, step in enumerate(plan.steps[:MAX_STEPS]):
        if plan.form == "chat":
            yield StepLine(str(step.number or index + 1), _shown(step.description or "", MAX_OF_WORDS), _of_chat(step))
        else:
            yield StepLine(str(index), _what(step), _why(step))


def _what(step: PlanStep) -> str:
    if step.type == NOOP:
        return "does nothing"
    if step.type == ABORT:
        return "ends the run"
    if step.question is not None:
        return f"asks: {_question(step.question)}"
    return _shown(f"{step.name or step.type}({_arguments(step)})", MAX_OF_A_CALL)


def _why(step: PlanStep) -> str:
    again = f"up to {retries_told(step.retries)}" if step.retries else ""
    content = step.content or "" if step.question is None else ""
    return ", ".join(filter(None, [_shown(step.reason or content, MAX_OF_WORDS), again]))


def _of_chat(step: PlanStep) -> str:
    tools = f"with {', '.join(step.tools)}" if step.tools else "without tools"
    given = f"given {_arguments(step)}" if step.args else ""
    after = f"after {', '.join(map(str, step.depends_on))}" if step.depends_on else ""
    by = "by an agent" if step.executor_required else ""
    return _shown(", ".join(filter(None, [step.type, tools, given, after, by])), MAX_OF_WORDS)


def _arguments(step: PlanStep) -> str:
    return argument_words(step.args or {}, MAX_OF_A_CALL)


def _question(question: PlanQuestion) -> str:
    fields: Mapping[str, Any] = question.schema.get("properties") or {}
    names = f" ({', '.join(map(str, fields))})" if fields else ""
    return _shown(f"{question.data['message']}{names}", MAX_OF_WORDS)


def _how_to_run(plan: Plan, variable: str) -> str:
    names = [name for name in plan.tool_names if name.isidentifier()]
    tools = ", ".join([*names[:MAX_TOOLS], *(["..."] if len(names) > MAX_TOOLS else [])])
    return f"Run it: await {variable}.run({f'tools=[{tools}]' if tools else ''})"


def _shown(text: str, most: int) -> str:
    return first_line(redact(clean(text)), most)
