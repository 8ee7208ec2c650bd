"""What the facts of a run mean: judgements of guidance, repeats and failures, and detectors with rules of their own."""

from agentnb.detect.detector import Detector, DetectorMaker, Finding
from agentnb.detect.finding import findings
from agentnb.detect.run import Run
from agentnb.detect.so_far import RunSoFar
from agentnb.detect.walk import RoundEvents, ShadowRun, walk_rounds

__all__ = ["Detector", "DetectorMaker", "Finding", "RoundEvents", "Run", "RunSoFar", "ShadowRun", "findings", "walk_rounds"]
