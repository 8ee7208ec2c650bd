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
from agentnb.policies.bound_calls import bind_calls
from agentnb.policies.gates.gate_verdicts import Gate
from agentnb.policies.verdict import Ending, Policy, after_calls


class _BundleFields(NamedTuple):
    policies: tuple[Policy, ...] = ()
    guides: tuple[Guide, ...] = ()
    gates: tuple[Gate, ...] = ()
    markers: bool = False
    """True if marker lines in replies are interpreted, and removed from the text."""
    detectors: tuple[DetectorMaker, ...] = ()
    """Detectors that watch the run; their findings are logged after the round."""
    model_detectors: tuple[FunctionDetector, ...] = ()
    """Detectors that query the model between rounds."""
    draw: Draw | None = None
    """Draws the guidance set of the next round, or None for a fixed set."""
    tool_seconds: float | None = None
    """Default time limit in seconds for tool calls other than nested runs, or None."""
    note: Callable[[Run], str] = lambda run: ""
    """Returns the status line sent with every request."""
    endings: tuple[Ending, ...] = ()
    """Endings called in order before a run completes."""
    keeps: tuple[Callable[[Run], str], ...] = ()
    """Functions that return text for compaction to keep verbatim, or ""."""


class PolicyBundle(_BundleFields):
    """The functions that the loop calls with the run so far, each tuple in calling order."""

    # Created once for all runs of an agent, which share a bundle.

    @cached_property
    def after_calls(self) -> tuple[Policy, ...]:
        """Policies for a reply with tool calls, as `bind_calls` returns them."""
        return bind_calls(after_calls(self.policies))

    @cached_property
    def direct_guides(self) -> tuple[Guide, ...]:
        """Guides, as `bind_calls` returns them."""
        return bind_calls(self.guides)

    @cached_property
    def direct_gates(self) -> tuple[Gate, ...]:
        """Gates, as `bind_calls` returns them."""
        return bind_calls(self.gates)

    def also_asking(self, policy: Policy) -> PolicyBundle:
        """Return the bundle with one more policy at the end. Cached values are reused, since each nested run has such a
        bundle.
        """
        more = self._replace(policies=(*self.policies, policy))
        more.__dict__["after_calls"] = (*self.after_calls, *bind_calls(after_calls((policy,))))
        more.__dict__["direct_guides"], more.__dict__["direct_gates"] = self.direct_guides, self.direct_gates
        return more
