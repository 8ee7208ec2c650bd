"""Conversations as hypothesis makes them up: what is asked, what the model says to it, and how each turn is left.

Only what is drawn is here, as plain data that shrinks to something short; `played_conversations` really runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from agentnb import Matrix, Minimal
from agentnb.context.history_settings import History
from agentnb.core.todos import TODO_TOOL

Way: TypeAlias = Literal[
    "natural",
    "stop button",
    "kernel interrupt",
    "cancelled by its task",
    "pause",
    "pause and stop",
    "said in between",
    "round limit",
    "tool call limit",
    "tool call limit of a turn",
    "time limit",
    "token limit",
    "budget",
    "marker",
    "tool exception",
    "tool timeout",
    "tool that will not be cancelled",
    "interrupt in a tool",
    "model error",
    "model error mid-stream",
    "model without a reply",
    "model finds it too long",
    "model interrupted",
    "retry mid-stream",
    "reply cut off",
    "broken tool JSON",
    "process killed",
    "disk full",
]
WAYS: tuple[Way, ...] = Way.__args__


@dataclass(frozen=True)
class Call:
    """The model asks for a tool. Without an id the loop gives one; ids that were used before are drawn on purpose."""

    tool: str
    arguments: Any = None
    id: str = ""


@dataclass(frozen=True)
class Answer:
    """One reply of the model. ``breaks`` says what becomes of its stream after its words."""

    words: str = ""
    calls: tuple[Call, ...] = ()
    thinks: bool = False
    ends: str = ""
    breaks: Literal["", "error", "error at once", "too long", "no reply", "interrupt", "retry"] = ""


@dataclass(frozen=True)
class Turn:
    """What is asked, what the model says to it, one answer a round, and how the turn is left.

    ``at``: after how many things that were told (events and pieces of a stream) it is left, or before which event of the
    log, for ways that need a place; ``loaded``: whether the next turn goes on from the log on disk, or from memory.
    """

    prompt: str
    answers: tuple[Answer, ...] = ()
    way: Way = "natural"
    at: int = 0
    torn: int = 0
    """Of a killed process: how many bytes of the next event were written."""
    loaded: bool = False
    recovered: bool = False
    """Of a killed process: whether another goes on with the run itself, before the next turn begins."""
    tools: bool = True
    summary: Literal["words", "", "error", "none"] = "words"
    """What the model gives when it is asked for a summary; ``none``: it is no language model, and is not asked."""
    settings: tuple[tuple[str, Any], ...] = ()
    """Of its agent."""


Conversation: TypeAlias = tuple[Turn, ...]

PROMPTS = st.sampled_from(["Go on.", "And now?", "Zähl die 🐟!", "- look `fine(1)`\n- `plain(2)`\n", "  x  ", "[CONTINUE]"])
WORDS = st.sampled_from(
    [
        "",
        " \n",
        "I look.",
        "The table has three columns and twelve rows, and none of its values is missing.",
        "Half a \ud83d and a whole 🐟",
        "At it.\n[CONTINUE]",
        "I call fine(x=1) now.",
        '<tool_call>{"name": "fine", "arguments": {"x": 1}}</tool_call>',
        "<system-reminder>\nNo.\n</system-reminder>",
    ]
)
MARKERS = (
    "[WORKFLOW_COMPLETE]",
    "Done.\n[WORKFLOW_COMPLETE]\n",
    '{"status": "stop"}',
    'Well.\n{"status":"complete"}',
    "[CONTINUE]",
)
IDS = st.sampled_from(["", "", "", "same", "toolu_1", "call 1/ü", "x" * 70])
TODO_LIST = [{"id": number, "title": f"Thing {number}", "status": "not-started"} for number in (1, 2)]
TODO_CALLS = (
    {"operation": "write", "todoList": TODO_LIST},
    {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}]},
    {"operation": "read"},
    {"operation": "nonsense"},
)
QUIET_TOOLS = ("fine", "plain", "beside", "nothing", "blank", "picture", "large", "fails", "unknown tool")
READS = ({"handle": "same"}, {"handle": "toolu_1", "offset": 500, "length": 10}, {"handle": "toolu_1", "offset": 10**6})
BROKEN: tuple[Any, ...] = ('{"x": ', "", [1], 7, {"x": "no number"}, {"y": 1}, {"x": [[[]]]}, {"": None})

CALLS = st.one_of(
    st.builds(Call, st.sampled_from(QUIET_TOOLS), st.sampled_from([None, {"x": 1}, {"x": 2}]), IDS),
    st.builds(Call, st.just(TODO_TOOL), st.sampled_from(TODO_CALLS)),
    st.builds(Call, st.just("read_tool_result"), st.sampled_from(READS)),
)
ANSWERS = st.builds(
    Answer,
    words=WORDS,
    calls=st.lists(CALLS, max_size=3).map(tuple),
    thinks=st.booleans(),
    ends=st.sampled_from(["", "", "", "", "pause_turn", "tool_use", "stop_sequence"]),
)


HISTORIES = st.sampled_from(["full", "documented"]) | st.builds(
    History,
    share=st.sampled_from([None, 0.5]),
    window=st.sampled_from([300, 1_000]),
    compact_above=st.sampled_from([None, 3, 6]),
    keep_recent=st.integers(1, 2),
    max_messages=st.sampled_from([None, 2, 3, 6]),
    result_characters=st.sampled_from([None, 1_000]),
    failed_rounds_above=st.sampled_from([None, 1, 4]),
)


def _settings() -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    """What an agent may be set to in a turn; each setting may also be left as it is usual."""
    policies = [Minimal(), Matrix(workflow_mode=True), Matrix(workflow_mode=True, workflow_drops_text=True)]
    drawn = st.fixed_dictionaries(
        {},
        optional={
            "policy": st.sampled_from(policies),
            "guidance": st.just("off"),
            "todos": st.just(False),
            "system": st.sampled_from(["", "Be brief."]),
            "history": HISTORIES,
        },
    )
    return drawn.map(lambda chosen: tuple(chosen.items()))


def _one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


SOME_WORDS = _one_of("Half of ", "So far 🐟", "")
CALLS_OF: dict[Way, st.SearchStrategy[Call]] = {
    "tool call limit": st.builds(Call, _one_of("fine", "plain", "beside"), st.just({"x": 3})),
    "tool call limit of a turn": st.builds(Call, _one_of("fine", "plain", "beside"), st.just({"x": 3})),
    "tool exception": st.builds(Call, _one_of("fails", "fails_beside", "quits", "ends_an_iteration", "cancels_itself")),
    "tool timeout": st.builds(Call, _one_of("hangs", "hangs_beside")),
    "tool that will not be cancelled": st.builds(Call, st.just("stubborn")),
    "time limit": st.builds(Call, _one_of("hangs", "hangs_beside", "stubborn")),
    "interrupt in a tool": st.builds(Call, _one_of("interrupts", "interrupts_beside")),
    "broken tool JSON": st.builds(Call, st.just("fine"), _one_of(*BROKEN), IDS),
}
"""A call that stands among the others of an answer, so that the turn can be left in this way."""
LIMITS_OF: dict[Way, st.SearchStrategy[dict[str, Any]]] = {
    "round limit": st.fixed_dictionaries({"max_rounds": st.integers(1, 3)}),
    "tool call limit": st.fixed_dictionaries({"max_tool_calls": st.integers(1, 3)}),
    "tool call limit of a turn": st.fixed_dictionaries({"max_tool_calls_per_turn": st.integers(1, 2)}),
    "time limit": st.fixed_dictionaries({"max_seconds": _one_of(0.5, 0.5, 4.0)}),
    "token limit": st.fixed_dictionaries({"max_tokens": _one_of(1, 1_000, 3_000)}),
    "budget": st.fixed_dictionaries({"budget": _one_of(0.005, 0.005, 0.025)}),
}
"""The limits of an agent, low enough to be reached."""
ON_LIMIT = _one_of("stop", "final_answer", "raise")
ENDS_OF: dict[Way, st.SearchStrategy[dict[str, Any]]] = {
    "marker": st.fixed_dictionaries({"words": _one_of(*MARKERS)}),
    "model error": st.just({"breaks": "error at once"}),
    "model finds it too long": st.just({"breaks": "too long"}),
    "model error mid-stream": st.fixed_dictionaries({"breaks": st.just("error"), "words": SOME_WORDS}),
    "model without a reply": st.fixed_dictionaries({"breaks": st.just("no reply"), "words": SOME_WORDS}),
    "model interrupted": st.fixed_dictionaries({"breaks": st.just("interrupt"), "words": SOME_WORDS}),
    "retry mid-stream": st.just({"breaks": "retry"}),
    "reply cut off": st.fixed_dictionaries({"ends": _one_of("max_tokens", "refusal", "length", "content_filter")}),
}
"""What is particular about the last answer."""


def _as_the_way_wants(draw: st.DrawFn, way: Way, answers: list[Answer]) -> tuple[Answer, ...]:
    """The answers, changed so that the turn can be left in this way."""
    if way in CALLS_OF:
        at = draw(st.integers(0, len(answers) - 1))
        calls = list(answers[at].calls)
        calls.insert(draw(st.integers(0, len(calls))), draw(CALLS_OF[way]))
        answers[at] = replace(answers[at], calls=tuple(calls))
    if way in ENDS_OF:
        answers[-1] = replace(answers[-1], **draw(ENDS_OF[way]))
    return tuple(answers)


@st.composite
def turns(draw: st.DrawFn, ways: tuple[Way, ...] = WAYS) -> Turn:
    """One turn of a conversation, left in one of these ways."""
    way = draw(st.sampled_from(ways))
    answers = draw(st.lists(ANSWERS, min_size=1, max_size=3))
    limits = {"max_rounds": 7}
    if way in LIMITS_OF:
        limits |= {**draw(LIMITS_OF[way]), "on_limit": draw(ON_LIMIT)}
    return Turn(
        prompt=draw(PROMPTS),
        answers=_as_the_way_wants(draw, way, answers),
        way=way,
        at=draw(st.integers(0, 24)),
        torn=draw(st.integers(0, 300)) if way == "process killed" else 0,
        loaded=draw(st.booleans()),
        recovered=way == "process killed" and draw(st.booleans()),
        tools=draw(st.integers(0, 5)) > 0,
        summary=draw(_one_of("words", "", "error", "none")),
        settings=(*limits.items(), *draw(_settings())),
    )


def conversations(way: Way) -> st.SearchStrategy[Conversation]:
    """Conversations of two to four turns of which one, not the last, is left in this way."""
    few = st.lists(turns(), max_size=1), turns((way,)), st.lists(turns(), min_size=1, max_size=2)
    return st.tuples(*few).map(lambda parts: (*parts[0], parts[1], *parts[2]))
