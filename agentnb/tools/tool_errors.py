"""Error results of tool calls for the model, and tracebacks for the person."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from agentnb.core.messages import Text, ToolCall, encodable
from agentnb.core.questions import AskedQuestion, choice_in_words
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import LIMIT_REACHED, TIME_LIMIT
from agentnb.core.schema.nesting import MAX_DEPTH
from agentnb.errors import Declined, NestedTooDeep, NotAnswered, SettingsError, ToolFailed
from agentnb.tools.tool import ToolOutcome, failure

PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
CARRIERS = tuple(str(Path(inspect.getfile(module)).parent) + os.sep for module in (asyncio, concurrent.futures))
"""Libraries between agentnb and the person's code in tracebacks."""
RUN_FAILED, TOO_MANY_RUNS = "nested_run_failed", "too_many_nested_runs"
AFTER_RUN = {
    "limited": "Give it a smaller task, or finish the work yourself.",
    "stopped": "Give it a more precise task, or do the work without it.",
    "cancelled": "The person stopped it: do not call it again for this task unless they ask for it.",
}
"""Advice for the model after an incomplete nested run, by status."""
AFTER_FAILED_RUN = "Give it another prompt if that is the cause, or do the work without it."
LIBRARIES = tuple({path + os.sep for path in sysconfig.get_paths().values() if "lib" in path})


def from_exception(tool: str, error: BaseException) -> ToolOutcome:
    """Return the result for an exception in a tool."""
    words = encodable("".join(traceback.format_exception_only(error)).strip())
    advice = f"{tool} did not finish. Change the arguments if they are the cause, use another tool, or report the problem."
    return failure("tool_error", words, advice)


def too_deep(tool: str) -> ToolOutcome:
    """Return the result for arguments nested deeper than allowed."""
    return failure(
        "invalid_arguments",
        f"{tool} was not run: its arguments are nested deeper than {MAX_DEPTH} levels. Call it again with flatter "
        "arguments: encode the deep part as a JSON string, or split it across several calls.",
    )


def not_answered(error: NotAnswered) -> ToolOutcome:
    """Return the result for a tool whose question got no answer."""
    return failure("declined" if isinstance(error, Declined) else "nobody_to_ask", encodable(str(error)))


def timed_out(tool: str, seconds: float) -> ToolOutcome:
    """Return the result for a tool that exceeded its time limit."""
    return failure(
        "timeout",
        f"{tool} did not finish within {seconds:g} seconds; agentnb gave up. Request less at a time, or use another tool.",
    )


def cancelled() -> ToolOutcome:
    """Return the result for a call still running when the run was stopped."""
    return failure(
        "cancelled",
        "The run was stopped before this call ended. It may or may not have taken effect: check before you rely on it.",
    )


def out_of_time(of: Literal["run", "step"] = "run") -> ToolOutcome:
    """Return the result for a call still running at the time limit of its run or step."""
    return failure(
        TIME_LIMIT,
        f"The time limit of the {of} was reached before this call ended. It may or may not have taken effect: "
        "check before you rely on it.",
    )


def with_running_note(outcome: ToolOutcome) -> ToolOutcome:
    """Append a note that the function is still running."""
    return msgspec.structs.replace(outcome, parts=(*outcome.parts, Text("It may still be running.")))


def unstoppable_message(tools: Iterable[str]) -> str:
    """Return the message for the person about tools that cannot be stopped at once."""
    names = ", ".join(dict.fromkeys(tools))
    return (
        f"{names} could not be stopped at once: Python cannot interrupt calls such as time.sleep or a query. "
        "It may finish that call before it ends."
    )


def limit_reached() -> ToolOutcome:
    """Return the result for a call in the final answer, where no calls are allowed."""
    return failure(LIMIT_REACHED, "Not run: a limit of the run was reached, and the last reply cannot call tools.")


def interrupted(tool: str, asked: Iterable[AskedQuestion] = ()) -> ToolOutcome:
    """Return the result for a call still running when the process died. ``asked``: its questions to the person."""
    notice = (
        f"The process died while {tool} was running, and it was not run again. It may have taken effect fully, partly or "
        "not at all: check before you call it again."
    )
    return failure("interrupted", "\n".join([notice, *filter(None, map(_recorded_answer, asked))]))


def _recorded_answer(asked: AskedQuestion) -> str:
    """Return the person's answer as a sentence, so that the model need not ask again, or "" if there is none."""
    question = asked.question.message
    if asked.outcome == "cancelled":
        return f"The person closed this without deciding: {question}"
    if asked.outcome == "declined":
        return f"The person declined to answer: {question}"
    if asked.outcome != "answered":
        return ""
    return f"The person answered {choice_in_words(asked.answer)!r} to: {question}"


def inner_failed(tool: str, error: ToolFailed) -> ToolOutcome:
    """Return the result for a tool that did not handle the failure of a call it made."""
    return failure("tool_error", encodable(f"{tool} called another tool, which failed. {error}"))


def with_edit_note(outcome: ToolOutcome, call: ToolCall) -> ToolOutcome:
    """Prepend a note that the person changed the arguments, including the new ones."""
    arguments = msgspec.json.encode(call.arguments).decode()
    note = Text(f"The person changed the arguments before {call.name} ran. It ran with: {arguments}")
    return msgspec.structs.replace(outcome, parts=(note, *outcome.parts))


def users_traceback(error: BaseException) -> str:
    """Return the traceback of all errors in the chain, with only the person's frames and the last frame."""
    trace = traceback.TracebackException.from_exception(error)
    _leave_out_ours(trace, set())
    return encodable("".join(trace.format()))


def traceback_of_own_code(error: BaseException) -> str:
    """Like `users_traceback`, but returns "" if none of the person's code is involved."""
    frames = traceback.extract_tb(error.__traceback__)
    is_own = any(not frame.filename.startswith((PACKAGE, *CARRIERS, *LIBRARIES)) for frame in frames)
    return users_traceback(error) if is_own else ""


def _leave_out_ours(told: traceback.TracebackException, seen: set[int]) -> None:
    if id(told) in seen:
        return
    seen.add(id(told))
    frames = [frame for frame in told.stack if not frame.filename.startswith(PACKAGE)]
    while frames and frames[0].filename.startswith(CARRIERS):
        frames.pop(0)
    # Keep only the last frame of libraries called by the tool.
    frames = [frame for frame in frames[:-1] if not frame.filename.startswith(LIBRARIES)] + frames[-1:]
    told.stack = traceback.StackSummary.from_list(frames)
    for linked in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if linked is not None:
            _leave_out_ours(linked, seen)


def too_many_levels(name: str, most: int) -> ToolOutcome:
    """Return the error for a tool call nested too deeply in other tool calls."""
    return failure(
        "too_many_levels",
        f"{name} was not run: tool calls are nested {most} levels deep. Call it directly, or do the work without it.",
    )


def run_not_begun(tool: str, error: SettingsError) -> ToolOutcome:
    """Return the result for an agent or workflow tool whose run could not start."""
    advice = f"Do the work without {tool}, or report the problem."
    return failure(RUN_FAILED, encodable(f"The run of {tool} did not start: {error}"), advice)


def run_not_completed(tool: str, run: RunFacts) -> ToolOutcome:
    """Return the result for an agent or workflow tool whose run did not complete."""
    reason = f", stop reason {run.stop_reason}" if run.stop_reason else ""
    lines = [f"The run of {tool} did not complete: status {run.status}{reason}."]
    if run.error is not None:
        lines.append(f"Its error: {run.error.type}: {run.error.message}")
    if run.text:
        lines.append(f"Its last text: {run.text}")
    return failure(RUN_FAILED, encodable("\n".join(lines)), AFTER_RUN.get(run.status, AFTER_FAILED_RUN))


def too_many_nested_runs(tool: str, error: NestedTooDeep) -> ToolOutcome:
    """Return the result for a tool whose run would be nested too deeply."""
    return failure(
        TOO_MANY_RUNS,
        encodable(f"{tool} could not start a run. {error.what}."),
        "Do the work here, with other tools, or answer with what you have.",
    )
