"""Kimi CLI sessions: the ``context.jsonl`` of a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import Text
from agentnb.detect.run import Run
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.kimi_parts import kimi_parts
from agentnb.interchange.formats.message_content import time_at
from agentnb.interchange.formats.session_log import Reply, SessionLog, count_of, drop_empty, first_records, text_at, text_of
from agentnb.interchange.trace_file import TraceFile

NAME = "kimi_cli"
TITLE = "session of the Kimi CLI"
RECORDS_END = "nothing"
_MARKS = frozenset({"_checkpoint", "_usage", "_system_prompt"})
_NOTICE = "<system>"
"""Start of a user message that the product generated, or of a tool's remark in its result."""
_ERROR = "<system>ERROR"


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    records = first_records(file)
    roles = [record.get("role") for record in records]
    fits = all(isinstance(role, str) for role in roles) and _MARKS.intersection(roles)
    return "" if fits else "its lines have no role such as _checkpoint or _usage"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the session."""
    log = SessionLog()
    system, checkpoints = [], 0
    for number, record in file.numbered_records():
        with file.guard(f"line {number}"):
            role = record["role"]
            if role == "_system_prompt":
                system.append(text_of(record["content"]))
            elif role == "_usage":
                _count(log, record)
            elif role == "_checkpoint":
                checkpoints += 1
            else:
                _message(log, role, record)
    with file.guard():
        writer = file.writer(NAME, settings={"recorded": drop_empty(checkpoints=checkpoints)})
        if system and system[0]:
            writer.system(system[0])
        yield log.write(writer)


def _count(log: SessionLog, record: dict[str, Any]) -> None:
    """Record the length of the conversation after the last reply. The count covers the context, not the usage of a request."""
    last, tokens = log.last_reply, count_of(record.get("token_count"))
    if last is not None and tokens is not None:
        last.metadata["context_tokens"] = tokens


def _message(log: SessionLog, role: str, message: dict[str, Any]) -> None:
    parts, at = kimi_parts(message.get("content")), time_at(message)
    first = parts[0].text if parts and isinstance(parts[0], Text) else ""
    if role == "assistant":
        log.reply(Reply(parts, openai_chat.calls_of(message), at=at))
    elif role == "tool":
        code = "tool_error" if first.startswith(_ERROR) else None
        log.result(text_at(message, "tool_call_id"), parts, error_code=code, at=at)
    elif role == "user":
        log.say(parts, author="kimi-cli" if first.startswith(_NOTICE) else text_at(message, "name"), at=at)
    elif role == "system":
        log.say(parts, author="system", at=at)
    else:
        raise ValueError(f"the role {role!r} is unknown")
