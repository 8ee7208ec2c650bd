"""GitHub Copilot CLI sessions: JSON Lines of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.messages import AnyPart, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats.message_content import parts_of, time_at, value_at
from agentnb.interchange.formats.session_log import (
    Reply,
    SessionLog,
    count_of,
    drop_empty,
    first_records,
    run_id_of,
    seconds_of,
    sort_by_links,
    text_at,
    text_of,
)
from agentnb.interchange.formats.steps import thinking
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

NAME = "copilot_cli"
TITLE = "session of the GitHub Copilot CLI"
RECORDS_END = "`abort`, `session.error`"
_KINDS = ("session.", "user.", "assistant.", "tool.", "system.", "hook.", "subagent.", "abort")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    records = first_records(file, 5)
    fits = [isinstance(record.get("data"), dict) and text_at(record, "type").startswith(_KINDS) for record in records]
    return "" if any(fits[:1]) or sum(fits) > 1 else "it has no events such as session.start with data"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the session, followed by those of its sub-agents."""
    session = _Session()
    for number, record in sort_by_links(file.numbered_records(), _links):
        with file.guard(f"line {number}"):
            session.take(number, record)
    yield from with_nested_usage(session.runs(file))


def _links(record: dict[str, Any]) -> tuple[str, str]:
    return text_at(record, "id"), text_at(record, "parentId")


@dataclass(slots=True, eq=False)
class _Agent:
    """The log of the session, or of a sub-agent that one of its calls started."""

    line: int
    call_id: str = ""
    name: str = ""
    log: SessionLog = field(default_factory=SessionLog)
    recorded: dict[str, Any] = field(default_factory=dict)


class _Session:
    """The session so far."""

    def __init__(self) -> None:
        self._main = _Agent(1)
        self._subagents: dict[str, _Agent] = {}
        self._calls: dict[str, ToolCall] = {}
        self._names: dict[str, str] = {}
        """Sub-agent names, by the calls that started them."""
        self._system = self._model = ""
        self._thought: list[AnyPart] = []

    def take(self, line: int, record: dict[str, Any]) -> None:
        """Add an event."""
        kind, data, at = record["type"], record["data"], time_at(record)
        agent = self._agent(line, text_at(data, "parentToolCallId"))
        if kind == "user.message":
            self._user(agent, data, at)
        elif kind == "assistant.reasoning":
            self._thought = [Thinking(text_at(data, "content"))]
        elif kind == "assistant.message":
            self._reply(agent, data, at)
        elif kind == "tool.execution_complete":
            self._result(agent, data, at)
        elif kind == "system.message":
            self._system = self._system or text_at(data, "content")
        elif kind == "system.notification":
            agent.log.say(text_at(data, "content"), author="copilot-cli", at=at)
        elif kind == "subagent.started":
            self._names[text_at(data, "toolCallId")] = text_at(data, "agentName") or "subagent"
        elif kind == "abort":
            agent.log.interrupt(f"[Aborted: {text_of(data.get('reason')) or 'by the user'}]", at)
        elif kind == "session.error":
            agent.log.fail(text_at(data, "message") or "Copilot reported an error", at)
        elif text_of(kind).startswith("session."):
            self._about(kind, data)
            if kind == "session.compaction_complete" and text_at(data, "summaryContent"):
                self._main.log.compact(data["summaryContent"], at=at)

    def _agent(self, line: int, call_id: str) -> _Agent:
        """Return the agent that is speaking. A sub-agent whose call is not in the file speaks in the session, under its own
        name.
        """
        if not call_id or call_id not in self._calls:
            return self._main
        if call_id not in self._subagents:
            agent = _Agent(line, call_id, self._names.get(call_id, "subagent"))
            arguments = self._calls[call_id].arguments
            if isinstance(arguments, dict) and text_at(arguments, "prompt"):
                agent.log.say(arguments["prompt"])
            self._subagents[call_id] = agent
        return self._subagents[call_id]

    def _user(self, agent: _Agent, data: dict[str, Any], at: Any) -> None:
        parts = parts_of(data["content"])
        names = [text_at(attachment, "path", "displayName") for attachment in data.get("attachments") or ()]
        agent.log.say([*parts, *parts_of([f"\n[attached: {name}]" for name in names if name])], at=at)

    def _reply(self, agent: _Agent, data: dict[str, Any], at: Any) -> None:
        parts = [*(thinking(data.get("reasoningText")) or self._thought), *parts_of(data.get("content"))]
        self._thought = []
        calls = []
        for request in data.get("toolRequests") or ():
            call = ToolCall(request["name"], request.get("arguments"), text_at(request, "toolCallId"))
            calls.append(call)
            if call.id != data.get("parentToolCallId"):
                self._calls[call.id] = call
        speaker = self._names.get(text_at(data, "parentToolCallId"), "") if agent is self._main else ""
        usage = Usage(input=count_of(data.get("inputTokens")), output=count_of(data.get("outputTokens")) or None)
        model = text_at(data, "model") or self._model
        agent.log.reply(Reply(parts, calls, speaker, at, usage, model=model))

    def _result(self, agent: _Agent, data: dict[str, Any], at: Any) -> None:
        result = data.get("result")
        content = result.get("content") if isinstance(result, dict) else result
        content = content or value_at(data, "error", "message")
        metrics = (data.get("toolTelemetry") or {}).get("metrics") or {}
        code = text_of(value_at(data, "error", "code")) or "tool_error"
        agent.log.result(
            text_at(data, "toolCallId"),
            parts_of(content),
            error_code=code if data.get("success") is False else None,
            at=at,
            seconds=seconds_of(metrics.get("durationMs")),
        )

    def _about(self, kind: str, data: dict[str, Any]) -> None:
        recorded, context = self._main.recorded, object_of(data.get("context"))
        if kind in ("session.start", "session.resume"):
            session = drop_empty(
                session=data.get("sessionId"),
                version=data.get("copilotVersion"),
                cwd=context.get("cwd"),
                git_branch=context.get("branch"),
                repository=context.get("repository"),
            )
            recorded |= {name: value for name, value in session.items() if name not in recorded}
            recorded["resumed"] = recorded.get("resumed", 0) + (kind == "session.resume")
            self._model = self._model or text_at(data, "selectedModel")
        elif kind == "session.model_change":
            self._model = text_at(data, "newModel") or self._model
        elif kind in ("session.shutdown", "session.truncation", "session.compaction_complete"):
            recorded.setdefault(kind.removeprefix("session."), []).append(_plain(data))

    def runs(self, file: TraceFile) -> Iterator[Run]:
        """Yield the run of the session, followed by those of its sub-agents."""
        session = run_id_of(text_at(self._main.recorded, "session"))
        with file.guard():
            position = "line 1" if self._subagents else ""
            yield self._write(file, self._main, position, run_id=session, system=self._system)
        for call_id, agent in self._subagents.items():
            with file.guard(f"line {agent.line}"):
                run_id = run_id_of(session, call_id)
                fields: dict[str, Any] = {"run_id": run_id, "parent_id": session or None, "agent": agent.name}
                yield self._write(file, agent, f"line {agent.line}", **fields)

    def _write(self, file: TraceFile, one: _Agent, position: str, system: str = "", **about: Any) -> Run:
        model = one.log.model or self._model
        writer = file.writer(NAME, position, model=model, settings={"recorded": one.recorded}, **about)
        if system:
            writer.system(system)
        return one.log.write(writer, model)


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """Return the counts recorded when a session ended or was compacted, leaving out the texts."""
    return {name: value for name, value in data.items() if not isinstance(value, str) or len(value) < 200}
