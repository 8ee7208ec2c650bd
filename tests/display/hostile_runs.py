"""Runs in which all foreign text is hostile: a round per text, which appears in every place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any

from hostile import ADDRESSES, BREAKS, CHARACTERS, FOREIGN, HUGE, MARKDOWN, SCRIPTS, links_to
from property_settings import size

from agentnb.advice import as_advice
from agentnb.core.compaction_records import Compacted
from agentnb.core.display_data import Table
from agentnb.core.guidance import Guidance
from agentnb.core.inbox import Inbox
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult, encodable, user
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.todos import Todo
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.runtime.host.live_run import LiveRun

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
MOST = size(400, nightly=1_000)
"""Characters kept of a long text, which appears in a dozen places. The Markdown tests render it whole."""
PARTS: dict[str, list[str]] = {
    "markup": [one.text for one in (*SCRIPTS, *BREAKS, *FOREIGN)],
    "text": [one.text for one in (*MARKDOWN, *CHARACTERS)],
    "links": ["\n\n".join(links_to(address)) for address in ADDRESSES],
    "huge": [one.text for one in HUGE],
}
"""The corpus, split into runs that fit on a page: a round per text, and one round for the links to one address."""
Item = e.AnyEvent | e.Delta


class Pause:
    """A place to wait in playback, so that unfinished state is visible."""


def texts_of(part: str) -> list[str]:
    """Return the texts of this part, bounded and encoded as in a log."""
    return [encodable(text[:MOST]) for text in PARTS[part]]


def hostile_run(part: str, end: str = "failed", rounds: int | None = None) -> Run:
    """Build a whole run. ``end`` is failed, completed or limited; ``rounds`` limits the texts."""
    events: list[Any] = [item for item in items(texts_of(part), end, rounds) if isinstance(item, e.Event)]
    return Run.from_events(events)


def items(texts: list[str], end: str = "failed", rounds: int | None = None) -> Iterator[Any]:
    """Return events and deltas in order, with a `Pause` wherever unfinished state is visible."""
    count = 0

    def event(kind: type[e.Event], **fields: Any) -> Any:
        nonlocal count
        count += 1
        return kind(seq=count - 1, at=NOON + timedelta(seconds=count), run_id="hostile", **fields)

    first, all_of_it = texts[0], "\n\n".join(texts)[:MOST]
    tools = tuple(ToolSpec(text[:200], text[:2_000], {"type": "object", "title": text[:2_000]}) for text in texts)
    yield event(
        e.RunStarted,
        schema=e.SCHEMA,
        prompt=user(all_of_it),
        agent=first,
        model=all_of_it,
        system=all_of_it,
        tools=tools,
        settings={
            "guidance": {"set": all_of_it, "version": all_of_it},
            "history": {all_of_it[:99]: all_of_it},
            "max_seconds": all_of_it,
            "budget": all_of_it,
            all_of_it[:99]: all_of_it,
        },
    )
    texts = texts[:rounds]
    for index, text in enumerate(texts):
        yield from _round(event, index, text)
    if end == "limited":
        yield event(e.LimitReached, limit=all_of_it, value=3.5)
        yield event(e.RunFinished, status="limited", stop_reason=all_of_it, seconds=1.5)
        return
    if end == "failed":
        yield event(e.ErrorRaised, error=e.RunError(first, all_of_it, as_advice(all_of_it)), where="model")
        yield event(e.RunFinished, status="failed", stop_reason="error", seconds=1.5)
        return
    yield event(e.RoundStarted, index=len(texts), reason="tool_results")
    yield event(e.ModelReplied, message=Message("assistant", (Text(all_of_it),)), usage=Usage(input=1))
    yield event(e.RoundFinished, index=len(texts), status="natural_completion")
    yield event(e.RunFinished, status="completed", stop_reason="natural", seconds=1.5)


def _round(event: Any, index: int, text: str) -> Iterator[Any]:
    yield event(e.RoundStarted, index=index, reason=text, continuation=text, note=text)
    yield event(e.GuidanceGiven, guidance=Guidance(text, text, text, 2, text, text))
    yield event(e.CommandReceived, command="say", text=text)
    yield event(e.RetryScheduled, attempt=1, seconds=2.0, reason=text, status=529, heard=text)
    yield from _compacted(event, index, text)
    yield from _streamed(text)
    calls = [
        ToolCall(text, {text: text, "list": [text]}, f"{text[:50]}-{index}-0"),
        ToolCall("table", {"text": text}, f"table-{index}"),
        ToolCall("fails", {}, f"fails-{index}"),
        ToolCall("again", {"text": text}, f"again-{index}"),
    ]
    message = Message("assistant", (Thinking(text), Text(text), *calls))
    yield event(e.ModelReplied, message=message, usage=Usage(input=10, output=10), stop_reason=text, signals=("continue",))
    yield event(e.ToolStarted, call=calls[0])
    yield event(e.QuestionAsked, question=_question(index, text, calls[0].id))
    yield Pause()
    yield event(e.QuestionAnswered, question_id=f"{text[:50]}-{index}", answer=text)
    yield event(e.ToolFinished, result=_result(calls[0], text), seconds=0.1)
    yield from _others(event, calls[1:], text)
    yield event(e.TodosChanged, todos=tuple(_todos(text)), by="outside")
    yield event(e.LoopDetected, rule=text, first=0, last=index, sentence=text, severity="notice")
    yield event(e.Warned, message=text)
    yield event(e.RoundFinished, index=index, status="success")


def _compacted(event: Any, index: int, text: str) -> Iterator[Any]:
    """Add a compaction with a summary and one without; the process dies during the second."""
    yield event(e.CompactionStarted, why="share", messages=2)
    yield Pause()
    yield event(e.ContextCompacted, why="share", compacted=Compacted(0, 0, 2, text), seconds=1.0)
    yield event(e.CompactionStarted, why="messages", messages=2)
    yield event(e.RunRecovered, schema=e.SCHEMA)
    yield Pause()
    yield event(e.CompactionStarted, why="overflow", messages=2)
    yield event(e.ContextCompacted, why="overflow", compacted=Compacted(1, 1, 2, text * (index % 2)), problem=text)


def _streamed(text: str) -> Iterator[Any]:
    """Stream the reply, cut within words and tags."""
    third = max(1, len(text) // 3)
    yield e.ThinkingDelta(text[:third])
    yield Pause()
    yield e.ThinkingDelta(text[third:])
    for start in range(0, len(text), third):
        yield e.TextDelta(text[start : start + third])
        yield Pause()
    yield e.TextDelta("\n\nand on\n\n")
    yield Pause()


def _others(event: Any, calls: list[ToolCall], text: str) -> Iterator[Any]:
    table, fails, again = calls
    shown = Table((text, "n"), ((text, text, 1), (None, 2.5, True)), 344, 2, (text,), gap=1)
    yield event(e.ToolStarted, call=table)
    yield event(e.ToolFinished, result=_result(table, text), seconds=0.1, display=shown)
    yield event(e.ToolStarted, call=fails)
    failed = _result(fails, text, is_error=True, error_code=text)
    yield event(e.ToolFinished, result=failed, seconds=0.1, traceback=text)
    why = f"again was not run again, because {text}. Use it."
    yield event(e.CallBlocked, call=again, result=_result(again, why, is_error=True, error_code=text), rule=text)


def _result(call: ToolCall, text: str, **how: Any) -> ToolResult:
    return ToolResult(call.id, call.name, (Text(text),), **how)


def _question(index: int, text: str, call_id: str) -> WaitingOnUser:
    schema = {"enum": [text, text + "!", 1]} if index % 2 else {"type": "string", "title": text}
    return WaitingOnUser("elicitation", text, schema, f"{text[:50]}-{index}", call_id)


def _todos(text: str) -> Iterable[Todo]:
    for number, status in enumerate(("not-started", "in-progress", "completed", "blocked"), 1):
        yield Todo(number, text, status, description=text, blocked_reason=text)  # type: ignore[arg-type]


def play(part: str, end: str = "failed", every: int = 1) -> threading.Event:
    """Show the run of every n-th text in a live card below this cell, up to the event before its last.

    Unfinished state at a `Pause` is always sent to the page. Setting the returned event ends the run.
    """
    from agentnb.notebook.card import view as pace
    from agentnb.notebook.card.widget import OpenWidgets

    pace.FRAME = pace.LOAD = 0  # no frame waits for the next: in this kernel only
    view = pace.CardView(OpenWidgets(), blocks=False)
    shown, may_end = threading.Event(), threading.Event()

    async def feed() -> None:
        first, *between, last = items(texts_of(part)[::every], end)
        view(first)
        await asyncio.to_thread(shown.wait)
        for item in between:
            if isinstance(item, Pause):
                while view._timer is not None:
                    await asyncio.sleep(0)
            else:
                view(item)
        await asyncio.to_thread(may_end.wait)
        view(last)

    threading.Thread(target=lambda: asyncio.run(feed()), daemon=True).start()
    view.show(LiveRun("hostile", view._run, Inbox(), Future()))
    shown.set()
    return may_end
