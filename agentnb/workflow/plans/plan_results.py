"""The results of plan steps: plain tuples ``(id, name, args, result, error)``, as planners and task files see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.plans.plan_steps import ELICITATION, PlanQuestion
from agentnb.core.run.call_window import CallWindow, call_key
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.schema.json_schema import checked_schema
from agentnb.errors import SettingsError

StepResult: TypeAlias = dict[str, Any]
FIELDS = ("id", "name", "args", "result", "error")


def step_result(step: str, name: str, args: Any, result: Any = None, error: str | None = None) -> StepResult:
    """Return the result of a step."""
    return {"id": step, "name": name, "args": args, "result": result, "error": error}


def answer_result(step: str, question: PlanQuestion, answer: Mapping[str, Any]) -> StepResult:
    """Return what the person did with a question. ``answer``: ``{action, content}``, without content if they gave none.

    A text that answers a question without fields is the field ``answer`` of the content.
    """
    told = {key: value for key, value in answer.items() if value is not None}
    if isinstance(told.get("content"), str):
        told["content"] = {"answer": told["content"]}
    text = msgspec.json.encode(told).decode()
    return step_result(step, ELICITATION, {"message": question.data["message"]}, text)


def problem_of(question: PlanQuestion) -> str:
    """Return why a question cannot be asked; empty if it can be."""
    try:
        checked_schema(question.asked_schema, "requestedSchema", "")
    except SettingsError as error:
        return error.what
    return ""


def given_results(value: Any) -> list[StepResult]:
    """Return the results that an action was given; raise `SettingsError` for what are none."""
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    for one in items:
        if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
            raise SettingsError("results must hold results of steps", f"Write objects with {', '.join(FIELDS)}")
    return [{**dict.fromkeys(FIELDS), **one} for one in items]


def last_of_each_call(results: Sequence[StepResult]) -> list[StepResult]:
    """Return the last result of each call, in their order: what a planner is shown."""
    last = {_key(one): index for index, one in enumerate(results)}
    return [results[index] for index in sorted(last.values())]


def window_of(results: Iterable[StepResult]) -> CallWindow:
    """Return the window over the calls that these are the results of, for finding repeats."""
    window = CallWindow()
    for index, one in enumerate(results):
        if one["name"] != ELICITATION:
            call = ToolCall(one["name"], one["args"] or {}, str(index))
            (window.blocked if one["error"] == DUPLICATE else window.started)(call)
    return window


def recall_output(window: CallWindow, call: ToolCall, results: Callable[[], Sequence[StepResult]]) -> None:
    """Take into the window what the same call gave before, if it was made: a guard that blocks it tells that."""
    key = window.key_of(call)
    if key not in window.counts and key != window.row_key:
        return
    same = [one for one in results() if one["error"] != DUPLICATE and _key(one) == key]
    last = next((one for one in reversed(same) if one["error"] is None), same[-1] if same else None)
    if last is not None:
        failed = last["error"] is not None
        text = str(last["error"]) if failed else _text(last["result"])
        window.outputs[key] = ToolResult(call.id, call.name, (Text(text),), is_error=failed)


def last_output(results: Sequence[StepResult], call: ToolCall) -> Any:
    """Return the last output of the same call that succeeded; None if there is none."""
    key = call_key(call)
    same = [one for one in results if one["error"] is None and _key(one) == key]
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
