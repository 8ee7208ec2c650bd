"""The messages of a run for an export, without filled gaps, and files that hold one or several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import Message, ToolResult
from agentnb.core.run.rounds import LOST
from agentnb.detect.run import Run


def conversation_of(run: Run) -> Iterator[Message]:
    """Yield the messages of a run, including the results so far of an open round, but no placeholders."""
    yield from drop_placeholders((*run.messages, *_results_of_open_round(run), *run.pending))


def drop_placeholders(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield these messages, leaving out placeholder prompts and results."""
    for message in messages:
        if message.role == "tool":
            parts = tuple([part for part in message.parts if not is_placeholder_result(part)])
            if parts:
                yield replace(message, parts=parts)
        elif not message.is_placeholder:
            yield message


def is_placeholder_result(part: Any) -> bool:
    """True if this is a placeholder for a result that the trace lacked."""
    return isinstance(part, ToolResult) and part.error_code == LOST


def _results_of_open_round(run: Run) -> Iterator[Message]:
    """Yield the results of an unfinished run's open round; they become a message when the round ends."""
    if run.should_continue and run.open_round is not None and run.open_round.results:
        yield Message("tool", run.open_round.results)


def json_or_lines(runs: Iterable[Run], made_of: Callable[[Run], dict[str, Any]]) -> Iterator[bytes]:
    """Yield an indented JSON document if there is one run, or JSON Lines for several."""
    remaining = iter(runs)
    first = [*islice(remaining, 2)]
    if len(first) == 1:
        yield msgspec.json.format(msgspec.json.encode(made_of(first[0])), indent=2) + b"\n"
        return
    for run in chain(first, remaining):
        yield msgspec.json.encode(made_of(run)) + b"\n"
