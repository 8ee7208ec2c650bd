"""Trajectories in ATIF, Harbor's interchange format, versions 1.0 to 1.7.

An agent step holds its message, its calls and their results. Trajectories of sub-agents within the file are nested runs. Steps
copied from an earlier trajectory are the run's history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from agentnb.core.messages import AnyPart, Text, ToolCall
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.endings import recorded_settings
from agentnb.interchange.formats.message_content import (
    cost_of,
    first_at,
    parts_of,
    picture,
    str_at,
    texts_of,
    time_at,
    utc_time_of,
    value_at,
)
from agentnb.interchange.formats.run_ids import nested_id, stable_id
from agentnb.interchange.formats.steps import thinking
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

NAME = "atif"
TITLE = "ATIF trajectory"
RECORDS_END = "`stop_reason` in the `extra` of the last step"
ENVIRONMENT = "environment"
"""Author of an observation without a call."""
_SOUND = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_RECORDED = ("schema_version", "session_id", "notes", "final_metrics", "extra", "continued_trajectory_ref")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    missing = file.lacks("schema_version", "agent", "steps")
    return missing or (
        "" if str(file.first["schema_version"]).startswith("ATIF") else "its schema_version is not an ATIF version"
    )


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each trajectory, followed by the runs of its sub-agents."""
    for position, record in file.positioned_records():
        with file.guard(position):
            yield from with_nested_usage(_runs(file, position, record, _own_id(record) or stable_id(file, position), None))


def _own_id(record: dict[str, Any]) -> str:
    """Return the trajectory's own id if it is a valid run id."""
    own_id = str_at(record, "trajectory_id", "session_id")
    return own_id if _SOUND.match(own_id) else ""


def _runs(file: TraceFile, position: str, record: dict[str, Any], run_id: str, parent_id: str | None) -> Iterator[Run]:
    agent = record["agent"]
    steps = _in_time(record["steps"])
    copied = max((index for index, step in enumerate(steps, 1) if value_at(step, "is_copied_context")), default=0)
    writer = file.writer(
        NAME,
        position,
        run_id=run_id,
        parent_id=parent_id,
        agent=str(agent.get("name") or "agent"),
        model=str(agent.get("model_name") or next(_models(steps), "")),
        tools=openai_chat.tools_of(agent.get("tool_definitions")),
        settings=recorded_settings(record, *_RECORDED, agent_version=agent.get("version"), agent_extra=agent.get("extra")),
    )
    file.take_each(steps[:copied], lambda step: _take(writer, step), position, "step")
    writer.mark_copied()
    file.take_each(steps[copied:], lambda step: _take(writer, step), position, "step", copied)
    if isinstance(sums := record.get("final_metrics"), dict):
        sent, received = sums.get("total_prompt_tokens"), sums.get("total_completion_tokens")
        cached, cost = sums.get("total_cached_tokens"), sums.get("total_cost_usd")
        total = total_of(sent=sent, received=received, cache_read=cached, cost=cost)
        writer.total(total, has_nested_cost=bool(record.get("subagent_trajectories")))
    if parent_id is None:
        for name, reward in _rewards_beside(file).items():
            writer.assess(name, reward)
    yield writer.finish_without_end()
    for number, inner in enumerate(record.get("subagent_trajectories") or (), 1):
        inner_id = nested_id(run_id, first_at(inner, "trajectory_id", "session_id"), number)
        yield from _runs(file, position, inner, inner_id, run_id)


def _rewards_beside(file: TraceFile) -> dict[str, Any]:
    """Return the rewards that Harbor's verifier stored in the trial folder, the parent of the trajectory's folder."""
    result = file.beside("../result.json")
    if result is not None and isinstance(rewards := value_at(result.first, "verifier_result", "rewards"), dict):
        return rewards
    if (reward_file := file.beside("../verifier/reward.json")) is not None and isinstance(reward_file.first, dict):
        return reward_file.first
    text = file.beside("../verifier/reward.txt")
    try:
        return {} if text is None else {"reward": float(text.start)}
    except ValueError:
        return {}


def _in_time(steps: list[Any]) -> list[Any]:
    """Return the steps in chronological order, because Harbor writes calls without results after all others."""
    if not any(_is_unanswered(step) for step in steps):
        return steps
    kept: list[tuple[datetime | None, Any]] = []
    late: list[tuple[datetime, Any]] = []
    newest: datetime | None = None
    for step in steps:
        at = utc_time_of(value_at(step, "timestamp"))
        if at is not None and newest is not None and at < newest and _is_unanswered(step):
            late.append((at, step))
            continue
        kept.append((at, step))
        newest = at if newest is None or (at is not None and at > newest) else newest
    late.sort(key=lambda one: one[0], reverse=True)
    ordered = []
    for at, step in kept:
        while late and at is not None and late[-1][0] < at:
            ordered.append(late.pop()[1])
        ordered.append(step)
    return ordered


def _is_unanswered(step: Any) -> bool:
    return isinstance(step, dict) and bool(step.get("tool_calls")) and not step.get("observation")


def _models(steps: list[Any]) -> Iterator[str]:
    return (str(name) for step in steps if (name := value_at(step, "model_name")))


def _take(writer: RunWriter, step: dict[str, Any]) -> None:
    source, at, parts = step["source"], time_at(step), _content(step.get("message") or None)
    results = (step.get("observation") or {}).get("results") or []
    if source == "system":
        if parts:
            writer.system(texts_of(parts))
    elif source == "user":
        writer.say(parts, at=at)
    else:
        _reply(writer, step, parts)
    calls = step.get("tool_calls") or []
    failed = len(results) == 1 and _says_failed(step)
    for result in results:
        call_id, content = str_at(result, "source_call_id"), _observation_parts(result)
        if call_id or calls:
            writer.result(call_id, content, is_error=failed, at=at)
        elif content:
            writer.say(content, author="system" if source == "system" else ENVIRONMENT, at=at)


def _says_failed(step: dict[str, Any]) -> bool:
    """True if the step records a failed call. ATIF has no field for this; Harbor adds one for Claude Code."""
    return value_at(step, "extra", "tool_result_is_error") is True


def _reply(writer: RunWriter, step: dict[str, Any], parts: list[AnyPart]) -> None:
    calls = [
        ToolCall(call["function_name"], call.get("arguments"), str_at(call, "tool_call_id"))
        for call in step.get("tool_calls") or ()
    ]
    metadata = {name: step[name] for name in ("model_name", "reasoning_effort") if step.get(name)}
    usage = _usage(object_of(step.get("metrics")))
    stop = value_at(step, "extra", "stop_reason")  # ATIF has no field for it
    writer.reply(
        [*thinking(step.get("reasoning_content")), *parts],
        calls,
        at=time_at(step),
        usage=usage,
        stop_reason=stop if isinstance(stop, str) else "",
        metadata=metadata,
    )


def _observation_parts(result: dict[str, Any]) -> list[AnyPart]:
    """Return the content of a result, with a line for each sub-agent trajectory that it refers to."""
    parts = _content(result.get("content"))
    for reference in result.get("subagent_trajectory_ref") or ():
        name = first_at(reference, "trajectory_id", "session_id", "trajectory_path") or ""
        parts.append(Text(f"[trajectory of a sub-agent: {name}]"))
    return parts


def _content(content: Any) -> list[AnyPart]:
    """Return the parts of a message: text or, since version 1.6, a list with images (files next to the trajectory)."""
    if not isinstance(content, list):
        return parts_of(content)
    parts: list[AnyPart] = []
    for part in content:
        source = part.get("source") if isinstance(part, dict) and part.get("type") == "image" else None
        if isinstance(source, dict):
            data = picture(source.get("media_type"), source["data"]) if source.get("data") else None
            parts.append(data or Text(f"[picture: {str(source.get('path') or '')[:200]}]"))
        else:
            parts += parts_of([part])
    return parts


def _usage(metrics: Mapping[str, Any]) -> Usage:
    return Usage(
        input=metrics.get("prompt_tokens"),
        output=metrics.get("completion_tokens"),
        cache_read=metrics.get("cached_tokens"),
        cost=cost_of(metrics.get("cost_usd")),
    )
