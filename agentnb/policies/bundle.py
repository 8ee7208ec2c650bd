"""The rules of an agent: who guides, who decides, who guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agentnb.core.run import Run
from agentnb.guidance.guides import Guide
from agentnb.policies.gates.block import Gate
from agentnb.policies.verdict import Policy


def _nothing(run: Run) -> str:
    return ""


class PolicyBundle(NamedTuple):
    """What the loop asks: each of these is a function of the run so far, in the order in which they are asked."""

    policies: tuple[Policy, ...] = ()
    guides: tuple[Guide, ...] = ()
    gates: tuple[Gate, ...] = ()
    markers: bool = False
    """Whether marker lines in replies are read, and taken out of the text."""
    note: Callable[[Run], str] = _nothing
    """The line with every request that says where the run stands."""
