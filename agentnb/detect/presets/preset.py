"""Presets: rules with thresholds and their source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from agentnb.detect.detector import Detector, DetectorMaker


class Source(NamedTuple):
    """Origin of a project's rules."""

    project: str
    version: str = ""
    """Version or commit."""
    file: str = ""


class Preset(NamedTuple):
    """Named rules. ``rules``: detectors with their thresholds as plain data."""

    name: str
    source: Source
    rules: tuple[tuple[Callable[..., Detector], Mapping[str, Any]], ...]
    about: str
    """Its effect, in one sentence."""
    omits: str = ""
    """Features of the project that the rules omit."""

    @property
    def makers(self) -> tuple[DetectorMaker, ...]:
        """Factories of its detectors, called once for each run."""
        return tuple([partial(make, **thresholds) for make, thresholds in self.rules])

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The names of the rules that may produce findings."""
        detectors: list[Any] = [make() for make in self.makers]
        return tuple(
            dict.fromkeys(name for detector in detectors for name in getattr(detector, "rule_names", None) or (detector.rule,))
        )


def rule(make: Callable[..., Detector], **thresholds: Any) -> tuple[Callable[..., Detector], Mapping[str, Any]]:
    """Return a detector with its thresholds."""
    return make, thresholds
