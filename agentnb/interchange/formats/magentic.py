"""Conversations of Magentic-One, including those in which Who&When attributes the mistake.

Roles name the speaker and the kind of message: ``Orchestrator (thought)`` is thinking, ``Orchestrator (-> WebSurfer)`` speaks
to another agent, and ``Orchestrator (termination condition)`` gives the reason for the end. There are no tool calls or times.
The Who&When data set also has conversations between named agents whose code runs in a terminal.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from agentnb.core.log.event import Status
from agentnb.core.messages import Text, Thinking
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.message_content import str_at
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

NAME = "magentic"
TITLE = "conversation of Magentic-One or Who&When"
RECORDS_END = "the termination condition"
MAX_LITERAL_CHARACTERS = 1_000_000
"""Maximum characters of a literal that is parsed, since a syntax tree takes seventy times the memory; longer ones stay text."""
TERMINAL = "Computer_terminal"
_ROLE = re.compile(r"(?P<who>[^()]+?) *\((?P<how>->|thought|termination condition) *(?P<to>[^()]*)\)")
_ENDS: tuple[tuple[str, Status, str], ...] = (
    ("Max rounds", "limited", "max_rounds"),
    ("Max turns", "limited", "max_rounds"),
    ("Max time", "limited", "max_seconds"),
    ("No agent selected", "completed", "natural"),
    ("Request satisfied", "completed", "natural"),
)
"""The ends of runs, by the beginning of the termination condition."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    if file.kind != "json":
        return "it is not a single JSON document"
    document = file.first
    history = document.get("history") if isinstance(document, dict) else document
    if (
        not isinstance(history, list)
        or not history
        or not all(isinstance(message, dict) and "role" in message for message in history)
    ):
        return "it has no history of messages with roles"
    if isinstance(document, dict) and "mistake_step" in document:
        return ""
    has_known_role = any(message["role"] == "human" or _ROLE.fullmatch(str(message["role"])) for message in history)
    return "" if has_known_role else "it has no role such as human or Orchestrator (thought)"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the conversation."""
    yield from file.each([("", file.document)], lambda position, found: _run(file, position, found))


def _run(file: TraceFile, position: str, found: Any) -> Run:
    recorded = {name: value for name, value in object_of(found).items() if name != "history"}
    prompts = _literal(recorded.pop("system_prompt", None))
    writer = file.writer(
        NAME, position, task=str_at(recorded, "question_ID"), settings={"recorded": recorded} if recorded else {}
    )
    if prompts:
        writer.system("\n\n".join(f"# {name}\n\n{text}" for name, text in prompts.items()))
    writer.assess("is_correct", recorded.get("is_correct"))
    end: tuple[Status, str] | None = None
    for index, message in enumerate(found["history"] if isinstance(found, dict) else found):
        end = _take(writer, message, index) or end
    return writer.finish(*end) if end is not None else writer.finish_without_end()


def _take(writer: RunWriter, message: dict[str, Any], index: int) -> tuple[Status, str] | None:
    """Add a message to the writer, and return how the run ended if the message says so."""
    role, content = str(message["role"]), str(message["content"])
    match = _ROLE.fullmatch(role)
    if match is None:
        author = str(message.get("name") or ("" if role == "human" else role))
        if role == "human" or author == TERMINAL or (not index and "name" in message):
            writer.say(content, author=author)  # the first message of named agents is the task
        else:
            writer.reply(content, author=author)
        return None
    thinks = match["how"] == "thought"
    metadata = {"to": match["to"]} if match["to"] else {}
    writer.reply([Thinking(content) if thinks else Text(content)], author=match["who"], metadata=metadata)
    if match["how"] != "termination condition":
        return None
    return next(((status, reason) for begins, status, reason in _ENDS if content.startswith(begins)), None)


def _literal(text: Any) -> dict[str, str]:
    """Parse the system prompts of the agents from a Python literal, without evaluating code."""
    if isinstance(text, str) and len(text) > MAX_LITERAL_CHARACTERS:
        return {"all": text}
    try:
        value = ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {"all": text}
    return value if isinstance(value, dict) else {}
