"""Results of tau-bench: a list of records, each of which is a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.endings import fail, finish_limited, recorded_settings
from agentnb.interchange.formats.message_content import parts_of, str_at, time_at, value_at
from agentnb.interchange.trace_file import TraceFile

NAME = "tau_bench"
TITLE = "results of tau-bench"
RECORDS_END = "the reward, the last message, an error"
STOP = "###STOP###"
"""Final message of the simulated user."""
LAST_TOOLS = frozenset({"transfer_to_human_agents"})
"""Tools that end the conversation when they are called."""
MAX_STEPS = 30
"""Number of replies after which tau-bench ends a conversation."""
ERROR = "Error:"
"""Beginning of a failed call's result."""
_KEYS = {"task_id", "reward", "traj"}


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    first = file.first_record
    missing = _KEYS - first.keys() if isinstance(first, dict) else _KEYS
    return f"its records have no {', '.join(sorted(missing))}" if missing else ""


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each record."""

    def read_one(position: str, record: dict[str, Any]) -> Run:
        task, trial = str(record["task_id"]), str(record.get("trial", ""))
        settings = recorded_settings(record, "reward", "info", "records")
        writer = file.writer(NAME, position, task=task, trial=trial, benchmark=None, settings=settings)
        messages = record["traj"]
        file.take_each(messages, lambda message: _take(writer, message), position)
        return _finish(writer, record, [message for message in messages if isinstance(message, dict)])

    yield from file.each(file.positioned_records(), read_one)


def _take(writer: RunWriter, message: dict[str, Any]) -> None:
    if message["role"] != "tool":
        openai_chat.take_message(writer, message)
        return
    parts = parts_of(message.get("content"))
    failed = isinstance(message.get("content"), str) and message["content"].startswith(ERROR)
    writer.result(
        str_at(message, "tool_call_id"),
        parts,
        name=str_at(message, "name"),
        error_code="tool_error" if failed else None,
        at=time_at(message),
    )


def _finish(writer: RunWriter, record: dict[str, Any], messages: list[dict[str, Any]]) -> Run:
    """Return the run, ended by the user, the agent's tool, the limit on replies, or an error.

    Any other end can be inferred only from the reward, which is assigned once the episode is over.
    """
    writer.assess("reward", record.get("reward"))
    if error := value_at(record, "info", "error"):
        return fail(writer, "tau-bench", error)
    last = messages[-1] if messages else {}
    if last.get("role") == "user" and STOP in str(last.get("content")):
        return writer.finish()
    if last.get("role") == "tool" and str(last.get("name")) in LAST_TOOLS:
        return writer.finish()
    if sum(message.get("role") == "assistant" for message in messages) >= MAX_STEPS:
        return finish_limited(writer, "max_rounds", MAX_STEPS)
    return writer.finish_without_end(is_over=record.get("reward") is not None)
