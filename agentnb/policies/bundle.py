"""The rules of an agent: its policies, guides and gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agentnb.core.run import Run
from agentnb.guidance.guides import Guide
from agentnb.policies.gates.verdicts import Gate
from agentnb.policies.verdict import Policy


def _nothing(run: Run) -> str:
    return ""


class PolicyBundle(NamedTuple):
    """The functions of the run so far that the loop calls; each tuple is in calling order."""

    policies: tuple[Policy, ...] = ()
    guides: tuple[Guide, ...] = ()
    gates: tuple[Gate, ...] = ()
    markers: bool = False
    """Whether marker lines in replies are read, and removed from the text."""
    note: Callable[[Run], str] = _nothing
    """Returns the status line that is sent with every request: where the run stands."""
