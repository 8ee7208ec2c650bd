"""A plan as HTML and as text: its purpose, its steps in order, and its question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentnb.core.plans.plan_steps import ABORT, NOOP, TOOL, PlanQuestion, PlanStep
from agentnb.core.redaction import redact
from agentnb.core.step_retry import format_retries
from agentnb.display.css import wrap_output
from agentnb.display.markup import NOTHING, Html, tag
from agentnb.display.parts.step_list import LeftOut, StepRow, left_out_html, line_html, row_text, shorten_list
from agentnb.display.texts.call_labels import argument_words
from agentnb.display.texts.labels import clean, first_line, pluralize
from agentnb.workflow.plan import Plan

MAX_OF_WORDS = 300
"""Maximum characters of a text, or of a call's arguments."""
MAX_TOOLS = 5
"""Maximum tools named in the command."""
_NAMES = {NOOP: "does nothing", ABORT: "ends the run"}


def plan_html(plan: Plan, variable: str = "plan") -> Html:
    """Return the plan as a list of its steps. ``variable``: the variable that holds it, used in the next command."""
    rows = [left_out_html(row) if isinstance(row, LeftOut) else tag("div", "", line_html(row)) for row in _rows(plan)]
    parts = (
        tag("div", "plan-head", tag("b", "", "Plan"), " ", tag("span", "meta", _about(plan))),
        *[tag("div", "plan-words", text) for text in (_purpose(plan), _asked_first(plan)) if text],
        tag("div", "plan-words", *rows) if rows else NOTHING,
        tag("div", "plan-hint", _how_to_run(plan, variable)),
    )
    return wrap_output(tag("div", "plan", *parts))


def plan_text(plan: Plan, variable: str = "plan") -> str:
    """Return the plan as lines of text."""
    lines = [f"Plan · {_about(plan)}", _purpose(plan), _asked_first(plan)]
    lines += [f"  {row if isinstance(row, LeftOut) else row_text(row)}" for row in _rows(plan)]
    return "\n".join(filter(None, [*lines, _how_to_run(plan, variable)]))


def _about(plan: Plan) -> str:
    return pluralize(len(plan.steps), "step") if plan.steps else "no steps"


def _purpose(plan: Plan) -> str:
    return _safe_line(plan.intention or plan.reasoning or "")


def _asked_first(plan: Plan) -> str:
    asks = "Asks instead of the steps" if plan.steps else "Asks"
    return "" if plan.question is None else f"{asks}: {_question(plan.question)}"


def _rows(plan: Plan) -> Iterator[StepRow | LeftOut]:
    for index in shorten_list(dict.fromkeys(range(len(plan.steps)), "")):
        if isinstance(index, LeftOut):
            yield index
            continue
        step = plan.steps[index]
        if plan.form == "chat":
            number, name, details = step.number or index + 1, step.description or "", _chat_details(step)
        else:
            number, name, details = index, _name(step), _why(step)
        arguments = _arguments(step) if plan.form != "chat" and step.kind == TOOL else None
        yield StepRow("", None, _safe_line(name), str(number), arguments, words=_safe_line(details))


def _name(step: PlanStep) -> str:
    if step.question is not None:
        return f"asks: {_question(step.question)}"
    return _NAMES.get(step.type) or step.name or step.type


def _why(step: PlanStep) -> str:
    retries = f"up to {format_retries(step.retries)}" if step.retries else ""
    content = step.content or "" if step.question is None else ""
    return ", ".join(filter(None, [step.reason or content, retries]))


def _chat_details(step: PlanStep) -> str:
    tools = f"with {', '.join(step.tools)}" if step.tools else "without tools"
    arguments = f"given {_arguments(step)}" if step.args else ""
    after = f"after {', '.join(map(str, step.depends_on))}" if step.depends_on else ""
    executor = "by an agent" if step.executor_required else ""
    return ", ".join(filter(None, [step.type, tools, arguments, after, executor]))


def _arguments(step: PlanStep) -> str:
    return argument_words(redact(step.args or {}), MAX_OF_WORDS)


def _question(question: PlanQuestion) -> str:
    fields: Mapping[str, Any] = question.schema.get("properties") or {}
    names = f" ({', '.join(map(str, fields))})" if fields else ""
    return _safe_line(f"{question.data['message']}{names}")


def _how_to_run(plan: Plan, variable: str) -> str:
    names = [name for name in plan.tool_names if name.isidentifier()]
    tools = ", ".join([*names[:MAX_TOOLS], *(["..."] if len(names) > MAX_TOOLS else [])])
    return f"Run it: await {variable}.run({f'tools=[{tools}]' if tools else ''})"


def _safe_line(text: str) -> str:
    return first_line(redact(clean(text)), MAX_OF_WORDS)
