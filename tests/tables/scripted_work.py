"""Scripted runs with one tool, for the tables of what an agent was told and set itself to do."""

from __future__ import annotations

from typing import Any

from agentnb import Agent, Run, ToolCall
from agentnb.models import ScriptedModel
from agentnb.models.scripted import Line


def work(item: int = 0) -> str:
    """Does the work of one item."""
    return f"made {item}"


def run_of(*replies: Line, **settings: Any) -> Run:
    return Agent(ScriptedModel(replies), tools=[work], **settings).run_sync("go")


def do(item: int) -> ToolCall:
    return ToolCall("work", {"item": item})
