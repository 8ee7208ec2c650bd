"""The rules of an agent: its policies, guides and gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agentnb.detect.custom import FunctionDetector
from agentnb.detect.detector import DetectorMaker
from agentnb.detect.so_far import RunSoFar
from agentnb.guidance.guides import Guide
from agentnb.policies.gates.verdicts import Gate
from agentnb.policies.verdict import Policy


def _nothing(run: RunSoFar) -> str:
    return ""


class PolicyBundle(NamedTuple):
    """The functions of the run so far that the loop calls; each tuple is in calling order."""

    policies: tuple[Policy, ...] = ()
    guides: tuple[Guide, ...] = ()
    gates: tuple[Gate, ...] = ()
    markers: bool = False
    """Whether marker lines in replies are read, and removed from the text."""
    detectors: tuple[DetectorMaker, ...] = ()
    """Detectors that look on while it runs: what they find is logged when the round is over."""
    model_detectors: tuple[FunctionDetector, ...] = ()
    """Detectors that ask the model between rounds."""
    note: Callable[[RunSoFar], str] = _nothing
    """Returns the status line that is sent with every request: where the run stands."""
