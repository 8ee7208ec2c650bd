"""The table of messages: one row per message of the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from agentnb.core.log.logged_messages import LoggedMessages
from agentnb.core.messages import Text, Thinking, ToolCall, ToolResult
from agentnb.core.run.facts import RunFacts
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(msgspec.Struct, gc=False):
    """The values of a message, collected in one pass over its parts. (A NamedTuple takes twice as long to create.)"""

    run_id: str
    position: int
    role: str
    author: str | None
    text: str
    thinking: str | None
    calls: int
    results: int
    inherited: bool


COLUMNS: list[Column[Row]] = columns_of("messages")


def _rows(run: LoggedMessages | RunFacts) -> Iterator[Row]:
    run_id, inherited = run.id, run.inherited
    for position, message in enumerate(chain(run.messages, run.pending)):
        texts, results, thinking, calls = [], [], None, 0
        for part in message.parts:
            if type(part) is Text:
                texts.append(part.text)
            elif type(part) is ToolCall:
                calls += 1
            elif type(part) is ToolResult:
                results.append(part.text)
            elif type(part) is Thinking and part.text:
                thinking = part.text if thinking is None else f"{thinking}\n\n{part.text}"
        own_text = "".join(texts)
        text = "\n".join([*results, own_text] if own_text else results)
        inherits = position < inherited
        yield Row(run_id, position, message.role, message.author or None, text, thinking, calls, len(results), inherits)


TABLE = Table("messages", COLUMNS, _rows, LoggedMessages)


def messages(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per stored message of the conversation, in order, including messages that have not been sent to
    the model yet.
    """
    return frame_of(source, TABLE, cache)
