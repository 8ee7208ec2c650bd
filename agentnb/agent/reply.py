"""Makes a provider's reply fit for the log: every call has an id of its own, every text can be written."""

from __future__ import annotations

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Message, Text, Thinking, ToolCall, encodable
from agentnb.core.run import Run


def settled(message: Message, run: Run) -> Message:
    """The message with a fresh ``toolu_…`` id for each call that has none, or one that the conversation has used before."""
    if all(type(part) is Text and part.text.isascii() for part in message.parts):
        return message
    used: set[str] = set()
    parts = tuple([_settled_part(part, run, used) for part in message.parts])
    return message if parts == message.parts else Message(message.role, parts)


def _settled_part(part: AnyPart, run: Run, used: set[str]) -> AnyPart:
    if isinstance(part, ToolCall):
        if not part.id or part.id in used or run.has_call_id(part.id):
            part = replace(part, id=_fresh_id(run, used))
        used.add(part.id)
    elif isinstance(part, Text | Thinking) and encodable(part.text) is not part.text:
        part = replace(part, text=encodable(part.text))
    return part


def _fresh_id(run: Run, used: set[str]) -> str:
    # Derived, not drawn: the same run replayed has the same ids. The run's own id keeps conversations apart.
    stem = f"toolu_{run.id[-10:]}_{len(run.rounds)}_"
    number = len(used)
    while (fresh := f"{stem}{number}") in used or run.has_call_id(fresh):
        number += 1
    return fresh
