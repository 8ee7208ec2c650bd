"""Sessions of docker-agent (cagent): JSON, or its SQLite database.

Messages are doubly nested (``messages[].message.message``); a sub-session is a nested run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import Text
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats.message_content import cost_of, first_at, parts_of, time_at, value_at
from agentnb.interchange.formats.openai_chat import calls_of
from agentnb.interchange.formats.session_log import (
    Reply,
    SessionLog,
    add_cache_to_input,
    count_of,
    drop_empty,
    run_id_of,
    text_at,
)
from agentnb.interchange.formats.steps import thinking
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.sqlite_files import columns, database
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

if TYPE_CHECKING:
    import sqlite3

NAME = "docker_agent"
TITLE = "session of docker-agent"
RECORDS_END = "nothing"
_MAX_NESTING = 20
_ABOUT = ("title", "working_dir", "input_tokens", "output_tokens", "cost", "max_iterations", "tools_approved", "evals")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    if file.kind == "sqlite":
        return _sniff_database(file)
    if lack := file.lacks("id", "messages", kind="json"):
        return lack
    items = file.document["messages"]
    fits = isinstance(items, list) and any(isinstance(item, dict) and _is_item(item) for item in items[:5])
    return "" if fits else "its messages are not nested in messages"


def _is_item(item: dict[str, Any]) -> bool:
    return isinstance(value_at(item, "message", "message"), dict) or "sub_session" in item


def _sniff_database(file: TraceFile) -> str:
    try:
        with database(file) as connection:
            if not {"id", "created_at"} <= columns(connection, "sessions"):
                return "it has no table of sessions with id and created_at"
            has_items = {"session_id", "message_json", "item_type"} <= columns(connection, "session_items")
            if has_items or "messages" in columns(connection, "sessions"):
                return ""
            return "it has no table session_items with message_json, and its sessions have no messages"
    except TraceError as error:
        return f"it is a database that cannot be read ({error.what})"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each session, followed by the runs of its sub-sessions."""
    if file.kind == "sqlite":
        with database(file) as connection:
            yield from _sessions(file, connection)
        return
    with file.guard():
        yield from with_nested_usage(_runs(file, file.document, "", None, 0))


def _runs(file: TraceFile, session: dict[str, Any], position: str, parent: str | None, depth: int) -> Iterator[Run]:
    if depth > _MAX_NESTING:
        raise ValueError(f"its sub-sessions are nested deeper than {_MAX_NESTING}")
    run_id = run_id_of(text_at(session, "id"))
    inner: list[tuple[str, dict[str, Any]]] = []
    tools: dict[str, ToolSpec] = {}
    log, recorded = SessionLog(), drop_empty(**{name: session.get(name) for name in _ABOUT})
    for index, item in enumerate(session["messages"]):
        item_position = f"{position or 'message'} {index}"
        with file.guard(item_position):
            if isinstance(item.get("sub_session"), dict):
                inner.append((item_position, item["sub_session"]))
            elif text_at(item, "summary"):
                log.compact(item["summary"])
            elif item.get("message") is not None:
                tools |= _message(log, item["message"])
    if not log.items and not inner:  # opened and closed without a message
        file.note("It contains no messages", position)
        return
    spoke = [reply.author for reply in log.replies if reply.author]
    fields: dict[str, Any] = {"agent": spoke[0]} if spoke else {}
    settings, model = {"recorded": recorded}, log.model
    ids: dict[str, Any] = {"run_id": run_id, "parent_id": parent, "tools": tools.values()}
    system = _take_system(log)
    writer = file.writer(NAME, position, model=model, settings=settings, **ids, **fields)
    if system:
        writer.system(system)
    total = total_of(cost=session.get("cost"))  # its token counts are of the last response only
    writer.total(total, has_nested_cost=bool(inner))
    run = log.write(writer, model)
    yield run
    for item_position, sub_session in inner:
        with file.guard(item_position):
            yield from _runs(file, sub_session, item_position, run.id, depth + 1)


def _message(log: SessionLog, wrapped: dict[str, Any]) -> dict[str, ToolSpec]:
    """Add a message, and return the tool definitions in it by name."""
    message, author = wrapped["message"], text_at(wrapped, "agentName", "agent_name")
    role, at = message["role"], time_at(message, "created_at")
    parts = parts_of(first_at(message, "multi_content", "content") or None)
    if role == "user":
        log.say(parts, author="docker-agent" if wrapped.get("implicit") and log.items else "", at=at)
    elif role == "system":
        log.say(parts, author="system", at=at)
    elif role == "assistant":
        thought_and_text = [*thinking(message.get("reasoning_content")), *parts]
        usage, model = _usage(message), text_at(message, "model")
        log.reply(Reply(thought_and_text, calls_of(message), author, at, usage, model=model))
    elif role == "tool":
        code = "tool_error" if message.get("is_error") is True else None
        log.result(text_at(message, "tool_call_id"), parts, error_code=code, at=at)
    else:
        raise ValueError(f"the role {role!r} is unknown")
    return {
        definition["name"]: ToolSpec(definition["name"], text_at(definition, "description"), definition.get("parameters") or {})
        for definition in message.get("tool_definitions") or ()
    }


def _take_system(log: SessionLog) -> str:
    """Remove the system messages at the start of the log, and return them."""
    texts = []
    while log.items and getattr(log.items[0], "author", "") == "system":
        texts += [part.text for part in log.items.pop(0).parts if isinstance(part, Text)]  # type: ignore[union-attr]
    return "\n\n".join(texts)


def _usage(message: dict[str, Any]) -> Usage:
    """Return the usage of a reply. docker-agent does not include cache reads and writes in its input."""
    usage = object_of(message.get("usage"))
    counts = add_cache_to_input(usage, "input_tokens", "output_tokens", "cached_input_tokens", "cached_write_tokens")
    return replace(counts, reasoning=count_of(usage.get("reasoning_tokens")), cost=cost_of(message.get("cost")) or None)


# The database


def _sessions(file: TraceFile, opened: sqlite3.Connection) -> Iterator[Run]:
    """Yield the runs of all top-level sessions in order of creation."""
    session_columns, item_columns = columns(opened, "sessions"), columns(opened, "session_items")
    query = "SELECT DISTINCT subsession_id FROM session_items WHERE subsession_id IS NOT NULL"
    inner = {row[0] for row in opened.execute(query)} if "subsession_id" in item_columns else set()
    parents = "parent_id" if "parent_id" in session_columns else "NULL"
    rows = opened.execute(f"SELECT id, {parents} FROM sessions ORDER BY created_at, id").fetchall()
    ids = {row[0] for row in rows} - {None}  # a damaged session without an id is nobody's parent
    outer = [session_id for session_id, parent in rows if session_id not in inner and parent not in ids]
    if not outer:
        file.note("Its sessions all contain each other" if rows else "It contains no sessions")
    for session_id in outer:
        position = f"session {session_id}"
        with file.guard(position):
            yield from with_nested_usage(_runs(file, _session(file, opened, session_id, ()), position, None, 0))


def _session(file: TraceFile, opened: sqlite3.Connection, session_id: str, above: tuple[str, ...]) -> dict[str, Any]:
    """Return a session, with its sub-sessions, in the form of the document. Unreadable items become problems."""
    if session_id in above:
        raise ValueError(f"the session {session_id} contains itself")
    row = opened.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise ValueError(f"there is no session {session_id}")
    session = dict(row)
    if "session_id" not in columns(opened, "session_items"):
        return session | {"messages": msgspec.json.decode(row["messages"] or "[]")}
    order = "position" if "position" in columns(opened, "session_items") else "rowid"
    items = opened.execute(f"SELECT * FROM session_items WHERE session_id = ? ORDER BY {order}", (session_id,))
    messages: list[Any] = []
    for index, item in enumerate(items.fetchall()):
        with file.guard(f"session {session_id}, item {index}"):
            messages.append(_item(file, opened, dict(item), (*above, session_id)))
    if not messages and session.get("messages"):
        messages = msgspec.json.decode(session["messages"])
    return session | {"messages": messages}


def _item(file: TraceFile, opened: sqlite3.Connection, item: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
    if item.get("subsession_id"):
        return {"sub_session": _session(file, opened, item["subsession_id"], above)}
    if not item.get("message_json"):
        return {"summary": item.get("summary_text")}
    message = msgspec.json.decode(item["message_json"])
    if isinstance(value_at(message, "message"), dict):  # nested, as in the document
        return {"message": message}
    fields = {"agentName": item.get("agent_name"), "implicit": bool(item.get("implicit"))}
    return {"message": {**fields, "message": message}}
