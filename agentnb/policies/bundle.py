"""The rules of an agent: its policies, guides and gates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from agentnb.detect.custom import FunctionDetector
from agentnb.detect.detector import DetectorMaker
from agentnb.detect.run import Run
from agentnb.guidance.draws import Draw
from agentnb.guidance.guides import Guide
from agentnb.policies.direct import called_directly
from agentnb.policies.gates.verdicts import Gate
from agentnb.policies.verdict import Ending, Policy, after_calls


def _nothing(run: Run) -> str:
    return ""


class _BundleFields(NamedTuple):
    policies: tuple[Policy, ...] = ()
    guides: tuple[Guide, ...] = ()
    gates: tuple[Gate, ...] = ()
    markers: bool = False
    """Whether marker lines in replies are read, and removed from the text."""
    detectors: tuple[DetectorMaker, ...] = ()
    """Detectors that look on while it runs: what they find is logged when the round is over."""
    model_detectors: tuple[FunctionDetector, ...] = ()
    """Detectors that ask the model between rounds."""
    draw: Draw | None = None
    """Draws the guidance set of the next round; None leaves the set as it is."""
    tool_seconds: float | None = None
    """Seconds for a call of a tool without a time limit of its own, nested runs apart; None for no limit."""
    note: Callable[[Run], str] = _nothing
    """Returns the status line that is sent with every request: where the run stands."""
    endings: tuple[Ending, ...] = ()
    """What comes before a run ends as completed, asked in order."""
    keeps: tuple[Callable[[Run], str], ...] = ()
    """Return what stays in the conversation word for word when it is compacted; an empty text for nothing."""


class PolicyBundle(_BundleFields):
    """The functions of the run so far that the loop calls; each tuple is in calling order."""

    # Each is made once, for all runs of an agent, which has one bundle.

    @cached_property
    def after_calls(self) -> tuple[Policy, ...]:
        """The policies to ask after a reply with tool calls, as `called_directly` returns them."""
        return called_directly(after_calls(self.policies))

    @cached_property
    def direct_guides(self) -> tuple[Guide, ...]:
        """The guides, as `called_directly` returns them."""
        return called_directly(self.guides)

    @cached_property
    def direct_gates(self) -> tuple[Gate, ...]:
        """The gates, as `called_directly` returns them."""
        return called_directly(self.gates)

    def also_asking(self, policy: Policy) -> PolicyBundle:
        """Return the bundle with one more policy, asked last. What was prepared is kept: each nested run has such a bundle."""
        more = self._replace(policies=(*self.policies, policy))
        more.__dict__["after_calls"] = (*self.after_calls, *called_directly(after_calls((policy,))))
        more.__dict__["direct_guides"], more.__dict__["direct_gates"] = self.direct_guides, self.direct_gates
        return more
