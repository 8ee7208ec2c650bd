"""Files of foreign traces for tests, written from plain data, and what their runs hold as short lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentnb import Run
from agentnb.core.messages import Image, Text, Thinking, ToolCall, ToolResult

FILES = Path(__file__).resolve().parents[1] / "interchange" / "formats" / "files"
"""Recorded traces of other products."""


def document(folder: Path, value: Any, name: str = "trace.json") -> Path:
    """Write a JSON document, or JSON Lines if the name ends with jsonl, and return its path."""
    path = folder / name
    text = "".join(json.dumps(one) + "\n" for one in value) if name.endswith("jsonl") else json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return path


def lines(run: Run) -> list[str]:
    """Return each part of the run's messages as a line: who, and what."""
    return [
        f"{message.author or message.role}: {shown(part)}" if message.author else f"{message.role}: {shown(part)}"
        for message in run.messages
        for part in message.parts
    ]


def shown(part: Any) -> str:
    """Return a part as a short text."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Thinking):
        return f"({part.text})"
    if isinstance(part, Image):
        return f"<{part.media_type} {len(part.data)}>"
    if isinstance(part, ToolCall):
        return f"{part.name} {json.dumps(part.arguments)}"
    assert isinstance(part, ToolResult)
    return f"{'! ' if part.is_error else ''}-> {' '.join(shown(one) for one in part.parts)}"
