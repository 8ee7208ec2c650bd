"""A run as text for a judge: prompts, replies, calls and results, without any trace of the run's variant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import encodable
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.lists.blind_view import FIRST, LAST, MAX_OF_A_PROMPT
from agentnb.display.texts.states import rounds_at_end

_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e"})
"""Escapes within JSON strings. They keep the meaning, and prevent text in a block from closing it."""


def run_block(run: Run, tag: str, task: str) -> str:
    """Return the run as JSON Lines between ``<tag>`` and ``</tag>``. No text in the run can forge these tags.

    Limited to the first 50 and last 150 rounds, like the view shown to people who label runs. ``task``: the prompt; empty to
    omit it.
    """
    lines = [json.dumps(record, ensure_ascii=False).translate(_ESCAPED) for record in _records(run, task)]
    return encodable("\n".join([f"<{tag}>", *lines, f"</{tag}>"]))


def _records(run: Run, task: str) -> Iterator[dict[str, Any]]:
    if task:
        yield {"asked": _cut(task)}
    rounds = [*rounds_at_end(run)]
    left_out = max(0, len(rounds) - FIRST - LAST)
    for round_ in rounds[:FIRST]:
        yield _of_round(round_)
    if left_out:
        yield {"rounds_left_out": left_out}
    for round_ in rounds[FIRST + left_out :]:
        yield _of_round(round_)
    if not rounds:  # a workflow, or a recorded text
        yield {"answer": _cut(run.text)}


def _of_round(round_: WorkflowRound) -> dict[str, Any]:
    calls = [
        {
            "tool": record.call.name,
            "arguments": _cut(json.dumps(record.call.arguments, ensure_ascii=False, default=str)),
            "result": None if record.result is None else _cut(record.result.text),
            **({"is_error": True} if record.result is not None and record.result.is_error else {}),
        }
        for record in round_.records
    ]
    return {"round": round_.index + 1, "agent": _cut(round_.text), **({"calls": calls} if calls else {})}


def _cut(text: str) -> str:
    """Return a text, reduced to its beginning and end if it is too long."""
    half = MAX_OF_A_PROMPT // 2
    left_out = len(text) - 2 * half
    return text if left_out <= 0 else f"{text[:half]} [{left_out:,} characters left out] {text[-half:]}"
