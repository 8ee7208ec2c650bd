"""The rules of libraries and metrics, round limits, and naive rules as baselines for every detector."""

from __future__ import annotations

from agentnb.detect.blocks.call_windows import FrequentCall
from agentnb.detect.blocks.repeated_calls import AlternatingCalls, RepeatedCall
from agentnb.detect.blocks.round_limits import RoundLimit
from agentnb.detect.blocks.score import CombinedScore
from agentnb.detect.blocks.texts import RepeatedText
from agentnb.detect.presets.preset import Preset, Source, rule

AGENTLY = Preset(
    "agently",
    Source("viant/agently", file="duplicate-call guard, as agentnb's DuplicateGuard documents it"),
    (
        rule(RepeatedCall, times=3, severity="block"),
        rule(FrequentCall, times=5, window=9, severity="block"),
        rule(AlternatingCalls, calls=8, severity="block"),
    ),
    "The 3rd identical call in a row, the call that is already 4 of the last 8, and A B A B A B A B",
)
DEEPEVAL = Preset(
    "deepeval",
    Source("DeepEval", "4.3.1", "agent_loop_detection"),
    (rule(CombinedScore, passes=0.5, calls={3: 0.5, 6: 0.0}, alike=(0.85, 0.95)),),
    "A score of the whole run from repeated calls, similar texts and cycles of calls falls below 0.5",
)
LANGGRAPH = Preset(
    "langgraph",
    Source("LangGraph", "1.2.22", "_internal/_config.py"),
    (rule(RoundLimit, most=10_007, unit="super-steps"),),
    "The recursion limit of 10,007 super-steps; a round of a trace counts as one",
)
LANGGRAPH_25 = Preset(
    "langgraph_25",
    Source("LangGraph", "before, langgraph#148", "_internal/_config.py"),
    (rule(RoundLimit, most=25, unit="super-steps"),),
    "Its earlier recursion limit of 25 super-steps",
)
SMOLAGENTS = Preset(
    "smolagents",
    Source("smolagents", "1.26"),
    (rule(RoundLimit, most=20, unit="steps"),),
    "The limit of 20 steps, after which it asks for a final answer",
)
MAGENTIC_ONE = Preset(
    "magentic_one",
    Source("AutoGen Magentic-One", "0.7.5"),
    (rule(RoundLimit, most=20, unit="turns"),),
    "The limit of 20 turns",
    "the ledger in which a model says whether it is in a loop: that is the agent's own claim, not evidence",
)
_NAIVE = Source("naive rule")
NAIVE = (
    Preset("naive_row", _NAIVE, (rule(RepeatedCall, times=3),), "3 identical calls in a row"),
    Preset("naive_window", _NAIVE, (rule(FrequentCall, times=4, window=8),), "4 identical calls of the last 8"),
    Preset("naive_turns", _NAIVE, (rule(AlternatingCalls, calls=4, severity="block"),), "Two alternating calls: A B A B"),
    Preset(
        "naive_texts",
        _NAIVE,
        (rule(RepeatedText, repeats=1, alike=90.0, window=5, within=1_000_000, same_names=False),),
        "Two replies without calls that are 90 per cent alike",
    ),
)
PRESETS = (AGENTLY, DEEPEVAL, LANGGRAPH, LANGGRAPH_25, SMOLAGENTS, MAGENTIC_ONE, *NAIVE)
