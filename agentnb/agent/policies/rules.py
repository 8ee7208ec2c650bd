"""The rules of an agent: who guides, who decides, who guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agentnb.agent.gates.block import Gate
from agentnb.agent.guidance.guides import Guide
from agentnb.agent.policies.verdict import Policy
from agentnb.core.run import Run


def _nothing(run: Run) -> str:
    return ""


class Rules(NamedTuple):
    """What the loop asks: each of these is a function of the run so far, in the order in which they are asked."""

    policies: tuple[Policy, ...] = ()
    guides: tuple[Guide, ...] = ()
    gates: tuple[Gate, ...] = ()
    markers: bool = False
    """Whether marker lines in replies are read, and taken out of the text."""
    note: Callable[[Run], str] = _nothing
    """The line with every request that says where the run stands."""
