"""Trajectories of mini-swe-agent, with bash blocks or, since version 2.0, tool calls.

Before version 2.0, an answer was rejected unless it had exactly one block, so the blocks of rejected answers are not calls.
Blocks are recognized by the two words that mini-swe-agent has used for them, never by the regular expression in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.endings import fail, finish_limited, recorded_settings
from agentnb.interchange.formats.message_content import (
    cost_of,
    first_at,
    parts_of,
    str_at,
    text_of,
    texts_of,
    time_at,
    time_of,
    value_at,
)
from agentnb.interchange.formats.steps import thinking
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

NAME = "mini_swe_agent"
TITLE = "trajectory of mini-swe-agent"
RECORDS_END = "`exit_status`, or the command that submits"
BASH = "bash"
"""Tool name for the call in a block."""
HARNESS = "mini-swe-agent"
"""Author of messages that reject an answer."""
_NEWER_WORD = "mswea_bash_command"
_BLOCKS = {word: re.compile(rf"```{word}\s*\n(.*?)\n```", re.DOTALL) for word in ("bash", _NEWER_WORD)}
_RETURNED = re.compile(r"<returncode>\s*(-?\d{1,10})\s*</returncode>")
_TIMED_OUT = ("The last command", "timed out")
_SUBMITS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_SNIFFED_MESSAGES = 20
"""Number of initial messages used to recognize a bare list."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    document = file.first if file.kind == "json" else None
    if isinstance(document, list):
        return "" if _is_conversation(document) else "its messages have no bash blocks and no return codes"
    if not isinstance(document, dict) or "messages" not in document:
        return file.lacks("messages", kind="json")
    info = document.get("info")
    has_format_name = str_at(document, "trajectory_format").startswith(HARNESS)
    return (
        ""
        if has_format_name or (isinstance(info, dict) and "mini_version" in info)
        else "it does not name a version of mini-swe-agent"
    )


def _is_conversation(messages: list[Any]) -> bool:
    """True if a bare list of messages, as written by early versions, has a block and a return code."""
    looked_at = [
        message
        for message in messages[:_SNIFFED_MESSAGES]
        if isinstance(message, dict) and isinstance(message.get("content"), str)
    ]
    return any(
        message.get("role") == "assistant"
        and after.get("role") == "user"
        and _RETURNED.match(after["content"])
        and any(block.search(message["content"]) for block in _BLOCKS.values())
        for message, after in pairwise(looked_at)
    )


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run."""
    document = file.document
    trajectory = document if isinstance(document, dict) else {"messages": document}
    yield from file.each([("", trajectory)], lambda position, one: _run(file, position, one))


def _run(file: TraceFile, position: str, about: dict[str, Any]) -> Run:
    info = about.get("info") or {}
    config = info.get("config") or {}
    model = config.get("model") or {}
    settings = recorded_settings(
        info, "exit_status", "submission", "model_stats", "mini_version", **_limits(config), environment=_environment(config)
    )
    writer = file.writer(
        NAME, position, task=str_at(about, "instance_id"), model=str_at(model, "model_name"), settings=settings
    )
    messages = about["messages"]
    reader = _MessageReader(writer, messages)
    file.take_each(messages, reader.take, position)
    writer.total(total_of(cost=value_at(info, "model_stats", "instance_cost")))
    if "exit_status" not in info and reader.submits:
        return writer.finish()
    return _finish(writer, info, _limits(config))


def _limits(config: dict[str, Any]) -> dict[str, Any]:
    agent = config.get("agent") or {}
    return {name: agent[name] for name in ("step_limit", "cost_limit") if agent.get(name)}


def _environment(config: dict[str, Any]) -> dict[str, Any]:
    environment = config.get("environment") or {}
    return {name: environment[name] for name in ("image", "cwd", "timeout") if name in environment}


class _MessageReader:
    """Adds the messages in a trajectory to a writer."""

    def __init__(self, writer: RunWriter, messages: list[dict[str, Any]]) -> None:
        self._writer = writer
        newer = any(_NEWER_WORD in str(message.get("content")) for message in messages if isinstance(message, dict))
        self._block = _BLOCKS[_NEWER_WORD if newer else "bash"]
        self._open = 0
        """Number of calls in the last reply that have no result yet."""
        self._asked = False
        self.submits = False
        """True if the last command submitted the work."""

    def take(self, message: dict[str, Any]) -> None:
        """Add a message."""
        extra = message.get("extra") or {}
        if message.get("type") == "function_call_output":
            self._result(str_at(message, "call_id"), message.get("output"), extra)
        elif message.get("object") == "response":
            self._response(message, extra)
        elif message["role"] == "system":
            self._writer.system(text_of(message.get("content")))
        elif message["role"] == "assistant":
            self._reply(message, extra)
        elif message["role"] == "tool":
            self._result(str_at(message, "tool_call_id"), message.get("content"), extra)
        elif message["role"] == "user":
            self._user(message, extra)

    def _reply(self, message: dict[str, Any], extra: dict[str, Any]) -> None:
        calls = openai_chat.calls_of(message)
        commands = [] if calls else self._commands(message, extra)
        self.submits = any(word in command for command in commands for word in _SUBMITS)
        calls = calls or [ToolCall(BASH, {"command": command}) for command in commands]
        parts = [*_thought(message, extra), *parts_of(message.get("content"))]
        self._say(parts, calls, extra)

    def _commands(self, message: dict[str, Any], extra: dict[str, Any]) -> list[str]:
        actions = extra.get("actions")
        if isinstance(actions, list):
            return [str(action["command"] if isinstance(action, dict) else action) for action in actions]
        blocks = self._block.findall(text_of(message.get("content")))
        return [blocks[0].strip()] if len(blocks) == 1 else []

    def _response(self, message: dict[str, Any], extra: dict[str, Any]) -> None:
        """Add a reply from the Responses API."""
        items = message["output"]
        calls = [
            ToolCall(item["name"], item.get("arguments"), str_at(item, "call_id"))
            for item in items
            if item["type"] == "function_call"
        ]
        parts: list[AnyPart] = []
        for item in items:
            if item["type"] == "reasoning":
                parts += [Thinking(str_at(summary, "text")) for summary in item.get("summary") or ()]
            elif item["type"] == "message":
                parts += parts_of(item.get("content"))
        usage = message.get("usage") or {}
        tokens = Usage(
            input=usage.get("input_tokens"),
            output=usage.get("output_tokens"),
            cost=cost_of(extra.get("cost", usage.get("cost"))),
        )
        self._open = len(calls)
        self._writer.reply(parts, calls, at=time_at(extra), usage=tokens)

    def _say(self, parts: list[AnyPart], calls: list[ToolCall], extra: dict[str, Any]) -> None:
        answer = object_of(extra.get("response"))
        usage = answer.get("usage") or {}
        self._open = len(calls)
        self._writer.reply(
            parts,
            calls,
            at=time_of(extra.get("timestamp") or answer.get("created")),
            usage=replace(openai_chat.usage_of(usage), cost=cost_of(extra.get("cost", usage.get("cost")))),
            stop_reason=str(openai_chat.first_choice(answer).get("finish_reason") or ""),
        )

    def _user(self, message: dict[str, Any], extra: dict[str, Any]) -> None:
        if self._open:
            self._result("", message.get("content"), extra)
            return
        author = HARNESS if self._asked else ""
        self._asked = True
        self._writer.say(parts_of(message.get("content")), author=author, at=time_at(extra))

    def _result(self, call_id: str, content: Any, extra: dict[str, Any]) -> None:
        parts = parts_of(content)
        code = _code(extra, texts_of(parts))
        self._open = max(0, self._open - 1)
        self._writer.result(call_id, parts, error_code=code, at=time_at(extra))


def _code(extra: dict[str, Any], text: str) -> str:
    """Return the error code of a result, such as ``timeout`` or ``exit_1``; empty if the command succeeded."""
    begins, says = _TIMED_OUT
    if (text.startswith(begins) and says in text) or says in str_at(extra, "exception_info"):
        return "timeout"
    match = _RETURNED.match(text)
    exit_code = extra.get("returncode", int(match[1]) if match else 0)
    return f"exit_{exit_code}" if exit_code else ""


def _thought(message: dict[str, Any], extra: dict[str, Any]) -> list[AnyPart]:
    """Return the thinking in the message or in the raw API response."""
    raw = openai_chat.first_choice(object_of(extra.get("response"))).get("message") or {}
    thoughts = (first_at(source, "reasoning_content", "reasoning") for source in (message, raw))
    return next(filter(None, map(thinking, thoughts)), [])


def _finish(writer: RunWriter, info: dict[str, Any], limits: dict[str, Any]) -> Run:
    status = str_at(info, "exit_status")
    if status == "Submitted":
        return writer.finish()
    if not status:
        return writer.finish_without_end()
    if status == "LimitsExceeded":
        stats = info.get("model_stats") or {}
        steps, cost = limits.get("step_limit"), limits.get("cost_limit")
        by_steps = isinstance(steps, int) and stats.get("api_calls", 0) >= steps
        return finish_limited(writer, "max_rounds", steps) if by_steps else finish_limited(writer, "budget", cost)
    if status in ("UserInterruption", "KeyboardInterrupt"):
        return writer.finish("cancelled", status)
    if status == "RepeatedFormatError":
        return writer.finish("stopped", status)
    return fail(writer, status, first_at(info, "exception_str", "traceback", "submission") or status)
