"""``think``: records a thought in the log, as the argument of the call."""

from __future__ import annotations


async def think(thought: str) -> str:
    """Write down a thought before you act: what you know, what is unclear, which step comes next. It changes nothing.

    :param thought: The thought, in plain words
    """
    return "Noted."
