"""Detectors, each of which looks for one kind of finding while a run is folded, live or from its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from agentnb.core.log.events import AnyEvent
from agentnb.core.log.work_events import FindingMade, Severity
from agentnb.core.run.facts import RunFacts
from agentnb.core.schema.counts import LARGEST
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A detector's finding about the rounds ``first`` to ``last``. Raises `SettingsError` for fields that a log cannot hold."""

    rule: str
    family: str
    first: int
    last: int
    severity: Severity = "notice"
    sentence: str = ""
    evidence: Any = None
    """The calls or texts in question, as plain data."""

    def __post_init__(self) -> None:
        rounds: tuple[Any, Any] = (self.first, self.last)
        if any(type(index) is not int for index in rounds) or not 0 <= self.first <= self.last <= LARGEST:
            raise SettingsError(
                f"A finding cannot cover the rounds {self.first!r} to {self.last!r}", "Count rounds from 0, first <= last"
            )
        if self.severity not in get_args(Severity):
            raise SettingsError(f"severity={self.severity!r} of a finding is not one of {', '.join(get_args(Severity))}")
        for name in ("rule", "family", "sentence"):
            text: Any = getattr(self, name)
            if not isinstance(text, str):
                raise SettingsError(f"{name}={text!r} of a finding is not a string")
            force_setattr(self, name, plain_data(text))
        if self.evidence is not None:
            force_setattr(self, "evidence", plain_data(self.evidence))


def finding_of(event: FindingMade) -> Finding:
    """Return a recorded finding."""
    return Finding(*[getattr(event, name) for name in Finding.__struct_fields__])


class Detector(Protocol):
    """Looks for findings of one kind, using thresholds and bounded state. Each run gets its own instance."""

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Process an event that the run has just applied, and return new findings."""


DetectorMaker: TypeAlias = Callable[[], Detector]
"""Makes a detector for one run; a detector class without settings is a maker."""
