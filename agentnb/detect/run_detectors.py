"""Detection of findings in a run, by a preset's name or with your own detectors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, TypeAlias

from agentnb.core.run.facts import RunFacts
from agentnb.detect.detector import Detector, DetectorMaker, Finding
from agentnb.detect.presets.preset_registry import DEFAULT, names, preset
from agentnb.detect.run import Run
from agentnb.errors import SettingsError

Detectors: TypeAlias = "str | DetectorMaker | Iterable[str | DetectorMaker]"
"""A preset's name, a detector maker (such as a class), or several of these."""


def detectors_of(detectors: Detectors) -> tuple[DetectorMaker, ...]:
    """Return the factories of these detectors. Raises `SettingsError` for an unknown name or an unusable value."""
    if isinstance(detectors, str):
        return preset(detectors)
    if callable(detectors):
        _check_makes(detectors)
        return (detectors,)
    value: Any = detectors
    if isinstance(value, Iterable):
        return tuple([maker for item in value for maker in detectors_of(item)])
    raise SettingsError(
        f"{value!r} is not a detector",
        f"Give a class, a function marked with @detector, or one of: {', '.join(names())}",
    )


def _check_makes(maker: Any) -> None:
    """Raise `SettingsError` for a function that needs arguments, because it is itself a detector rather than a maker."""
    try:
        signature = inspect.signature(maker)
    except (TypeError, ValueError):  # not implemented in Python
        return
    try:
        signature.bind()
    except TypeError as error:
        name = getattr(maker, "__name__", repr(maker))
        raise SettingsError(
            f"{name} cannot be called without arguments to create a detector: {error}",
            f"Mark a function of the run: @detector def {name}(run)",
        ) from None


def detect_name(detectors: Detectors) -> str:
    """Return the name to use for these detectors in tables."""
    if isinstance(detectors, str):
        return detectors
    if callable(detectors):
        maker = getattr(detectors, "func", detectors)
        return str(getattr(maker, "__name__", None) or type(maker).__name__)
    return " + ".join(detect_name(item) for item in detectors)


def findings(run: RunFacts, detectors: Detectors = DEFAULT) -> list[Finding]:
    """Return these detectors' findings in a run, live or recorded by any product, by folding its events again.

    Exceptions of a detector propagate.
    """
    folded = Run.from_events(run.events, detectors_of(detectors))
    for _, error in folded.take_failures():
        raise error
    return [*folded.detected]


__all__ = ["Detector", "Detectors", "detect_name", "detectors_of", "findings"]
