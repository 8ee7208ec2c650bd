"""How the steps of a workflow are worded, for HTML and text alike."""

from __future__ import annotations

from collections.abc import Mapping

from agentnb.core.plans.plan_history import GENERATION
from agentnb.core.plans.plan_steps import ASKING, BLOCKED, CALL, DROPPED, KNOWN, NOT_RUN, PASSED, PENDING
from agentnb.core.run.work_records import StepRecord
from agentnb.core.step_retry import retries_told
from agentnb.display.texts.labels import clean, counted, first_line, times
from agentnb.display.texts.states import STEP_STATES
from agentnb.workflow.graph.drawing import DrawnNode
from agentnb.workflow.graph.node_states import RETRYING, NodeState

SUBSTITUTED = "substituted"
"""The mark of a step that failed and completed with a substitute, `NodeState.is_substituted`; its status is completed."""
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
"""The mark of each state, as runs and todos have them; the last ones are those of plans."""
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
"""The tone of each state; others are quiet."""
WORDS = {
    **STEP_STATES,
    SUBSTITUTED: SUBSTITUTE,
    PENDING: "pending",
    KNOWN: "has its result already",
    BLOCKED: "blocked as a repeat",
    NOT_RUN: "not run",
    PASSED: "nothing to do",
}
"""The word for each state in which a step is shown, of a workflow or a plan."""
KINDS = {"condition": "if", "human": "asks you:", "folded": ""}
"""The words for kinds of steps that read better than their own."""
ASKS = "asks you"
"""The name of a call that asks the person."""
LONGEST = 200
"""Characters of a condition or a question."""


def name_of_step(record: StepRecord) -> str:
    """Return the name of a step: the last part of its path; of a call that an action makes, what it calls."""
    return call_name(record.id, record.agent, record.title) if record.kind == CALL else record.id.rpartition("/")[2]


def call_name(path: str, agent: str, title: str) -> str:
    """Return the name of a call of an action: ``planning``, ``asks you``, ``0 tides_fetch``."""
    last = path.rpartition("/")[2]
    if title == GENERATION:
        return "planning"
    if last.startswith(ASKING):
        return ASKS
    return f"{last} {agent}" if agent else last


def state_of_step(state: NodeState | StepRecord, status: str) -> str:
    """Return the state in which a step is shown: its status, or that it used a substitute."""
    return SUBSTITUTED if status == "completed" and state.is_substituted else status


def word_of(state: str) -> str:
    """Return the word for a state in which a step is shown; empty of one that has not begun."""
    return WORDS.get(state, "")


def mark_of(state: str) -> str:
    """Return the mark of a state; of an unknown one, that of a step that has not begun."""
    return MARKS.get(state, MARKS[""])


def about(node: DrawnNode, longest: int = LONGEST) -> str:
    """Return what a step is: ``agent writer``, ``tool search``, ``if $steps.qa.output.ok``."""
    words = clean(node.words[:10_000]).strip()
    if node.kind == "condition":
        words = words.removeprefix("{{").removesuffix("}}").strip()
    if words == node.id:
        words = ""
    return first_line(f"{KINDS.get(node.kind, node.kind)} {words}", longest)


def words_of(node: DrawnNode, state: NodeState, longest: int = LONGEST) -> str:
    """Return what a step is; where it stands for several that have begun, only its kind."""
    return KINDS.get(node.kind, node.kind) if state.items else about(node, longest)


def attempts_told(count: int) -> str:
    """Return ``3 attempts, 2 retries``: the first attempt is none of the retries."""
    return f"{counted(count, 'attempt')}, {retries_told(count - 1)}"


def figures(state: NodeState) -> str:
    """Return ``3 times, 2 attempts, 1 retry``, ``9 of 12 done, 1 failed``; empty where all is routine."""
    if state.items:
        return counts(state.items)
    found = [times(state.times)] if state.times > 1 else []
    has_failed = state.status == RETRYING
    found += [f"{counted(state.attempts, 'attempt')} failed"] if has_failed else []
    found += [attempts_told(state.attempts)] if state.attempts > 1 and not has_failed else []
    return ", ".join(found)


def counts(items: Mapping[str, int]) -> str:
    """Return ``12 done``, ``9 of 12 done, 1 failed``."""
    total, done = sum(items.values()), items.get("completed", 0)
    if done == total:
        return f"{total:,} done"
    rest = [f"{count:,} {STEP_STATES[status]}" for status, count in items.items() if status in STEP_STATES and count]
    others = [one for one in rest if not one.endswith(f" {STEP_STATES['completed']}")]
    return ", ".join([f"{done:,} of {total:,} done", *others])
