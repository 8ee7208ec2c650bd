"""Detectors: what looks for one kind of finding while a run is folded, live or from its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from agentnb.core.log.events import AnyEvent
from agentnb.core.log.work_events import Severity
from agentnb.core.run.facts import RunFacts
from agentnb.core.schema.counts import LARGEST
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a detector found in the rounds ``first`` to ``last``. Raises `SettingsError` for what no log can hold."""

    rule: str
    family: str
    first: int
    last: int
    severity: Severity = "notice"
    sentence: str = ""
    evidence: Any = None
    """Plain data: the calls or texts that it was found in."""

    def __post_init__(self) -> None:
        rounds: tuple[Any, Any] = (self.first, self.last)
        if any(type(index) is not int for index in rounds) or not 0 <= self.first <= self.last <= LARGEST:
            raise SettingsError(
                f"A finding names the rounds {self.first!r} to {self.last!r}", "Count rounds from 0, first <= last"
            )
        if self.severity not in get_args(Severity):
            raise SettingsError(f"severity={self.severity!r} of a finding is none of {', '.join(get_args(Severity))}")
        for name in ("rule", "family", "sentence"):
            text: Any = getattr(self, name)
            if not isinstance(text, str):
                raise SettingsError(f"{name}={text!r} of a finding is not a text")
            force_setattr(self, name, plain_data(text))
        if self.evidence is not None:
            force_setattr(self, "evidence", plain_data(self.evidence))


class Detector(Protocol):
    """Looks for findings of one kind, with bounded state and numbers of its own. One is made for each run."""

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Take in an event that the run has just applied, and return what is found now."""


DetectorMaker: TypeAlias = Callable[[], Detector]
"""Makes a detector for one run: its class, for one without settings."""
