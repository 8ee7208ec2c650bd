"""Values of providers and tools that JSON cannot represent: the run continues, and its log is equal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentnb import Agent, Store, ToolCall
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.models import Reply, ScriptedModel

HALF = "a\ud83db"


def echo(text: Any = "") -> str:
    """Says it again."""
    return str(text)


def half() -> Any:
    """Gives half a character."""
    return Text(HALF)


ODD: dict[str, Reply] = {
    "half a character in the words": Reply(Message("assistant", (Text(HALF), ToolCall("echo")))),
    "half a character in the name of a call": Reply(Message("assistant", (ToolCall(HALF),))),
    "half a character in the id of a call": Reply(Message("assistant", (ToolCall("echo", {}, HALF),))),
    "half a character in an argument": Reply(Message("assistant", (ToolCall("echo", {"text": HALF}),))),
    "half a character in the name of an argument": Reply(Message("assistant", (ToolCall("echo", {HALF: 1}),))),
    "half a character in the stop reason": Reply(Message("assistant", (ToolCall("echo"),)), stop_reason=HALF),
    "half a character in what a tool returns": Reply(Message("assistant", (ToolCall("half"),))),
    "no number": Reply(Message("assistant", (ToolCall("echo", {"text": float("nan")}),))),
    "infinity": Reply(Message("assistant", (ToolCall("echo", {"text": float("-inf")}),))),
    "a number of many digits": Reply(Message("assistant", (ToolCall("echo", {"text": 10**30}),))),
    "a tuple": Reply(Message("assistant", (ToolCall("echo", {"text": (1, 2)}),))),
    "half a character in the stop reason of plain words": Reply(Message("assistant", (Text("Done."),)), stop_reason=HALF),
    "a tuple beside plain words": Reply(Message("assistant", (Text("Done.", {"a": (1, 2)}),))),
    "a non-finite cost": Reply(Message("assistant", (Text("Done."),)), Usage(cost=float("inf"))),
    "a tuple in the metadata": Reply(Message("assistant", (ToolCall("echo"),)), metadata={"a": (1, 2)}),
}


def test_run_with_an_unusual_value_equals_its_log(subtests: pytest.Subtests, tmp_path: Any) -> None:
    store = Store(tmp_path)
    for name, reply in ODD.items():
        with subtests.test(name):
            run = asyncio.run(Agent(ScriptedModel([reply, "Done."]), tools=[echo, half]).run("Go", store=store))
            assert (run.status, run.text) == ("completed", "Done.")
            assert store.load(run.id) == run


def test_surrogates_in_settings_do_not_break_the_log(tmp_path: Any) -> None:
    store = Store(tmp_path)
    run = asyncio.run(Agent(ScriptedModel(["Done."]), system=HALF, name=HALF).run("Go", store=store))
    assert store.load(run.id) == run
