"""A sample in an Inspect log, as a run whose sub-agents are nested runs.

The run consists of the sample's messages. Its events add usage, times, tools and failed model calls. Model calls in an agent's
span (in early logs, in the events of a tool or subtask) whose replies are not among the messages belong to a sub-agent; its run
is the conversation of the last of these calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.endings import fail, finish_limited, recorded_settings
from agentnb.interchange.formats.inspect_messages import (
    Events,
    MessageReader,
    is_answer,
    resolve_attachments,
    tools_of,
    usage_of,
)
from agentnb.interchange.formats.message_content import first_at, str_at, time_at, time_of, value_at
from agentnb.interchange.formats.run_ids import nested_id, stable_id
from agentnb.interchange.trace_file import TraceFile

_LIMITS = {"token": "max_tokens", "time": "max_seconds", "working": "max_seconds", "cost": "budget", "message": "max_messages"}
"""agentnb's names for sample limits; other limits keep Inspect's."""
_GRADES = {"C": 1, "P": 0.5, "I": 0, "N": 0}
"""Values of Inspect's grades for correct, partially correct, incorrect and no answer."""
_OF_SAMPLE = ("scores", "target", "choices", "metadata", "limit", "error_retries", "model_usage", "total_time", "working_time")
_OF_EVAL = ("task", "task_id", "task_version", "eval_id", "run_id", "created", "solver", "task_args", "packages", "model_args")
_NESTED_IN = ("tool", "subtask")
"""Kinds of events in early logs that contain nested events."""


class Log(NamedTuple):
    """The data of a log that all its samples share."""

    format_name: str
    status: str
    model: str
    agent: str
    about: dict[str, Any]

    @classmethod
    def of(cls, format_name: str, header: dict[str, Any]) -> Log:
        """Read the header of a log."""
        evaluation = header["eval"]
        fields = {name: evaluation[name] for name in _OF_EVAL if evaluation.get(name)}
        agent, model = str(evaluation.get("solver") or "agent"), str_at(evaluation, "model")
        return cls(format_name, str(header.get("status") or "started"), model, agent, fields)


class _Sample(NamedTuple):
    """A sample and its position."""

    file: TraceFile
    log: Log
    position: str
    recorded: dict[str, Any]
    attachments: dict[str, str]

    def writer(self, events: Events, **about: Any) -> RunWriter:
        """Return a writer for a run of the sample that has the tools in these events."""
        return self.file.writer(
            self.log.format_name,
            self.position,
            task=str(self.recorded["id"]),
            trial=str(self.recorded.get("epoch", "")),
            benchmark=self.log.about.get("task"),
            tools=tools_of(events, self.attachments),
            **about,
        )

    def last_conversation(self, events: Events) -> list[Any]:
        """Return the input of the last model call, followed by its reply."""
        if not events.models:
            return []
        last = events.models[-1]
        inputs = last.get("input") or []
        if last.get("input_refs"):  # later logs store shared messages once
            pool = (self.recorded.get("events_data") or {}).get("messages") or []
            inputs = [message for first, end in last["input_refs"] for message in pool[first:end]]
        reply = events.reply_of(last)
        conversation: list[Any] = resolve_attachments([*inputs, *([reply] if reply is not None else [])], self.attachments)
        return conversation


@dataclass(slots=True)
class _Scope:
    """An agent seen in the events, with its model calls and tool calls."""

    name: str
    recorded_id: str
    parent: _Scope | None = None
    events: Events = field(default_factory=Events)


def read_sample(file: TraceFile, log: Log, position: str, sample: dict[str, Any]) -> Iterator[Run]:
    """Yield the run of a sample, followed by those of its sub-agents."""
    attachments = sample.get("attachments") or (sample.get("transcript") or {}).get("content") or {}
    source = _Sample(file, log, position, sample, attachments)
    messages = resolve_attachments(sample["messages"], attachments) or []
    scopes = _scopes(_events_of(sample))
    main = scopes[0]
    if not any(scope.events.models for scope in scopes) and isinstance(output := sample.get("output"), dict):
        main.events.models.append({"output": output})  # the log only has the last model call
    messages = messages or source.last_conversation(main.events)
    nested: list[_Scope] = []
    for scope in scopes[1:]:
        if scope.events.is_in(messages, attachments):
            main.events.merge(scope.events)
        elif scope.events.models:
            nested.append(scope)
    run_id = stable_id(file, position, sample["id"], sample.get("epoch"), sample.get("uuid")) if nested else ""
    settings = recorded_settings(sample, *_OF_SAMPLE, eval=log.about | {"status": log.status}, sample_uuid=sample.get("uuid"))
    writer = source.writer(main.events, run_id=run_id, model=log.model, agent=log.agent, settings=settings)
    has_prompt = any(value_at(message, "role") == "user" for message in messages)
    if isinstance(sample.get("input"), str) and not has_prompt:
        writer.say(resolve_attachments(sample["input"], attachments))
    began = time_at(sample, "started_at") or _time_of_event(sample, 0)
    reader = MessageReader(writer, main.events, attachments, began)
    file.take_each(messages, reader.take, position)
    used = sample.get("model_usage")
    if isinstance(used, dict) and not nested and len(used) == 1:  # otherwise they include sub-agents and graders
        writer.total(usage_of(next(iter(used.values()))))
    yield _finish(writer, log, sample, messages)
    ids = {id(main): run_id}
    for number, scope in enumerate(nested, 1):
        ids[id(scope)] = nested_id(run_id, scope.recorded_id, number)
        parent = scope.parent
        while parent is not None and id(parent) not in ids:
            parent = parent.parent
        yield _nested_run(source, scope, run_id=ids[id(scope)], parent_id=ids[id(parent or main)])


def _nested_run(sample: _Sample, scope: _Scope, **about: str) -> Run:
    """Return the run of a sub-agent."""
    last = scope.events.models[-1]
    model = str(last.get("model") or sample.log.model)
    writer = sample.writer(scope.events, model=model, agent=scope.name or "agent", **about)
    reader = MessageReader(writer, scope.events, sample.attachments)
    position = f"{sample.position} {scope.name}".strip()
    sample.file.take_each(sample.last_conversation(scope.events), reader.take, position)
    return fail(writer, "model", last["error"]) if last.get("error") else writer.finish_without_end()


def _scopes(events: list[Any]) -> list[_Scope]:
    """Return the agents seen in the events, starting with the sample's own, whose parent is None."""
    main = _Scope("", "")
    spans: dict[str, _Scope] = {}
    scopes = [main]

    def add(name: str, recorded_id: str, parent: _Scope) -> _Scope:
        scopes.append(_Scope(name, recorded_id, parent))
        return scopes[-1]

    def walk(inner: list[Any], around: _Scope) -> None:
        for event in inner:
            kind = value_at(event, "event")
            if kind == "span_begin":
                outer = spans.get(event.get("parent_id") or "", around)
                is_agent = event.get("type") == "agent"
                spans[event["id"]] = add(str_at(event, "name"), event["id"], outer) if is_agent else outer
                continue
            scope = spans.get((event.get("span_id") if kind else "") or "", around)
            if kind == "model":
                scope.events.models.append(event)
            if kind == "tool":
                scope.events.add_tool(event)
            if kind in _NESTED_IN and event.get("events"):
                name = str(first_at(event, "function", "name") or kind)
                walk(event["events"], add(name, str_at(event, "id"), scope))

    walk(events, main)
    return scopes


def _finish(writer: RunWriter, log: Log, sample: dict[str, Any], messages: list[Any]) -> Run:
    _assess(writer, sample.get("scores"))
    at, seconds = time_at(sample, "completed_at") or _time_of_event(sample, -1), sample.get("total_time")
    error, limit = sample.get("error"), sample.get("limit")
    if error:
        details = error if isinstance(error, dict) else {"message": error}
        return fail(writer, _class_of(details), details.get("message"), at=at, seconds=seconds)
    if value_at(limit, "type") == "operator":
        return writer.finish("cancelled", "operator", at=at, seconds=seconds)
    if isinstance(limit, dict):
        kind = str(limit.get("type") or "limit")
        return finish_limited(writer, _LIMITS.get(kind, kind), limit.get("limit"), at=at, seconds=seconds)
    if log.status == "success" or sample.get("scores") or sample.get("completed_at"):
        answered = is_answer(messages[-1] if messages else {})
        return writer.finish("completed", "natural" if answered else "", at=at, seconds=seconds)
    if log.status == "cancelled" and not is_answer(messages[-1] if messages else {}):
        return writer.finish("cancelled", "cancelled", at=at)
    return writer.finish_without_end(at=at, seconds=seconds)


def _assess(writer: RunWriter, scores: Any) -> None:
    """Add the scores of a sample, by scorer. A score with several values has no outcome."""
    for name, score in scores.items() if isinstance(scores, dict) else ():
        value = score.get("value") if isinstance(score, dict) else score
        writer.assess(str(name), _GRADES.get(value, value) if isinstance(value, str) else value)


def _events_of(sample: dict[str, Any]) -> list[Any]:
    """Return the events of a sample; in logs from 2024, they are in a transcript."""
    return sample.get("events") or (sample.get("transcript") or {}).get("events") or []


def _time_of_event(sample: dict[str, Any], index: int) -> datetime | None:
    events = _events_of(sample)
    return time_of(value_at(events[index], "timestamp")) if events else None


def _class_of(error: dict[str, Any]) -> str:
    """Return the class of an error from the last line of its traceback."""
    lines = str_at(error, "traceback").strip().splitlines()
    name = lines[-1].partition(":")[0].strip().rpartition(".")[2] if lines else ""
    return name if name.isidentifier() else "Error"
