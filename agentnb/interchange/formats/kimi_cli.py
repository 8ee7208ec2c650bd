"""Sessions of the Kimi CLI: the ``context.jsonl`` of a session, chat messages between checkpoints and counts of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import Text
from agentnb.detect.run import Run
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.content import time_of
from agentnb.interchange.formats.kimi_parts import kimi_parts
from agentnb.interchange.formats.session_log import Reply, SessionLog, count_of, first_records, known, text_of
from agentnb.interchange.trace_file import TraceFile

NAME = "kimi_cli"
TITLE = "session of the Kimi CLI"
RECORDS_END = "nothing"
_MARKS = frozenset({"_checkpoint", "_usage", "_system_prompt"})
_NOTICE = "<system>"
"""How a message begins that the product sends in the person's place, and a remark of a tool in its result."""
_ERROR = "<system>ERROR"


def sniff(file: TraceFile) -> str:
    """Return what the file lacks."""
    records = first_records(file)
    roles = [record.get("role") for record in records]
    fits = all(isinstance(role, str) for role in roles) and _MARKS.intersection(roles)
    return "" if fits else "its lines have no role such as _checkpoint or _usage"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the session."""
    log = SessionLog()
    system, checkpoints = [], 0
    for number, record in file.numbered():
        with file.guarded(f"line {number}"):
            role = record["role"]
            if role == "_system_prompt":
                system.append(text_of(record["content"]))
            elif role == "_usage":
                _count(log, record)
            elif role == "_checkpoint":
                checkpoints += 1
            else:
                _message(log, role, record)
    with file.guarded():
        writer = file.writer(NAME, settings={"recorded": known(checkpoints=checkpoints)})
        if system and system[0]:
            writer.system(system[0])
        yield log.write(writer)


def _count(log: SessionLog, record: dict[str, Any]) -> None:
    """Note how long the conversation was after the last reply: all of it, and not what a request cost."""
    last, tokens = log.last_reply, count_of(record.get("token_count"))
    if last is not None and tokens is not None:
        last.metadata["context_tokens"] = tokens


def _message(log: SessionLog, role: str, message: dict[str, Any]) -> None:
    parts, at = kimi_parts(message.get("content")), time_of(message.get("timestamp"))
    first = parts[0].text if parts and isinstance(parts[0], Text) else ""
    if role == "assistant":
        log.reply(Reply(parts, openai_chat.calls_of(message), at=at))
    elif role == "tool":
        code = "tool_error" if first.startswith(_ERROR) else None
        log.result(text_of(message.get("tool_call_id")), parts, error_code=code, at=at)
    elif role == "user":
        log.say(parts, author="kimi-cli" if first.startswith(_NOTICE) else text_of(message.get("name")), at=at)
    elif role == "system":
        log.say(parts, author="system", at=at)
    else:
        raise ValueError(f"the role {role!r} is unknown")
