"""Wording for the steps of a workflow, used in both HTML and text."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentnb.core.plans.plan_history import GENERATION
from agentnb.core.plans.plan_steps import ASKING, BLOCKED, CALL, DROPPED, KNOWN, NOT_RUN, PASSED, PENDING
from agentnb.core.run.work_records import StepRecord
from agentnb.core.step_retry import format_retries
from agentnb.display.texts.labels import clean, duration, first_line, pluralize, times
from agentnb.display.texts.states import STEP_STATES
from agentnb.workflow.graph.drawing import DrawnNode
from agentnb.workflow.graph.node_states import RETRYING, NodeState

SUBSTITUTED = "substituted"
"""State of a step that failed but completed with a substitute (`NodeState.is_substituted`); its status is completed."""
SUBSTITUTE = "used a substitute"
MARKS = {
    "": "○",
    "running": "●",
    "waiting": "◆",
    "retrying": "↻",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "■",
    "interrupted": "■",
    "skipped": "⊘",
    SUBSTITUTED: "▲",
    **dict.fromkeys((DROPPED, KNOWN, PASSED, NOT_RUN, BLOCKED), "⊘"),
}
"""The mark of each state, as for runs and todos; the last ones are for plans."""
TONES = {
    "running": "active",
    "waiting": "asking",
    "retrying": "warn",
    "completed": "good",
    "failed": "bad",
    "cancelled": "warn",
    "interrupted": "warn",
    SUBSTITUTED: "warn",
    BLOCKED: "warn",
}
"""The tone of each state that is not neutral."""
WORDS = {
    **STEP_STATES,
    SUBSTITUTED: SUBSTITUTE,
    PENDING: "pending",
    KNOWN: "already has a result",
    BLOCKED: "blocked as a repeat",
    NOT_RUN: "not run",
    PASSED: "nothing to do",
}
"""The word for each displayed state of a step in a workflow or plan."""
DONE = ("completed", PASSED, KNOWN)
"""States that count as done."""
COUNTED = {"failed": "failed", BLOCKED: "blocked", DROPPED: "dropped", NOT_RUN: "not run", **STEP_STATES}
"""Words for the states that are counted, in order."""
MIN_SECONDS = 0.1
"""Shortest step duration, in seconds, that is shown."""
KINDS = {"condition": "if", "human": "asks you:", "folded": ""}
"""Words for kinds of steps whose own names do not read well."""
ASKS = "asks you"
"""The name of a call that asks the person."""
MAX_WORDS_CHARACTERS = 200
"""Maximum characters of a condition or a question."""


def name_of_step(record: StepRecord) -> str:
    """Return the name of a step: the last part of its path or, for a call made by an action, the call's target."""
    return call_name(record.id, record.agent, record.title) if record.kind == CALL else record.id.rpartition("/")[2]


def call_name(path: str, agent: str, title: str) -> str:
    """Return the name of a call made by an action, such as ``planning``, ``asks you`` or ``0 tides_fetch``."""
    last = path.rpartition("/")[2]
    if title == GENERATION:
        return "planning"
    if last.startswith(ASKING):
        return ASKS
    return f"{last} {agent}" if agent else last


def state_of_step(state: NodeState | StepRecord, status: str) -> str:
    """Return the displayed state of a step: its status, or that it used a substitute."""
    return SUBSTITUTED if status == "completed" and state.is_substituted else status


def word_of(state: str) -> str:
    """Return the word for a step's displayed state; empty before it starts."""
    return WORDS.get(state, "")


def mark_of(state: str) -> str:
    """Return the mark of a state; for an unknown state, the mark of a step that has not started."""
    return MARKS.get(state, MARKS[""])


def about(node: DrawnNode, longest: int = MAX_WORDS_CHARACTERS) -> str:
    """Return a step's kind and content: ``agent writer``, ``tool search``, ``if $steps.qa.output.ok``."""
    words = clean(node.words[:10_000]).strip()
    if node.kind == "condition":
        words = words.removeprefix("{{").removesuffix("}}").strip()
    if words == node.id:
        words = ""
    return first_line(f"{KINDS.get(node.kind, node.kind)} {words}", longest)


def figures(count: int, attempts: int, status: str, seconds: float | None = None) -> str:
    """Return ``3 times, 2 attempts, 1 retry, 1.2 s``; empty for a routine step. ``count``: the number of times it started."""
    parts = [times(count)] if count > 1 else []
    if status == RETRYING:
        parts.append(f"{pluralize(attempts, 'attempt')} failed")
    elif attempts > 1:
        parts.append(f"{pluralize(attempts, 'attempt')}, {format_retries(attempts - 1)}")
    return ", ".join([*parts, *([duration(seconds)] if seconds and seconds >= MIN_SECONDS else [])])


def counts(states: Mapping[str, int], unsaid: Collection[str] = ()) -> str:
    """Return ``12 done``, ``9 of 12 done, 1 failed``, ``5 steps``. ``unsaid``: states that are not listed separately."""
    total, done_count = sum(states.values()), sum(states.get(state, 0) for state in DONE)
    if done_count == total:
        return f"{total:,} done"
    listed_states = COUNTED.keys() - {*DONE, *unsaid}
    parts = [f"{states[state]:,} {word}" for state, word in COUNTED.items() if states.get(state) and state in listed_states]
    return ", ".join([f"{done_count:,} of {total:,} done" if done_count or parts else pluralize(total, "step"), *parts])
