"""The output of a run: the JSON of its answer, validated against the schema in the run's settings."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import JsonObject, encodable
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.schema.json_schema import schema_problems
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep

MAX_PROBLEMS = 10
"""Maximum number of problems listed for an answer."""
_BEGINNINGS = '{["'
"""First characters of JSON other than a number or a literal."""
_FENCE = re.compile(r"[ \t]{0,3}```(?P<language>[\w-]{0,20})[ \t]*")


class Output(NamedTuple):
    """Text parsed as an answer: its value, and its problems, one sentence each; it fits if there are no problems."""

    value: Any = None
    problems: tuple[str, ...] = ()


def read_output(text: str, schema: JsonObject) -> Output:
    """Parse an answer for this schema: pure JSON, or text around a single code block with JSON."""
    text = text.replace("\r\n", "\n").strip()
    if not text:
        return Output(problems=("it contains no text",))
    try:
        value = msgspec.json.decode(_json_of(text))
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        detail = f": {encodable(str(error))}" if text[0] in _BEGINNINGS or "```" in text else "; it begins with other text"
        return Output(problems=(f"it is not pure JSON{detail}",))
    if is_too_deep(value):
        return Output(problems=(f"it is nested deeper than {MAX_DEPTH} levels",))
    return Output(value, tuple(map(encodable, islice(schema_problems(schema, value), MAX_PROBLEMS))))


def _json_of(text: str) -> str:
    if text[0] in _BEGINNINGS or "```" not in text:
        return text
    blocks: list[list[str]] = []
    is_open = False
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        if fence is not None and not (is_open and fence["language"]):
            is_open = not is_open
            if is_open:
                blocks.append([])
        elif is_open:
            blocks[-1].append(line)
    if len(blocks) != 1 or is_open:
        raise ValueError("it contains several code blocks" if not is_open and blocks else "its code block is not closed")
    return "\n".join(blocks[0])


def logged_schema(run_settings: JsonObject) -> JsonObject | None:
    """Return the JSON Schema of answers from the settings of a run, or None for free text."""
    logged = run_settings.get("output")
    schema = logged.get("schema") if isinstance(logged, dict) else None
    return schema if isinstance(schema, dict) else None


def answer_of(last: WorkflowRound, text: str) -> str:
    """Return the text of the last reply or, if it continues a truncated reply, all of ``run.text``."""
    return text if last.reason == "reply_cut" else last.text
