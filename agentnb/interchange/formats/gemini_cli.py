"""Gemini CLI sessions: a JSON document, or JSON Lines.

In JSON Lines, a changed message is repeated, ``$set`` updates the session's metadata, and ``$rewindTo`` removes messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.interchange.formats.message_content import as_list, parts_of, picture, texts_of, time_at, value_at
from agentnb.interchange.formats.session_log import Reply, SessionLog, count_of, drop_empty, run_id_of, text_at
from agentnb.interchange.trace_file import TraceFile

NAME = "gemini_cli"
TITLE = "session of the Gemini CLI"
RECORDS_END = "a cancellation, an error"
_CANCELLED = "Request cancelled"
_MODEL = frozenset({"gemini", "model", "assistant"})
_CODES = {"error": "tool_error", "cancelled": "cancelled"}
"""The error code for each status of a failed call."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    keys = ("sessionId", "projectHash", "messages") if file.kind == "json" else ("sessionId", "projectHash")
    return file.lacks(*keys)


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the session."""
    session: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    for number, record in file.numbered_records():
        with file.guard(f"line {number}" if file.kind == "lines" else ""):
            _take(record, session, messages)
    with file.guard():
        yield _run(file, session, messages)


def _take(record: dict[str, Any], about: dict[str, Any], messages: dict[str, Any]) -> None:
    """Apply a record: a session, a message, or a change to earlier records."""
    if "$rewindTo" in record:
        ids = list(messages)
        gone = ids[ids.index(record["$rewindTo"]) :] if record["$rewindTo"] in ids else []
        for message_id in gone:
            del messages[message_id]
        about["messages_taken_back"] = about.get("messages_taken_back", 0) + len(gone)
        return
    is_session = "sessionId" in record and "type" not in record
    session = record.get("$set", record if is_session else None)
    if session is None:
        messages[str(record["id"])] = record
        return
    about |= {name: value for name, value in session.items() if name != "messages"}
    if isinstance(session.get("messages"), list):
        messages.clear()
        messages |= {str(message.get("id") or index): message for index, message in enumerate(session["messages"])}
    elif "messages" in session:
        raise TypeError("its messages must be a list")


def _run(file: TraceFile, about: dict[str, Any], messages: dict[str, Any]) -> Run:
    log = SessionLog()
    for position, message in messages.items():
        with file.guard(f"message {position}"):
            _message(log, message)
    recorded = drop_empty(
        session=about.get("sessionId"),
        project=about.get("projectHash"),
        kind=about.get("kind"),
        summary=about.get("summary"),
        directories=about.get("directories"),
        messages_taken_back=about.get("messages_taken_back"),
    )
    extra: dict[str, Any] = {"agent": "subagent"} if about.get("kind") == "subagent" else {}
    run_id, model = run_id_of(text_at(about, "sessionId")), log.model
    return log.write(file.writer(NAME, run_id=run_id, model=model, settings={"recorded": recorded}, **extra), model)


def _message(log: SessionLog, message: dict[str, Any]) -> None:
    kind, at = message["type"], time_at(message)
    parts = _parts(message.get("content"))
    text = texts_of(parts)
    if kind == "user":
        log.say(parts, at=at)
    elif kind in _MODEL:
        _reply(log, message, parts, at)
    elif text.startswith(_CANCELLED):
        log.interrupt(text, at)
    elif kind == "error":
        log.fail(text, at)
    elif text:
        log.warn(text, at)


def _reply(log: SessionLog, message: dict[str, Any], parts: list[AnyPart], at: Any) -> None:
    thoughts = [_thought(item) for item in message.get("thoughts") or ()]
    tool_calls = message.get("toolCalls") or []
    calls = [ToolCall(item["name"], item.get("args"), text_at(item, "id")) for item in tool_calls]
    usage, model = _usage(message.get("tokens")), text_at(message, "model")
    log.reply(Reply([*thoughts, *parts], calls, at=at, usage=usage, model=model))
    for item in tool_calls:
        if item.get("result") is None and item.get("status") not in ("success", *_CODES):
            continue  # still running
        content = _parts(item.get("result")) or parts_of(text_at(item, "resultDisplay") or None)
        code, when = _CODES.get(text_at(item, "status")), time_at(item)
        log.result(text_at(item, "id"), content, name=item["name"], error_code=code, at=when)


def _thought(one: dict[str, Any]) -> Thinking:
    texts = [text_at(one, "subject"), text_at(one, "description")]
    return Thinking(": ".join(filter(None, texts)))


def _parts(content: Any) -> list[AnyPart]:
    """Return the parts of message content in Google's API: text, a part, or a list of these."""
    if content is None or isinstance(content, str):
        return parts_of(content)
    parts: list[AnyPart] = []
    for item in as_list(content):
        data = value_at(item, "inlineData")
        answer = value_at(item, "functionResponse")
        if isinstance(data, dict):
            image = picture(data.get("mimeType"), data.get("data"))
            parts += [image] if image is not None else []
        elif isinstance(answer, dict):
            parts += _answer(answer.get("response"))
        elif value_at(item, "thought") is True:
            parts.append(Thinking(text_at(item, "text")))
        else:
            parts += parts_of([item])
    return parts


def _answer(response: Any) -> list[AnyPart]:
    output = response.get("output", response.get("error")) if isinstance(response, dict) else response
    return parts_of(output) if isinstance(output, str) else [Text(str(output if output is not None else response or ""))]


def _usage(tokens: Any) -> Usage:
    """Return the usage. Unlike the Gemini CLI, agentnb includes thinking in the output."""
    if not isinstance(tokens, dict):
        return UNKNOWN
    output, thoughts = count_of(tokens.get("output")), count_of(tokens.get("thoughts"))
    return Usage(
        input=count_of(tokens.get("input")),
        output=None if output is None else output + (thoughts or 0),
        cache_read=count_of(tokens.get("cached")),
        reasoning=thoughts,
    )
