"""Runs to replay, fork and reproduce: of another product, and of agentnb with replies that are drawn."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from scripted_runs import LONG_ANSWER, do, think, work
from todo_calls import complete, start, write

from agentnb import Matrix, Minimal, Run, ToolCall
from agentnb.agent.agent import Agent
from agentnb.core.log.event import Status
from agentnb.core.log.events import Origin
from agentnb.core.usage import Usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.models.scripted import ScriptedModel

LOOK = ToolCall("look", {"at": 1})


def foreign(*replies: Any, status: Status | None = "completed") -> Run:
    """A run of another product: a text is a reply, a call a reply that makes it, and ("person", text) a message of a person.

    ``status``: how it ended; None if it breaks off.
    """
    writer = RunWriter(Origin("by_hand"), model="m")
    writer.say("Go")
    for each in replies:
        if isinstance(each, tuple):
            writer.say(each[1])
        elif isinstance(each, str):
            writer.reply(each, usage=Usage(10, 5))
        else:
            writer.reply("", [each], usage=Usage(10, 5))
            writer.result("", "a hat")
    return writer.finish(status, "natural" if status == "completed" else "")


LINES = st.sampled_from(
    [
        write("one", "two"),
        start(1),
        complete(1),
        complete(2),
        do(1),
        do(2),
        [do(1), do(2)],
        ToolCall("think", {}),
        ToolCall("nowhere", {}),
        LONG_ANSWER,
        "Hm.",
        "",
        "I go on.\n[CONTINUE]",
        "All is done.\n[WORKFLOW_COMPLETE]",
    ]
)
POLICIES = st.sampled_from(
    [
        Matrix(),
        Minimal(),
        Matrix(workflow_mode=True),
        Matrix(strict_todos=True),
        Matrix(workflow_mode=True, workflow_drops_text=True),
    ]
)


def whatever(lines: list[Any], policy: Any, **settings: Any) -> Run:
    """Return a run of these replies that ends with an answer; unused replies may remain."""
    model = ScriptedModel([*lines, *["Done."] * 12])
    return Agent(model, tools=[work, think], policy=policy, **settings).run_sync("Write three stories.")
