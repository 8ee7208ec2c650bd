"""What the facts of a run mean: judgements of guidance, repeats and failures, and detectors of loops and stalls.

`findings` says what a preset or detectors of your own find in a run, `timeline` when, `score` and `sweep` how well they agree
with labels. `presets` names the rules of other projects, `blocks` has what detectors are built of, and `detector` makes one of
a function.
"""

from typing import TYPE_CHECKING

from agentnb.detect import blocks, presets
from agentnb.detect.detector import Detector, DetectorMaker, Finding
from agentnb.detect.finding import findings
from agentnb.detect.run import Run, RunSoFar
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
