"""Scripted runs with one tool, for the tables of what an agent was told and set itself to do."""

from __future__ import annotations

from functools import partial

from scripted_runs import play

from agentnb import ToolCall


def work(item: int = 0) -> str:
    """Does the work of one item."""
    return f"made {item}"


run_of = partial(play, tools=[work])


def do(item: int) -> ToolCall:
    return ToolCall("work", {"item": item})
