"""SWE-agent trajectories, with a ``history`` and a ``trajectory``.

Newer files have tool calls with ids. In older ones, an action is a shell command; it becomes a call of ``bash``, and the next
message is its result. The last result is read from the trajectory, and so are any steps that the history lacks, such as an
action that was rejected and retried.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from agentnb.core.messages import Message, Text, ToolCall, encodable
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.endings import fail, finish_limited, recorded_settings
from agentnb.interchange.formats.message_content import first_at, parts_of, str_at, text_of, texts_of, value_at
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile

NAME = "swe_agent"
TITLE = "trajectory of SWE-agent"
RECORDS_END = "`exit_status`"
BASH = "bash"
"""Tool name for an action that is not a tool call."""
DEMONSTRATION = "demonstration"
"""Author of messages that show the agent how to work."""
_LIMITS = {
    "exit_cost": "budget",
    "exit_context": "context",
    "exit_total_execution_time": "max_seconds",
    "exit_command_timeout": "max_seconds",
}
_FAILED = frozenset({"exit_api", "exit_environment_error", "exit_error", "early_exit"})


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    document = file.first if file.kind == "json" else None
    if not isinstance(document, dict):
        return file.lacks("trajectory", kind="json")
    steps, history = document.get("trajectory"), document.get("history")
    if isinstance(steps, list) and steps:
        first = steps[0]
        return "" if isinstance(first, dict) and {"action", "observation"} <= first.keys() else "its steps have no action"
    if not isinstance(history, list) or not history:
        return "it has no trajectory"
    info = document.get("info")
    return (
        ""
        if isinstance(info, dict) and isinstance(history[0], dict) and "role" in history[0]
        else "its history has no info beside it"
    )


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run."""
    yield from file.each([("", file.document)], lambda position, one: _Reader(file, one).read())


class _Reader:
    """Reads one trajectory."""

    def __init__(self, file: TraceFile, one: dict[str, Any]) -> None:
        self._file = file
        self._info: dict[str, Any] = one.get("info") or {}
        self._steps: list[dict[str, Any]] = one.get("trajectory") or []
        self._history: list[dict[str, Any]] = one.get("history") or (self._steps[0].get("query") if self._steps else None) or []
        self._step = 0
        """Number of trajectory steps added so far."""
        self._open = 0
        """Number of calls that have no result yet."""
        self._agent = next((str(message["agent"]) for message in self._history if _has(message, "agent")), "agent")
        self._writer = file.writer(
            NAME,
            task=_task(one, file.name),
            agent=self._agent,
            model=str(_replay_setting(one, "agent", "model", "name") or ""),
            settings=recorded_settings(
                self._info, "exit_status", "submission", "model_stats", "swe_agent_version", environment=one.get("environment")
            ),
            history=tuple(_demonstration_message(message) for message in self._history if _has(message, "is_demo")),
        )

    def read(self) -> Run:
        """Return the run."""
        self._file.take_each(self._history, self._take)
        while self._step < len(self._steps):
            self._add_retried_step()
        self._last_result()
        stats = self._info.get("model_stats")
        if isinstance(stats, dict):
            cost = first_at(stats, "instance_cost", "total_cost")
            self._writer.total(total_of(sent=stats.get("tokens_sent"), received=stats.get("tokens_received"), cost=cost))
        return _finish(self._writer, self._info)

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("is_demo"):
            return
        role, parts = message["role"], parts_of(message.get("content"))
        if role == "system":
            self._writer.system(texts_of(parts))
        elif role == "assistant":
            self._reply(message)
        elif role == "tool" or (role == "user" and self._open):
            ids = message.get("tool_call_ids") or [message.get("tool_call_id") or ""]
            self._result(str(ids[0] or ""), parts)
        else:
            self._writer.say(parts, author=self._author(message))

    def _reply(self, message: dict[str, Any]) -> None:
        self._last_result()
        action = str_at(message, "action")
        at = next((at for at in range(self._step, len(self._steps)) if _same(self._steps[at], action)), None)
        while at is not None and self._step < at:
            self._add_retried_step()
        calls = openai_chat.calls_of(message) or _call(action)
        self._open = len(calls)
        self._step += at is not None
        thoughts = [{"type": "thinking", **block} for block in message.get("thinking_blocks") or ()]
        self._writer.reply([*parts_of(thoughts), *parts_of(message.get("content"))], calls, author=self._author(message))

    def _add_retried_step(self) -> None:
        """Add a step that the history lacks."""
        step = self._steps[self._step]
        self._last_result()
        self._step += 1
        calls = _call(str_at(step, "action"))
        self._writer.reply(parts_of(first_at(step, "response", "thought")), calls)
        if calls:
            self._open = 1
            self._result("", parts_of(step.get("observation")))

    def _last_result(self) -> None:
        """Add a call's result from its step, if no message has it."""
        if self._open and 0 < self._step <= len(self._steps):
            self._result("", parts_of(self._steps[self._step - 1].get("observation")))
        self._open = 0

    def _result(self, call_id: str, parts: Any) -> None:
        self._open = max(0, self._open - 1)
        step = self._steps[self._step - 1] if 0 < self._step <= len(self._steps) else {}
        self._writer.result(call_id, parts, seconds=step.get("execution_time"))

    def _author(self, message: dict[str, Any]) -> str:
        agent = str_at(message, "agent")
        return "" if agent == self._agent else agent


def _has(message: Any, name: str) -> bool:
    return isinstance(message, dict) and bool(message.get(name))


def _replay_setting(one: dict[str, Any], *names: str) -> Any:
    """Return a value from the replay configuration, which is an object or its JSON."""
    config = one.get("replay_config")
    if isinstance(config, str):
        config = msgspec.json.decode(config)
    return value_at(config, *names)


def _task(one: dict[str, Any], name: str) -> str:
    """Return the task id from the replay configuration or, if it has none, the file name."""
    task_id = _replay_setting(one, "problem_statement", "id")
    return str(task_id or name.replace("\\", "/").rpartition("/")[2].removesuffix(".gz").removesuffix(".traj"))


def _demonstration_message(message: dict[str, Any]) -> Message:
    text = Text(encodable(text_of(message.get("content"))))
    return Message("assistant" if message["role"] == "assistant" else "user", (text,), DEMONSTRATION)


def _same(step: dict[str, Any], action: str) -> bool:
    return str_at(step, "action").strip() == action.strip()


def _call(action: str) -> list[ToolCall]:
    return [ToolCall(BASH, {"command": action.strip()})] if action.strip() else []


def _finish(writer: RunWriter, info: dict[str, Any]) -> Run:
    """Return the run. An exit status such as ``submitted (exit_cost)`` states why it was submitted early."""
    status = str_at(info, "exit_status")
    reason = status.removeprefix("submitted (").removesuffix(")")
    if status == "submitted":
        return writer.finish()
    if not status:
        return writer.finish_without_end()
    if reason in _LIMITS:
        return finish_limited(writer, _LIMITS[reason])
    if reason in _FAILED or "error" in reason:
        return fail(writer, reason, f"SWE-agent ended with {status}")
    return writer.finish("stopped", reason)
