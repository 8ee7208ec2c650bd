"""Detectors: what looks for one kind of finding while a run is folded, live or from its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

import msgspec

from agentnb.core.events import AnyEvent
from agentnb.core.run import RunFacts
from agentnb.core.work_events import Severity


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a detector found in the rounds ``first`` to ``last``."""

    rule: str
    family: str
    first: int
    last: int
    severity: Severity = "notice"
    sentence: str = ""
    evidence: Any = None
    """Plain data: the calls or texts that it was found in."""


class Detector(Protocol):
    """Looks for findings of one kind, with bounded state and numbers of its own. One is made for each run."""

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Take in an event that the run has just applied, and return what is found now."""


DetectorMaker: TypeAlias = Callable[[], Detector]
"""Makes a detector for one run: its class, for one without settings."""
