"""Recovered runs keep their counts: seconds, and compaction of the open round."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cut_runs import Told, assert_whole, cut, paid, until

from agentnb import Agent, History, Store, ToolCall, load_trace, recover, tool
from agentnb.core.log import events as e
from agentnb.core.messages import Text
from agentnb.models import ScriptedModel

LIMIT = 60.0
LEFT = 0.01
"""Seconds that are left to a run that had taken nearly all."""


def later(events: list[e.AnyEvent], kind: type[e.Event], seconds: float) -> list[e.AnyEvent]:
    """Return the events, delayed from the first of this kind on."""
    place = next(place for place, event in enumerate(events) if isinstance(event, kind))
    moved = [msgspec.structs.replace(event, at=event.at + timedelta(seconds=seconds)) for event in events[place:]]
    return events[:place] + [
        msgspec.structs.replace(event, seconds=event.seconds + seconds) if isinstance(event, e.RoundFinished) else event
        for event in moved
    ]


@pytest.mark.req("KX.2", "KX.11")
@pytest.mark.parametrize(
    ("taken", "ends"), [(0.0, ("completed", "natural")), (LIMIT - LEFT, ("limited", "max_seconds"))], ids=["few", "nearly all"]
)
def test_time_before_the_crash_counts_towards_the_limit(taken: float, ends: Any, tmp_path: Path) -> None:
    @tool
    async def slow(n: int = 0) -> str:
        """Ends, unless it is the second call of a run that has nearly no time left."""
        if n and taken:
            await asyncio.Event().wait()
        return f"made {n}"

    calls = [ToolCall("slow", {"n": n}) for n in range(2)]
    agent = Agent(ScriptedModel([calls[0], "Done."]), tools=[slow], todos=False, max_seconds=LIMIT)
    whole = agent.run_sync("Go.", store=Store(tmp_path))
    died = later(until(whole, e.RoundFinished), e.ToolFinished, taken)
    path = cut(died, tmp_path / "died")
    run = asyncio.run(recover(path, tools=[slow], model=ScriptedModel([calls[1], "Done."])))
    assert_whole(path, run, died)
    assert (run.status, run.stop_reason) == ends
    reached = [(event.limit, event.value) for event in run.events if isinstance(event, e.LimitReached)]
    assert reached == ([("max_seconds", LIMIT)] if taken else [])
    assert run.rounds[0].results[0].text == "made 0", "it keeps what it had"
    assert run.seconds >= taken


@tool
def large(n: int = 0) -> str:
    """Gives much."""
    return f"{n} " + "x" * 8_000


@pytest.mark.req("R2.35", "R2.36")
def test_round_compacted_before_the_crash_is_not_compacted_again(tmp_path: Path) -> None:
    """The provider's last token count is that of the request before compaction."""
    replies = [*[paid(ToolCall("large", {"n": n}), tokens=8_100 if n == 5 else 1_000) for n in range(6)], "Done."]
    settings: dict[str, Any] = {"tools": [large], "todos": False, "history": History(share=0.8, window=10_000)}
    whole = Agent(Told(replies, summary="What was done."), **settings).run_sync("Go.", store=Store(tmp_path))
    compacted = [compaction.compacted for compaction in whole.rounds[6].compactions]
    assert [event.why for event in whole.events if isinstance(event, e.ContextCompacted)] == ["share"]
    path = cut(died := until(whole, e.ContextCompacted), tmp_path / "died")
    model = Told(replies, first=6, summary="Another summary.")
    run = asyncio.run(recover(path, agent=Agent(model, **settings)))
    assert_whole(path, run, died)
    assert [compaction.compacted for compaction in run.rounds[6].compactions] == compacted
    (request,) = model.requests
    sent = [part.text for message in request.messages for part in message.parts if isinstance(part, Text)]
    assert "What was done." in sent[0] and not any("Another summary." in text for text in sent)
    assert (run.status, run.text, run) == ("completed", "Done.", load_trace(path))
