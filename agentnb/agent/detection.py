"""An agent's live detectors, and the responses to their findings, as an extension."""

from __future__ import annotations

from agentnb.agent.extension import Extension
from agentnb.detect.run_detectors import Detectors, detect_name, detectors_of
from agentnb.policies import detected

NAME = "detect"


def detection(detectors: Detectors) -> Extension:
    """Return the extension for these detectors: a nudge, a block of the repeated call and a stop, in this order.

    Each finding is logged as an event when it is made. Raises `SettingsError` for an unknown preset.
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
