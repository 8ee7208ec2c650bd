"""What a preset is: rules with thresholds, and where they were read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from agentnb.detect.detector import Detector, DetectorMaker


class Source(NamedTuple):
    """Where the rules of a project were read."""

    project: str
    version: str = ""
    """Version or commit."""
    file: str = ""


class Preset(NamedTuple):
    """Rules under a name. ``rules``: the detectors with their thresholds, which are plain data."""

    name: str
    source: Source
    rules: tuple[tuple[Callable[..., Detector], Mapping[str, Any]], ...]
    about: str
    """What it does, in one sentence."""
    omits: str = ""
    """What the project has besides that is not among the rules."""

    @property
    def makers(self) -> tuple[DetectorMaker, ...]:
        """What makes its detectors, for one run each."""
        return tuple([partial(make, **thresholds) for make, thresholds in self.rules])

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The names of the rules by which it may find something."""
        detectors: list[Any] = [make() for make in self.makers]
        return tuple(
            dict.fromkeys(name for detector in detectors for name in getattr(detector, "rule_names", None) or (detector.rule,))
        )


def rule(make: Callable[..., Detector], **thresholds: Any) -> tuple[Callable[..., Detector], Mapping[str, Any]]:
    """Return a detector with its thresholds."""
    return make, thresholds
