"""Results of tau2-bench, with tasks and simulations; each simulation is a run.

The simulated user may call tools as well. The agent never sees these calls and results. They are kept as messages whose authors
are ``user`` and the tool, such as ``user's toggle_data``. Messages before the user's first message are the run's history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import Message, Text, ToolCall, encodable
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.endings import fail, finish_limited, recorded_settings
from agentnb.interchange.formats.message_content import cost_of, parts_of, str_at, time_at, value_at
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

NAME = "tau2_bench"
TITLE = "results of tau2-bench"
RECORDS_END = "`termination_reason`"
USER = "user"
_ENDED = frozenset({"user_stop", "agent_stop"})
_LIMITS = {"max_steps": "max_rounds", "timeout": "max_seconds"}
_RECORDED = ("reward_info", "termination_reason", "agent_cost", "user_cost", "seed", "mode", "review", "auth_classification")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    return file.lacks("simulations", kind="json") or (
        "" if isinstance(file.first["simulations"], list) else "its simulations are not a list"
    )


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each simulation."""
    reader = _Reader(file, object_of(file.first.get("info")))
    yield from file.each(file.items("simulations"), reader.read)


class _Reader:
    """Reads simulations, along with their shared metadata."""

    def __init__(self, file: TraceFile, info: Mapping[str, Any]) -> None:
        self._file = file
        agent, environment = info.get("agent_info") or {}, info.get("environment_info") or {}
        self._model = str_at(agent, "llm")
        self._agent = str(agent.get("implementation") or "agent")
        self._policy = str_at(environment, "policy")
        self._tools = openai_chat.tools_of(environment.get("tool_defs"))
        self._about = {"domain": environment.get("domain_name"), "user_model": (info.get("user_info") or {}).get("llm")}

    def read(self, position: str, one: dict[str, Any]) -> Run:
        """Return the run of a simulation."""
        messages = one["messages"]
        first = next((at for at, message in enumerate(messages) if _speaks(message)), 0)
        writer = self._file.writer(
            NAME,
            position,
            task=str(one["task_id"]),
            benchmark=self._about["domain"],
            trial=str(one.get("trial", "")),
            model=self._model,
            agent=self._agent,
            tools=self._tools,
            settings=recorded_settings(one, *_RECORDED, **self._about, simulation=one.get("id")),
            history=tuple(_earlier(message) for message in messages[:first]),
        )
        writer.system(str(one.get("policy") or self._policy))
        self._file.take_each(messages[first:], lambda message: _take(writer, message), position)
        writer.total(total_of(cost=one.get("agent_cost")))
        return self._finish(writer, one)

    def _finish(self, writer: RunWriter, one: dict[str, Any]) -> Run:
        writer.assess("reward", value_at(one, "reward_info", "reward"))
        reason, at, seconds = str_at(one, "termination_reason"), time_at(one, "end_time"), one.get("duration")
        if reason in _ENDED:
            return writer.finish(at=at, seconds=seconds)
        if reason in _LIMITS:
            return finish_limited(writer, _LIMITS[reason], at=at, seconds=seconds)
        if "error" in reason:
            return fail(writer, reason, f"tau2-bench ended the simulation: {reason}", at=at, seconds=seconds)
        return writer.finish("stopped", reason, at=at, seconds=seconds) if reason else writer.finish_without_end()


def _speaks(message: dict[str, Any]) -> bool:
    """True if this is a user message with text."""
    return message["role"] == "user" and bool(message.get("content"))


def _earlier(message: dict[str, Any]) -> Message:
    """Return a message that precedes the prompt."""
    is_agent = message["role"] == "assistant"
    return Message(
        "assistant" if is_agent else "user", (Text(encodable(_message_text(message))),), "" if is_agent else _author(message)
    )


def _message_text(message: dict[str, Any]) -> str:
    calls = (f"(calls {call['name']} {json.dumps(call.get('arguments'), ensure_ascii=False)})" for call in _calls(message))
    return "\n".join(filter(None, (str_at(message, "content"), *calls)))


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message.get("tool_calls") or []


def _author(message: dict[str, Any]) -> str:
    if message["role"] != "tool":
        return USER
    return f"{USER}'s tool"


def _take(writer: RunWriter, message: dict[str, Any]) -> None:
    for item in message.get("tool_messages") or (message,):  # one message may hold results of parallel calls
        role, at = item["role"], time_at(item)
        if role == "assistant":
            calls = [ToolCall(call["name"], call.get("arguments"), str_at(call, "id")) for call in _calls(item)]
            parts = parts_of(item.get("content"))
            writer.reply(parts, calls, at=at, usage=_usage(item), seconds=item.get("generation_time_seconds"))
        elif role == "tool" and item.get("requestor") != USER:
            code = "tool_error" if item.get("error") is True else None
            writer.result(str_at(item, "id"), parts_of(item.get("content")), error_code=code, at=at)
        elif role == "system":
            writer.system(str_at(item, "content"))
        else:
            writer.say(_message_text(item), author=_author(item), at=at)


def _usage(message: dict[str, Any]) -> Usage:
    usage, cost = openai_chat.usage_of(message.get("usage")), cost_of(message.get("cost"))
    has_usage = message.get("usage") is not None  # scripted messages have a cost of 0.0
    return replace(usage, cost=cost) if cost is not None and has_usage else usage
