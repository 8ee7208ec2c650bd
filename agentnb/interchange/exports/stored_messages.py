"""The messages of a run for an export, without what its reader filled in, and files of one run or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import Message, ToolResult
from agentnb.core.run.rounds import LOST
from agentnb.detect.run import Run


def conversation_of(run: Run) -> Iterator[Message]:
    """Yield the messages of a run, with the results of an open round so far, and without placeholders of its reader."""
    yield from without_filled((*run.messages, *_results_of_open_round(run), *run.pending))


def without_filled(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield these messages without the prompt and the results that a reader filled in."""
    for message in messages:
        if message.role == "tool":
            parts = tuple([part for part in message.parts if not is_filled(part)])
            if parts:
                yield replace(message, parts=parts)
        elif not message.is_placeholder:
            yield message


def is_filled(part: Any) -> bool:
    """Return whether this is a result that a reader filled in, because its trace had none."""
    return isinstance(part, ToolResult) and part.error_code == LOST


def _results_of_open_round(run: Run) -> Iterator[Message]:
    """Yield the results of the open round of a run that goes on: they become a message at its end."""
    if run.should_continue and run.open_round is not None and run.open_round.results:
        yield Message("tool", run.open_round.results)


def one_or_lines(runs: Iterable[Run], made_of: Callable[[Run], dict[str, Any]]) -> Iterator[bytes]:
    """Yield a file of one JSON document for one run, indented; JSON Lines for several, a run a line."""
    remaining = iter(runs)
    first, second = next(remaining, None), next(remaining, None)
    if first is not None and second is None:
        yield msgspec.json.format(msgspec.json.encode(made_of(first)), indent=2) + b"\n"
        return
    for run in (first, second):
        if run is not None:
            yield msgspec.json.encode(made_of(run)) + b"\n"
    for run in remaining:
        yield msgspec.json.encode(made_of(run)) + b"\n"
