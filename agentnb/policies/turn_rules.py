"""Rules that decide how a turn ends, as opposed to guards, limits and detectors, which may end a run at any time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from agentnb.detect.run import Run
from agentnb.policies.continuation import CONTINUATIONS, STRICT
from agentnb.policies.ending import MENDED
from agentnb.policies.interventions import NUDGE
from agentnb.policies.verdict import OnTextOnly, Policy, Stop, Verdict, reason_of

TurnRule: TypeAlias = Literal["answer", "reply", "todos"]
"""Why a turn ends. ``answer``: an answer, a marker or workflow mode. ``reply``: an unusable reply. ``todos``: open todos."""
_PLANNING_TOO = frozenset({"blocked", "todo_intervention_exhausted"})
"""Stop reasons of answers with open todos that also occur after planning-only rounds."""
_RULES: dict[str, TurnRule] = {
    "natural": "answer",
    "said": "answer",
    "workflow_complete": "answer",
    "complete_with_open_todos": "answer",
    "workflow_mode_exhausted": "answer",
    **dict.fromkeys(CONTINUATIONS, "answer"),
    "error": "reply",
    "refusal": "reply",
    **dict.fromkeys(MENDED, "reply"),
    "open_todos": "todos",
    STRICT: "todos",
    NUDGE: "todos",
    **dict.fromkeys(_PLANNING_TOO, "todos"),
}


def turn_rule(verdict: Verdict, *, after_calls: bool) -> TurnRule | None:
    """Return the turn rule behind a verdict, or None for a guard, a limit, a detector or a person's own policy.

    ``after_calls``: True if the reply had tool calls.
    """
    reason = reason_of(verdict)
    if isinstance(verdict, Stop) and (verdict.loop or verdict.limit is not None or (after_calls and reason in _PLANNING_TOO)):
        return None
    return _RULES.get(reason)


def is_guard(verdict: Verdict, *, after_calls: bool) -> bool:
    """True if a guard, a limit, a detector or a person's own policy decided, not just a turn rule.

    Another round for an unusable reply counts as a guard's decision; one for open todos does not.
    """
    rule = turn_rule(verdict, after_calls=after_calls)
    return rule is None or (rule == "reply" and not isinstance(verdict, Stop))


def without_rules(policies: Iterable[Policy], rules: frozenset[TurnRule]) -> Iterator[Policy]:
    """Yield the policies without these turn rules: their verdicts become None."""
    for policy in policies:
        for inner in policy.policies if isinstance(policy, OnTextOnly) else (policy,):
            yield _silence(inner, rules)


def _silence(policy: Policy, rules: frozenset[TurnRule]) -> Policy:
    def judge(run: Run) -> Verdict | None:
        verdict = policy(run)
        is_silent = verdict is not None and turn_rule(verdict, after_calls=bool(run.last_round.records)) in rules
        return None if is_silent else verdict

    return judge
