"""A live card in which two calls run, and what changes in it with the next thing that one of them does."""

from __future__ import annotations

from run_builder import RunBuilder, begun

from agentnb.core.log import events as e
from agentnb.core.log.events import Delta
from agentnb.core.messages import Message, ToolCall
from agentnb.display.card.live_card import LiveCard


def changed_by(item: Delta, call: ToolCall) -> dict[str, str]:
    """The pieces of its round that the card draws again: ``call`` is the first of two that run. It sends nothing twice."""
    other, card = ToolCall("write", {}, "c2"), LiveCard()
    made = RunBuilder().extend(*begun(0)).add(e.ModelReplied, message=Message("assistant", (call, other)))
    for event in made.add(e.ToolStarted, call=call).add(e.ToolStarted, call=other).events:
        card.take(event)
    card.frame()
    card.take(item)
    frame = card.frame()
    assert frame is not None
    assert card.frame() is None and card.heard == []
    (changed,) = frame["rounds"]
    return dict(changed["html"])
