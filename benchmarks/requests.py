"""What preparing a request costs at round 500, beside round 50: the conversation must not cost more the longer it is.

Usage: python benchmarks/requests.py
Each number is the median, over some runs, of a ratio of two medians within one run. Goal: at most 1.1.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from agentnb.context.compaction import why_due
from agentnb.context.history_settings import AUTO, FULL, History
from agentnb.context.request_builder import RequestBuilder
from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, ToolCall, ToolResult, user
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.tools.read_result import SPEC

ROUNDS, EARLY, LATE, AROUND = 540, 50, 500, 30
GOAL = 1.1
WINDOW = 10_000_000
"""Tokens: so many that no conversation here is compacted for its length, though it is counted."""
REPEATS = 15
SETTINGS = {
    "full": FULL,
    "auto, tokens reported": History(share=0.8, window=WINDOW),
    "auto, tokens estimated": History(share=0.8, window=WINDOW),
    "auto, window unknown": AUTO,
    "truncated to 40 messages": History(max_messages=40),
    "compacted above 30 messages": History(compact_above=30, max_messages=40),
    "failed rounds left out": History(failed_rounds_above=20),
}


def rounds(reported: bool, failing: bool) -> Iterator[list[Any]]:
    """The events of each round: up to where its request is due, then what came of it."""
    at, seq = datetime.now(UTC), 0

    def make(kind: type[e.Event], **fields: Any) -> Any:
        nonlocal seq
        seq += 1
        return kind(seq=seq - 1, at=at, run_id="r", **fields)

    yield [make(e.RunStarted, schema=e.SCHEMA, prompt=user("go"), model="scripted:bench")]
    for index in range(ROUNDS):
        call = ToolCall("look", {"n": index}, f"c{index}")
        message = Message("assistant", (Text("I look at the next one."), call))
        usage = Usage(input=100 + index, output=20, cost=0.0) if reported else Usage()
        result = ToolResult(call.id, "look", (Text("What there is to see. " * 40),), is_error=failing and index % 7 == 3)
        yield [make(e.RoundStarted, index=index, reason="tool_results" if index else "prompt")]
        yield [
            make(e.ModelReplied, message=message, usage=usage),
            make(e.ToolStarted, call=call),
            make(e.ToolFinished, result=result),
            make(e.RoundFinished, index=index, status="success"),
        ]


def prepare(conversation: RequestBuilder, history: History, run: Run) -> None:
    """All that stands between a round's beginning and the call of the model."""
    if history.compacts:
        conversation.take_in(run)
        tokens = conversation.tokens(run) if history.window else None
        if why_due(history, len(conversation.messages), tokens, history.window) is not None:
            start = len(conversation.messages) - history.keep_recent
            run._compacted = Compacted(1, conversation.place_of(start - start % 2 + 1), 20, "A summary of what was before.")
    conversation.request(run, "This is round 7 of 50.")


def seconds_of_each(name: str, history: History) -> list[float]:
    """What each round of one run took to prepare."""
    parts = rounds(reported="reported" in name, failing="failed" in name)
    (started,) = next(parts)
    run, conversation, taken = Run.from_events([started]), RequestBuilder("Be brief.", (SPEC,), {}, history=history), []
    for begun in parts:
        for event in begun:
            run.apply(event)
        before = time.perf_counter()
        prepare(conversation, history, run)
        taken.append(time.perf_counter() - before)
        for event in next(parts):
            run.apply(event)
    return taken


def main() -> int:
    """Print a line a setting; 1 if the goal is missed."""
    failed = False
    for name, history in SETTINGS.items():
        ratios = []
        for _ in range(REPEATS):
            gc.collect()
            gc.disable()
            taken = seconds_of_each(name, history)
            gc.enable()
            early, late = (statistics.median(taken[place - AROUND : place + AROUND]) for place in (EARLY, LATE))
            ratios.append(late / early)
        ratio = statistics.median(ratios)
        failed = failed or ratio > GOAL
        print(f"{name:32} round {LATE} over round {EARLY}: {ratio:5.2f}   (here {late * 1e6:.0f} µs)")
    print(f"Goal: at most {GOAL}: {'missed' if failed else 'met'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
