"""Runs with everything an export has to represent, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from foreign_traces import CHAT, chat_run
from msgspec.structs import replace
from run_builder import RunBuilder, a_round, begun, called, run_of, said, todo, todos_are

from agentnb import Agent, Run, ToolCall, tool
from agentnb.advice import as_advice
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Image, Message, Text, Thinking, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.models import Reply, ScriptedModel

PICTURE = Image("image/png", b"\x89PNG\r\n\x1a\n and the rest")
USAGE = Usage(1200, 40, 1000, 20, 8, 0.0125, True)
SIGNED = {"anthropic": {"type": "thinking", "thinking": "I weigh it.", "signature": "c2ln"}}


@tool
def paint(colour: str) -> str:
    """Paint the wall."""
    if colour == "none":
        raise ValueError("no colour 🎨")
    return f"painted {colour}"


def tools_and_errors() -> Run:
    """Execute a run with failed calls, todos and guidance."""
    calls = ToolCall("paint", {"colour": "blue", "größe": [1, {"a.b": None}]}), ToolCall("paint", {"colour": "none"})
    first = Reply(Message("assistant", (Text("I paint. 👀"), *calls)), USAGE, "tool_use", {"id": "msg_1", "model": "painter-2"})
    write = {"operation": "write", "todoList": [{"id": 1, "title": "Paint", "status": "in-progress"}]}
    done = {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}]}
    todos = ToolCall("todo_operations", write), ToolCall("todo_operations", done)
    model = ScriptedModel([todos[0], first, ToolCall("paint", {"colour": "red"}), todos[1], "Größer. 👀\n\nDone."])
    return asyncio.run(Agent(model, tools=[paint], todos=True, max_rounds=9).run("Paint it."))


def pictures() -> Run:
    """Return a run with pictures in the prompt and in a result."""
    started: dict[str, Any] = {"prompt": Message("user", (Text("What is this?"), PICTURE)), "model": "openai:gpt-x"}
    call = called("look", "call_1", x=1)
    result = ToolResult("call_1", "look", (Text("Two."), PICTURE))
    builder = RunBuilder(tools=(ToolSpec("look", "Look."),))
    builder.run = Run.from_events([e.RunStarted(seq=0, at=builder.events[0].at, run_id="p-1", schema=e.SCHEMA, **started)])
    builder.extend(*begun(0), (e.ModelReplied, {"message": Message("assistant", (call,)), "usage": USAGE}))
    builder.extend((e.ToolStarted, {"call": call}), (e.ToolFinished, {"result": result, "seconds": 1.5}))
    builder.extend((e.RoundFinished, {"index": 0, "status": "success"})).round("It is a gull.")
    return builder.add(e.RunFinished, status="completed", stop_reason="natural", seconds=9.0).run


def thinking() -> Run:
    """Return a run with signed thinking."""
    builder = RunBuilder(model="anthropic:claude-x", system="Be kind.")
    builder.round(Thinking("I weigh it.", SIGNED), "Yes.", called("look", "toolu_1"))
    return builder.round("No.").add(e.RunFinished, status="completed", stop_reason="natural").run


def authors() -> Run:
    """Return a conversation of several agents from another product, without times."""
    writer = RunWriter(e.Origin("team", "team.json"), run_id="team-1", model="gpt-x")
    writer.say("How high is it?", author="human")
    writer.reply("Open the page.", author="Orchestrator")
    writer.reply(None, [ToolCall("open", {"page": 1}, "c1")], author="WebSurfer", seconds=2.5)
    writer.result("c1", "3,776 m", seconds=0.5)
    writer.reply("3,776 m", author="WebSurfer")
    return writer.finish()


def foreign() -> Run:
    """Return a trace with reused ids and calls without results."""
    return chat_run(CHAT[0], "0")


def without_result() -> Run:
    """Return a trace that ends after a call."""
    return chat_run(CHAT[1], "1")


def without_prompt() -> Run:
    """Return a trace that begins with the model and has a result with a known end time only."""
    writer = RunWriter(e.Origin("team", "team.json"), run_id="first-1", model="gpt-x")
    writer.reply("Hello.", [ToolCall("open", {}, "c1")], at=datetime(2026, 3, 1, 12, tzinfo=UTC))
    writer.result("c1", "", is_error=True, error_code="timeout", at=datetime(2026, 3, 1, 12, 1, tzinfo=UTC))
    return writer.finish("failed", "error", at=datetime(2026, 3, 1, 12, 2, tzinfo=UTC))


def empty_replies() -> Run:
    """Return a run with empty replies and user messages in between."""
    builder = RunBuilder().round("").extend(said("Hello? 👋")).round("", reason="said").extend(said("Hello? 👋"))
    return builder.round("Here.", reason="said").add(e.RunFinished, status="completed", stop_reason="natural").run


def interrupted() -> Run:
    """Return a run whose process died during a call."""
    call, other = called("look", "c9", x=1), called("look", "c10", x=2)
    builder = RunBuilder().round("I look.", called("look", "c1"))
    builder.extend(
        *begun(1), (e.ModelReplied, {"message": Message("assistant", (call, other))}), (e.ToolStarted, {"call": call})
    )
    builder.add(e.ToolFinished, result=ToolResult("c9", "look", (Text("one"),)))
    builder.run.mark_interrupted()
    return builder.run


def broken_off() -> Run:
    """Return a run whose process died while a reply streamed."""
    builder = RunBuilder().round("I look.", called("look", "c1")).extend(*begun(1))
    builder.add(e.ReplyStreamed, parts=(Text("I have "),)).add(e.ReplyStreamed, parts=(Text("seen"),))
    builder.run.mark_interrupted()
    return builder.run


def failed() -> Run:
    """Return a run whose model did not reply."""
    builder = RunBuilder().extend(*begun(0)).add(e.RetryScheduled, attempt=1, seconds=1.0, reason="busy")
    builder.add(e.ErrorRaised, error=e.RunError("ModelError", "It is overloaded", as_advice("Wait")), where="model")
    builder.add(e.RoundFinished, index=0, status="error")
    return builder.add(e.RunFinished, status="failed", stop_reason="error").run


def continued() -> Run:
    """Return a run that continues a conversation with a failed call."""
    call = called("look", "h1", x=0)
    history = (
        Message("user", (Text("Before."),)),
        Message("assistant", (Text("I look."), call)),
        Message("tool", (ToolResult("h1", "look", (Text("dark"),), True, "tool_error"),)),
        Message("assistant", (Text("It is dark."),)),
    )
    builder = RunBuilder("And now?", history=history, continued_from="r-0", conversation="r-0", tags=("night",))
    return builder.round("Light.").add(e.RunFinished, status="completed", stop_reason="natural").run


def judged() -> Run:
    """Return a run with guidance, todos, a loop, a finding, a plan, another model call and a limit."""
    guidance = Guidance("matrix", "tools_success", "Go on.", 2, "tool_results", "v1")
    again = [called("look", f"c{n}", x=1) for n in range(3)]
    builder = RunBuilder(tools=(ToolSpec("look", "Look.", {"type": "object", "properties": {"x": {"type": "integer"}}}),))
    builder.round("I look.", again[0], after=(todo(1, "in-progress"),))
    builder.extend(todos_are(todo(1, "in-progress"), todo(2)))
    builder.add(w.ModelCalled, operation="planner", model="openai:small", usage=Usage(5, 6), seconds=0.25)
    builder.add(w.PlanProposed, plan_id="p1", plan={"steps": ["look", "tell"]})
    builder.round(again[1], guidance=[guidance], status="success").round(again[2], guidance=[guidance])
    builder.add(e.LoopDetected, rule="only_blocked_calls", first=0, last=2, sentence="It repeats itself.", severity="block")
    builder.add(
        w.FindingMade, rule="no_progress", family="loops", first=1, last=2, sentence="No progress.", evidence={"n": [1]}
    )
    builder.add(e.Warned, message="Careful.")
    builder.add(e.LimitReached, limit="max_rounds", value=3.0)
    return builder.add(e.RunFinished, status="limited", stop_reason="max_rounds", seconds=60.0).run


def family() -> list[Run]:
    """Return a run with nested runs at two depths."""
    made = []
    for run_id, parent in (("top", None), ("inner", "top"), ("innermost", "inner")):
        facts = [*a_round(0, "I ask.", called("delegate", f"{run_id}-c")), *a_round(1, f"{run_id} is done.")]
        end = (e.RunFinished, {"status": "completed", "stop_reason": "natural"})
        events = run_of(*facts, end, prompt=f"Do {run_id}.").events
        made.append(Run.from_events([replace(event, run_id=run_id, parent_id=parent) for event in events]))
    return made


def named(make: Callable[[], Run]) -> Callable[[], Run]:
    """Return a function that copies this run under a new id."""

    def made() -> Run:
        run = make()
        if run.id != "r-1":
            return run
        again = Run.from_events([replace(event, run_id=make.__name__) for event in run.events])
        again.mark_interrupted()
        return again

    return made


RUNS = {
    make.__name__: named(make)
    for make in (
        tools_and_errors,
        pictures,
        thinking,
        authors,
        foreign,
        without_result,
        without_prompt,
        empty_replies,
        interrupted,
        broken_off,
        failed,
        continued,
        judged,
    )
}
