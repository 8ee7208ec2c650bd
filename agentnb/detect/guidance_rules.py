"""The rules of guidance, and whether a reply followed them. See docs/guidance.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from agentnb.core.guidance import Followed, Guidance

CELLS = ("todos_tools", "todos_text", "tools", "text")
"""The four cells of the matrix, by open todos and by tool use in the previous round."""
INTERVENTION = "intervention"
"""The cell of an intervention: the loop continues although the model gave no cause."""
WORKFLOW = "workflow"
ALREADY_SAID = "already_said"
TOOL_FAILED = "tool_failed"
"""The cell of guidance after a round in which a tool failed."""
FAILURE_LOOP = "failure_loop"
"""The cell of guidance after one tool failed in several rounds in a row."""
TODO_LIST = "todo_list"
"""The cell with the todo list, used if the model has not seen its current state."""
CONTEXT_SHIFT = "context_shift"
"""The cell that announces a conversation's new context after a shift."""


class RoundFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a round by which guidance is judged. Custom guidance refers to them in ``asks`` and ``forbids``."""

    replied: bool
    called: bool
    """True if it has a tool call."""
    answered: bool
    """True for a text-only reply."""
    worked: bool
    """True if a work tool ran."""
    completed: bool
    """True if the model completed a todo."""
    blocked: bool
    """True if the model marked a todo as blocked."""
    undisciplined: bool
    """True if a work tool ran while no todo was in progress."""
    complete: bool
    """True if the model's marker says that everything is complete."""
    repeats: bool
    """True if it repeats an earlier answer."""
    made_again: bool = False
    """True if it has calls, all of which repeat, unchanged, failed calls of the previous round."""
    failed_again: bool = False
    """True if it has only calls to tools that failed in several rounds in a row, and none succeeded."""
    completed_unfinished: bool = False
    """True if a todo was completed right after its work failed, before any other work."""
    ended_blocked: bool = False
    """True for a text-only reply while every open todo is marked blocked: only reporting is left to do."""
    acted: bool = False
    """True if it calls a work tool and does more than repeat calls with unchanged results."""
    worked_anew: bool = False
    """True if such a call ran."""
    marked: bool = False
    """True if the model completed a todo after work that ran since it last completed or blocked one."""
    begun: bool = False
    """True if the model marked todos in-progress, one at a time."""
    begun_beside: bool = False
    """True if it began a todo without finishing those in progress, unless they may run in parallel."""
    planned: bool = False
    """True if the model added todos."""
    named_failure: bool = False
    """True for a text-only reply that names the previous round's failure."""
    left_unfinished: bool = False
    """True for a text-only reply while the todo whose work failed in the previous round is still in progress."""
    concluded: bool = False
    """True for a new text-only reply while no todo is open."""
    told_results: bool = False
    """True for a new text-only reply that uses the tools' results, if they returned any."""

    @property
    def answered_anew(self) -> bool:
        """True for a text-only reply that does not repeat an earlier answer."""
        return self.answered and not self.repeats


SENTENCES: Mapping[str, str] = {
    "called": "a tool was called",
    "answered": "answered with text",
    "answered_anew": "answered something new",
    "worked": "a work tool ran",
    "completed": "a todo was completed",
    "blocked": "a todo was marked as blocked",
    "undisciplined": "a work tool ran while no todo was in progress",
    "complete": "said that all is complete",
    "repeats": "the answer was given before",
    "made_again": "the failed call was repeated unchanged",
    "completed_unfinished": "the todo whose work had failed was marked completed",
    "ended_blocked": "every open todo is blocked, and the reply says so",
    "failed_again": "the tool that keeps failing was called again, and nothing else",
    "acted": "a work tool was called",
    "worked_anew": "a work tool ran",
    "marked": "a todo was completed after its work",
    "begun": "a todo was started",
    "begun_beside": "another todo was started while the previous one was left in progress",
    "planned": "new todos were added",
    "named_failure": "the answer mentions the failure",
    "left_unfinished": "the todo whose work had failed was left in progress",
    "concluded": "answered something new, and no todo is open",
    "told_results": "answered after its tools",
}
"""Descriptions of the facts, for people."""
NO_CALL = "no tool was called"
NOT_DEALT_WITH = "the failure was neither handled nor mentioned"
NO_WORK = "no new work was done, and the list did not change"


class Rule(NamedTuple):
    """A rule of guidance: followed if none of ``forbids`` and at least one of ``asks`` is a fact."""

    asks: tuple[str, ...]
    forbids: tuple[str, ...] = ()
    otherwise: str = ""
    """Reason if none of the facts in ``asks`` holds; by default, that no tool was called or no new work was done."""
    unknown: str = ""
    """Names of facts that this version does not know."""


HAS_CALL = Rule(("called", "ended_blocked"))
WORK = ("acted", "marked", "blocked", "begun", "ended_blocked")
ONWARD = ("complete", "acted", "marked", "blocked", "begun", "planned")
RULES: dict[str, Rule | None] = {
    TODO_LIST: None,
    CONTEXT_SHIFT: None,
    "todos_tools": Rule(WORK, ("undisciplined", "begun_beside")),
    "todos_text": Rule(WORK, ("begun_beside",)),
    "tools": Rule(
        ("told_results", "named_failure", *ONWARD),
        otherwise="no new work was done, and the answer does not use the tool results",
    ),
    "text": Rule((*ONWARD, "ended_blocked")),
    WORKFLOW: Rule((*ONWARD, "ended_blocked")),
    ALREADY_SAID: Rule(("concluded", *ONWARD, "ended_blocked")),
    TOOL_FAILED: Rule(
        ("acted", "blocked", "named_failure"),
        ("made_again", "completed_unfinished", "begun_beside"),
        NOT_DEALT_WITH,
    ),
    FAILURE_LOOP: Rule(
        ("acted", "blocked", "named_failure"), ("failed_again", "begun_beside", "left_unfinished"), NOT_DEALT_WITH
    ),
    INTERVENTION: Rule(
        ("worked_anew", "marked", "blocked", "ended_blocked"),
        ("begun_beside",),
        "nothing new was done or completed",
    ),
}
"""Default rule of each cell; None if its guidance asks for nothing."""
INFORMS = frozenset([cell for cell, rule in RULES.items() if rule is None])
"""Cells that only inform and are therefore not judged."""


def judge(guidance: Guidance, facts: RoundFacts) -> Followed:
    """Judge whether a reply with these facts followed the guidance, or return unknown if it asks for unknown facts."""
    if guidance.asks or guidance.forbids:
        return _judge_by(_own_rule(guidance), facts)
    return _judge_by_cell(guidance.cell, facts)


@lru_cache(maxsize=256)
def _judge_by_cell(cell: str, facts: RoundFacts) -> Followed:
    # Cached: most rounds of a run have the same facts.
    rule = RULES.get(cell, HAS_CALL)
    return Followed(None, "the guidance asks for nothing") if rule is None else _judge_by(rule, facts)


def _judge_by(rule: Rule, facts: RoundFacts) -> Followed:
    if not facts.replied:
        return Followed(None, "the model did not reply")
    if rule.unknown:
        return Followed(None, f"the guidance is about {rule.unknown}, which this version cannot judge")
    for names, is_followed in ((rule.forbids, False), (rule.asks, True)):
        for name in names:
            if getattr(facts, name):
                return Followed(is_followed, SENTENCES[name])
    why = rule.otherwise or (NO_WORK if facts.called else NO_CALL)
    return Followed(False, why) if rule.asks else Followed(True, "the forbidden action was not taken")


def unknown_facts(guidance: Guidance) -> list[str]:
    """Return the names in ``asks`` and ``forbids`` that are not facts, for instance because of a typo."""
    return [name for name in (*guidance.asks, *guidance.forbids) if name not in SENTENCES]


def _own_rule(guidance: Guidance) -> Rule:
    if unknown := unknown_facts(guidance):
        return Rule((), unknown=", ".join(unknown))
    wanted = ", or ".join(SENTENCES[name] for name in guidance.asks)
    return Rule(guidance.asks, guidance.forbids, f"not fulfilled: {wanted}")
