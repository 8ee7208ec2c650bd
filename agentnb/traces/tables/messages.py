"""The table of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.messages import Message, ToolResult
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import COUNTED, Column, table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A message, its position, and whether it is inherited from the continued conversation."""

    run_id: str
    position: int
    message: Message
    inherited: bool


def _text(message: Message) -> str:
    results = [part.text for part in message.parts if isinstance(part, ToolResult)]
    return "\n".join([*results, message.text] if message.text else results)


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run_id, "The run", "event.run_id"),
    Column("position", "int64", lambda row: row.position, "Place in the conversation", COUNTED, "from 0"),
    Column("role", "str", lambda row: row.message.role, "Role: user, assistant or tool", "the message"),
    Column(
        "author",
        "str",
        lambda row: row.message.author or None,
        "Who wrote it, where several speakers share a conversation",
        "the message",
    ),
    Column(
        "text",
        "str",
        lambda row: _text(row.message),
        "Its text, without thinking; of a tool message, the text of its results",
        "run_started.prompt, model_replied.message, tool_finished.result, command_received.message",
    ),
    Column("tool_calls", "int64", lambda row: len(row.message.calls), "Tool calls in it", COUNTED, "calls"),
    Column(
        "tool_results",
        "int64",
        lambda row: sum(isinstance(part, ToolResult) for part in row.message.parts),
        "Tool results in it",
        COUNTED,
        "results",
    ),
    Column(
        "inherited",
        "bool",
        lambda row: row.inherited,
        "Whether it belongs to the conversation that the run continues",
        "run_started.history",
    ),
]


def messages(source: RunSource) -> pd.DataFrame:
    """Return one row per stored message of the conversation, in order."""
    return table(
        (
            Row(run.id, index, message, index < run.inherited)
            for run in load_traces(source)
            for index, message in enumerate(run.messages)
        ),
        COLUMNS,
    )
