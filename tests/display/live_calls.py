"""A live card with two running calls, and its changes after the next event of one."""

from __future__ import annotations

from run_builder import RunBuilder, begun

from agentnb.core.log import events as e
from agentnb.core.log.events import Delta
from agentnb.core.messages import Message, ToolCall
from agentnb.display.card.live_card import LiveCard


def changed_by(item: Delta, call: ToolCall) -> dict[str, str]:
    """Return the redrawn pieces of the round. ``call`` is the first of two running calls. Nothing is sent twice."""
    other, card = ToolCall("write", {}, "c2"), LiveCard()
    builder = RunBuilder().extend(*begun(0)).add(e.ModelReplied, message=Message("assistant", (call, other)))
    for event in builder.add(e.ToolStarted, call=call).add(e.ToolStarted, call=other).events:
        card.take(event)
    card.frame()
    card.take(item)
    frame = card.frame()
    assert frame is not None
    assert card.frame() is None and card.heard == []
    (changed,) = frame["rounds"]
    return dict(changed["html"])
