"""The results of plan steps: plain tuples ``(id, name, args, result, error)``, as planners and task files see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import msgspec

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.plans.plan_steps import ASKING, ELICITATION, PlanQuestion
from agentnb.core.run.call_window import CallWindow, call_key
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.schema.json_schema import checked_schema
from agentnb.errors import SettingsError, near
from agentnb.policies.gates.duplicate import DuplicateGuard
from agentnb.workflow.tasks.calls import ActionCall

StepResult: TypeAlias = dict[str, Any]
FIELDS = ("id", "name", "args", "result", "error")


def step_result(step: str, name: str, args: Any, result: Any = None, error: str | None = None) -> StepResult:
    """Return the result of a step."""
    return {"id": step, "name": name, "args": args, "result": result, "error": error}


def answer_result(step: str, question: PlanQuestion, answer: Mapping[str, Any]) -> StepResult:
    """Return what the person did with a question. ``answer``: ``{action, content}``, without content if they gave none.

    A text that answers a question without fields is the field ``answer`` of the content.
    """
    response = {key: value for key, value in answer.items() if value is not None}
    if isinstance(response.get("content"), str):
        response["content"] = {"answer": response["content"]}
    text = msgspec.json.encode(response).decode()
    return step_result(step, ELICITATION, {"message": question.data["message"]}, text)


async def asked(call: ActionCall, key: str, step: str, question: PlanQuestion, about: ToolCall | None = None) -> StepResult:
    """Ask the person, also for arguments that the call ``about`` lacks, and return what they did as a result."""
    message = question.data["message"]
    try:
        checked_schema(question.asked_schema, "requestedSchema", "")
    except SettingsError as error:
        return step_result(step, ELICITATION, {"message": message}, None, error.what)
    return answer_result(step, question, await call.ask(f"{ASKING}{key}", message, question.asked_schema, about))


def given_results(value: Any) -> list[StepResult]:
    """Return the results that an action was given; raise `SettingsError` for what are none."""
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            raise SettingsError("results must hold results of steps", f"Write objects with {', '.join(FIELDS)}")
    return [{**dict.fromkeys(FIELDS), **item} for item in items]


def last_of_each_call(results: Sequence[StepResult]) -> list[StepResult]:
    """Return the last result of each call, in their order: what a planner is shown."""
    last = {_key(result): index for index, result in enumerate(results)}
    return [results[index] for index in sorted(last.values())]


def calls_of(results: Sequence[StepResult], start: int = 0) -> list[tuple[ToolCall, StepResult]]:
    """Return the calls that these are the results of, from a place on, with their results."""
    pairs = [(index, result) for index, result in enumerate(results[start:], start) if result["name"] != ELICITATION]
    return [(ToolCall(result["name"], result["args"] or {}, str(index)), result) for index, result in pairs]


def guard_of(given: Any) -> DuplicateGuard | None:
    """Return the duplicate guard of an input: its settings by name, null for the usual ones; none for false.

    Raises `SettingsError` for what it has not.
    """
    if given is False:
        return None
    names = [setting.name for setting in fields(DuplicateGuard)]
    if not isinstance(given, Mapping | None):
        raise SettingsError("guard is neither false nor an object", f"Its settings are {', '.join(names)}")
    for name in given or ():
        if name not in names:
            raise SettingsError(f"guard has no setting {name}", near(str(name), names))
    return DuplicateGuard(**(given or {}))


def note_call(window: CallWindow, call: ToolCall, result: StepResult) -> None:
    """Take a call with its result into the window, once, however often it was tried."""
    if result["error"] == DUPLICATE:
        window.blocked(call)
        return
    failed = result["error"] is not None
    text = str(result["error"]) if failed else _text(result["result"])
    window.started(call)
    window.finished(ToolResult(call.id, call.name, (Text(text),), is_error=failed))


def last_output(results: Sequence[StepResult], call: ToolCall) -> Any:
    """Return the last output of the same call that succeeded; None if there is none."""
    key = call_key(call)
    same = [result for result in results if result["error"] is None and _key(result) == key]
    return same[-1]["result"] if same else None


def referred_output(result: StepResult | None, place: int) -> Any:
    """Return the output that a reference reads; ``place``: that of the step. Raises `SettingsError` if there is none."""
    if result is None:
        raise SettingsError(f"$step[{place}] has no result", "A reference reads an earlier step that has one")
    if result["result"] is None and result["error"] is not None:
        raise SettingsError(f"$step[{place}] has failed: {result['error']}")
    return result["result"]


def _key(result: StepResult) -> tuple[str, bytes]:
    return call_key(ToolCall(result["name"], result["args"] or {}, ""))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
