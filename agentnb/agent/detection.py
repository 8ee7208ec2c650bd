"""Detectors that look on while an agent works, and what is done about their findings, as an extension."""

from __future__ import annotations

from agentnb.agent.extension import Extension
from agentnb.detect.finding import Detectors, detect_name, detectors_of
from agentnb.policies import detected

NAME = "detect"


def detection(detectors: Detectors) -> Extension:
    """Return the extension of these detectors: a nudge, a block of the repeated call and a stop, in this order.

    Each finding is an event when it is made. Raises `SettingsError` for a preset that there is not.
    """
    makers = detectors_of(detectors)
    return Extension(
        name=NAME,
        settings={"preset": detect_name(detectors)},
        detectors=makers,
        guides=(detected.nudge,),
        gates=(detected.block,),
        policies=(detected.stop,),
    )
