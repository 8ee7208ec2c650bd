"""Judgements about a run: guidance, repeats, failures, and detectors of loops and stalls.

`findings` runs a preset or your own detectors on a run, `timeline` says when each finding appeared, `score` and `sweep`
measure agreement with labels. `presets` has the rules of other projects by name, `blocks` the parts detectors are built
from, and `detector` makes one from a function.
"""

from typing import TYPE_CHECKING

from agentnb.detect import blocks, presets
from agentnb.detect.detector import Detector, DetectorMaker, Finding
from agentnb.detect.run import Run, RunSoFar
from agentnb.detect.run_detectors import findings
from agentnb.detect.scores import score, sweep
from agentnb.detect.timelines import timeline
from agentnb.detect.walk import RoundEvents, ShadowRun, walk_rounds
from agentnb.errors import module_getattr

from agentnb.detect.custom import detector  # isort: skip  # after the module of this name, which it stands in front of

__all__ = [
    "Detector",
    "DetectorMaker",
    "Finding",
    "RoundEvents",
    "Run",
    "RunSoFar",
    "ShadowRun",
    "blocks",
    "detector",
    "findings",
    "presets",
    "score",
    "sweep",
    "timeline",
    "walk_rounds",
]

if not TYPE_CHECKING:  # a type checker would take every name for Any, misspelled ones too
    __getattr__ = module_getattr(__name__, __all__)
