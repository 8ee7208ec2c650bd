"""The rules of coding agents, as found in their sources, with their shipped thresholds."""

from __future__ import annotations

from agentnb.detect.blocks.call_windows import FrequentStep, MostlyReading, RepeatedBatch
from agentnb.detect.blocks.chunks import RepeatedChunks
from agentnb.detect.blocks.failing_tools import Condensations, RoundsWithErrors
from agentnb.detect.blocks.repeated_calls import AlternatingCalls, CycledCalls, RepeatedCall
from agentnb.detect.blocks.round_limits import RoundLimit
from agentnb.detect.blocks.texts import Monologue, RepeatedThought
from agentnb.detect.presets.preset import Preset, Source, rule

OPENHANDS = Preset(
    "openhands",
    Source("OpenHands SDK", "1.58.2", "conversation/stuck_detector.py"),
    (
        rule(RepeatedCall, times={4: "stop"}, results="same", with_thought=True, rule="repeated_action_observation"),
        rule(RepeatedCall, times={3: "nudge", 4: "stop"}, results="errors", with_thought=True, rule="repeated_action_error"),
        rule(Monologue, times=3),
        rule(AlternatingCalls, calls=6, results="same"),
        rule(RoundLimit, most=500),
    ),
    "The same call and result 4 times, a failing call 3 or 4 times, 3 replies alone, 6 alternating calls, 500 rounds",
    "its rule for the context window is a stub that never fires",
)
OPENHANDS_V0 = Preset(
    "openhands_v0",
    Source("OpenHands", "V0", "controller/stuck.py"),
    (
        rule(RepeatedCall, times={4: "stop"}, results="same", with_thought=True, rule="repeated_action_observation"),
        rule(RepeatedCall, times={3: "stop"}, results="errors", with_thought=True, rule="repeated_action_error"),
        rule(Monologue, times=3),
        rule(AlternatingCalls, calls=6, results="same"),
        rule(Condensations, times=10),
    ),
    "The same call and result 4 times, a failing call 3 times, 3 replies alone, 6 alternating calls, 10 compactions",
    "its comparison of syntax errors by their text",
)
_GEMINI_CHUNKS = {"size": 50, "times": 10, "mean_gap": 250.0, "periods": 5}
GEMINI = Preset(
    "gemini",
    Source("Gemini CLI", "0.61.0", "loopDetectionService.js"),
    (
        rule(CycledCalls, lengths=range(1, 6), times=5, severity="nudge", then="stop", history=25, compare="as_written"),
        rule(RepeatedChunks, **_GEMINI_CHUNKS, severity="nudge", then="stop", history=5_000),
        rule(RoundLimit, most=100, each_turn=True, unit="turns"),
    ),
    "Any cycle of 1 to 5 calls made 5 times, a piece of 50 characters 10 times in a reply, 100 turns; keys are not sorted",
    "the model that judges after 30 turns: write one with @detector",
)
QWEN = Preset(
    "qwen",
    Source("Qwen Code", "0.15.10", "cli.js"),
    (
        rule(RepeatedCall, times=5, severity="stop", compare="as_written"),
        rule(RepeatedChunks, **_GEMINI_CHUNKS, severity="stop", history=1_000),
        rule(RepeatedThought, times=3),
        rule(MostlyReading, least=8, window=15),
        rule(RepeatedCall, times=8, severity="stop", compare="name", rule="same_tool"),
        rule(RepeatedCall, times=3, severity="stop", compare="name", results="invalid", rule="invalid_retries"),
    ),
    "The same call 5 times, a piece of text 10, a thought 3 times, 8 of 15 calls reading, one tool 8 times, 3 invalid calls",
)
CLINE = Preset(
    "cline",
    Source("Cline", "21cb8d25", "sdk/.../safety/loop-detection.ts"),
    (
        rule(RepeatedCall, times={3: "notice", 5: "stop"}),
        rule(RoundsWithErrors, times=3),
    ),
    "The same call 3 times (notice) and 5 times (stop), 3 consecutive mistakes, the default of its command line",
    "its core allows 6 mistakes and disables the detection by default",
)
ROO = Preset(
    "roo",
    Source("Roo Code", "cb836567", "ToolRepetitionDetector.ts, Task.ts"),
    (
        rule(RepeatedCall, times={4: "block"}),
        rule(RoundsWithErrors, times=2, severity="notice", failed=False, silent=True),
    ),
    "The 4th identical call is blocked, and 2 turns without a tool are a mistake",
    "its count restarts after each block",
)
OPENCODE = Preset(
    "opencode",
    Source("opencode", file="session/processor.ts"),
    (rule(RepeatedCall, times=3, severity="block", compare="as_written", rule="doom_loop"),),
    "The same call 3 times asks for permission",
)
CRUSH = Preset(
    "crush",
    Source("Crush", file="internal/agent/loop_detection.go"),
    (rule(FrequentStep, most=5, window=10),),
    "The same calls with the same results more than 5 times in the last 10 steps",
)
GOOSE = Preset(
    "goose",
    Source("Goose", file="tool_monitor.rs"),
    (),
    "Off by default: its max_repetitions has no default. RepeatedCall(n + 1) denies as it does with max_repetitions=n",
)
SAM = Preset(
    "sam",
    Source("SAM", "0562c2d", "AgentOrchestrator.swift"),
    (rule(RepeatedBatch, times=3), rule(RoundLimit, most=300, warn_at=0.8)),
    "The third consecutive reply whose calls all repeat those of the previous reply is blocked, 300 rounds",
    "floats are rounded before it compares",
)
PRESETS = (OPENHANDS, OPENHANDS_V0, GEMINI, QWEN, CLINE, ROO, OPENCODE, CRUSH, GOOSE, SAM)
