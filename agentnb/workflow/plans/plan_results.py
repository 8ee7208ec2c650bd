"""Results of plan steps, for planners and task files: objects with ``id``, ``name``, ``args``, ``result`` and ``error``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import msgspec

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.plans.plan_steps import ASKING, ELICITATION, PlanQuestion
from agentnb.core.run.call_window import CallWindow, call_key
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.schema.json_schema import check_schema
from agentnb.errors import SettingsError, suggest_names
from agentnb.policies.gates.duplicate import DuplicateGuard
from agentnb.workflow.tasks.task_calls import ActionCall

StepResult: TypeAlias = dict[str, Any]
FIELDS = ("id", "name", "args", "result", "error")


def step_result(step: str, name: str, args: Any, result: Any = None, error: str | None = None) -> StepResult:
    """Build the result of a step."""
    return {"id": step, "name": name, "args": args, "result": result, "error": error}


def answer_result(step: str, question: PlanQuestion, answer: Mapping[str, Any]) -> StepResult:
    """Return the person's response to a question as a step result. ``answer``: ``{action, content}``; content may be
    absent.

    If the question has no fields, a text answer becomes the field ``answer`` of the content.
    """
    response = {key: value for key, value in answer.items() if value is not None}
    if isinstance(response.get("content"), str):
        response["content"] = {"answer": response["content"]}
    text = msgspec.json.encode(response).decode()
    return step_result(step, ELICITATION, {"message": question.data["message"]}, text)


async def ask_question(
    call: ActionCall, key: str, step: str, question: PlanQuestion, about: ToolCall | None = None
) -> StepResult:
    """Ask the person a question, or for arguments missing from the call ``about``; return the response as a step result."""
    message = question.data["message"]
    try:
        check_schema(question.asked_schema, "requestedSchema", "")
    except SettingsError as error:
        return step_result(step, ELICITATION, {"message": message}, None, error.what)
    return answer_result(step, question, await call.ask(f"{ASKING}{key}", message, question.asked_schema, about))


def read_results(value: Any) -> list[StepResult]:
    """Return the results in an action's input. Raises `SettingsError` for anything else."""
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            raise SettingsError("results must be a list of step results", f"Write objects with {', '.join(FIELDS)}")
    return [{**dict.fromkeys(FIELDS), **item} for item in items]


def last_of_each_call(results: Sequence[StepResult]) -> list[StepResult]:
    """Return the latest result of each call, in order, as a planner sees them."""
    last = {_key(result): index for index, result in enumerate(results)}
    return [results[index] for index in sorted(last.values())]


def calls_of(results: Sequence[StepResult], start: int = 0) -> list[tuple[ToolCall, StepResult]]:
    """Return the calls and results from index ``start`` on."""
    pairs = [(index, result) for index, result in enumerate(results[start:], start) if result["name"] != ELICITATION]
    return [(ToolCall(result["name"], result["args"] or {}, str(index)), result) for index, result in pairs]


def guard_of(value: Any) -> DuplicateGuard | None:
    """Return the duplicate guard configured by an input (settings by name, or null for the defaults), or None if the input is
    false.

    Raises `SettingsError` for unknown settings.
    """
    if value is False:
        return None
    names = [setting.name for setting in fields(DuplicateGuard)]
    if not isinstance(value, Mapping | None):
        raise SettingsError("guard must be false or an object", f"The settings are {', '.join(names)}")
    for name in value or ():
        if name not in names:
            raise SettingsError(f"guard has no setting {name}", suggest_names(str(name), names))
    return DuplicateGuard(**(value or {}))


def note_call(window: CallWindow, call: ToolCall, result: StepResult) -> None:
    """Add a call and its result to the window, only once per step, however often it was retried."""
    if result["error"] == DUPLICATE:
        window.note_block(call)
        return
    failed, output = result["error"] is not None, result["result"]
    text = str(result["error"]) if failed else output if isinstance(output, str) else msgspec.json.encode(output).decode()
    window.record_start(call)
    window.record_result(ToolResult(call.id, call.name, (Text(text),), is_error=failed))


def last_output(results: Sequence[StepResult], call: ToolCall) -> Any:
    """Return the most recent successful output of an equal call, or None."""
    key = call_key(call)
    same = [result for result in results if result["error"] is None and _key(result) == key]
    return same[-1]["result"] if same else None


def referred_output(result: StepResult | None, place: int) -> Any:
    """Return the output that a reference reads. ``place``: index of its step. Raises `SettingsError` if it is missing."""
    if result is None:
        raise SettingsError(f"$step[{place}] has no result", "A reference can read only an earlier step that has one")
    if result["result"] is None and result["error"] is not None:
        raise SettingsError(f"$step[{place}] failed: {result['error']}")
    return result["result"]


def _key(result: StepResult) -> tuple[str, bytes]:
    return call_key(ToolCall(result["name"], result["args"] or {}, ""))
