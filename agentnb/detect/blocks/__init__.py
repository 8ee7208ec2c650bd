"""Building blocks of detectors: repeated calls, cycles, windows, texts, errors and limits. Thresholds are arguments."""

from agentnb.detect.blocks.call_windows import FrequentCall, FrequentStep, MostlyReading, RepeatedBatch
from agentnb.detect.blocks.chunks import RepeatedChunks
from agentnb.detect.blocks.detector_bases import RoundDetector
from agentnb.detect.blocks.failing_tools import Condensations, FailingTool, RoundsWithErrors
from agentnb.detect.blocks.near_repeat import NearRepeat
from agentnb.detect.blocks.nothing_new import NothingNew
from agentnb.detect.blocks.repeated_calls import AlternatingCalls, CycledCalls, RepeatedCall
from agentnb.detect.blocks.round_limits import RoundLimit
from agentnb.detect.blocks.run_ends import ClaimAgainstRecord, EmptyAnswer, EndDetector
from agentnb.detect.blocks.score import CombinedScore
from agentnb.detect.blocks.texts import Monologue, RepeatedText, RepeatedThought, UnheededMessage
from agentnb.detect.blocks.todo_discipline import PlanningOnly, ReopenedTodo, TalkWithOpenTodos

__all__ = [
    "AlternatingCalls",
    "ClaimAgainstRecord",
    "CombinedScore",
    "Condensations",
    "CycledCalls",
    "EmptyAnswer",
    "EndDetector",
    "FailingTool",
    "FrequentCall",
    "FrequentStep",
    "Monologue",
    "MostlyReading",
    "NearRepeat",
    "NothingNew",
    "PlanningOnly",
    "ReopenedTodo",
    "RepeatedBatch",
    "RepeatedCall",
    "RepeatedChunks",
    "RepeatedText",
    "RepeatedThought",
    "RoundDetector",
    "RoundLimit",
    "RoundsWithErrors",
    "TalkWithOpenTodos",
    "UnheededMessage",
]
