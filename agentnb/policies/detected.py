"""Reactions to findings of detectors during a run: first a nudge, then a block, then a stop.

Findings are logged events, so that resumed and replayed runs decide in the same way. Reactions escalate one step at a time, up
to the severity of the finding; a notice is only logged.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.guidance import Guidance
from agentnb.core.log.work_events import FindingMade
from agentnb.core.messages import ToolCall
from agentnb.core.run.call_window import call_key
from agentnb.detect.run import Run
from agentnb.policies.gates.gate_verdicts import Block, blocked_as_duplicate
from agentnb.policies.loop_policies import LOOP_BROKEN
from agentnb.policies.verdict import Stop

NOTICE, NUDGE, BLOCK, STOP = range(4)
LEVELS = {"notice": NOTICE, "nudge": NUDGE, "block": BLOCK, "stop": STOP}
WITHIN = 12
"""Number of rounds within which earlier findings of the same family count as steps; after a longer quiet period, reactions
restart with a nudge."""
SET = "detect"
"""Guidance set under which nudges are logged."""
CELL = "detected"
FAMILIES_OF_LOOPS = frozenset({"loop", "stall"})


def step_of(finding: FindingMade, findings: Sequence[FindingMade]) -> int:
    """Return the reaction to a finding: one step above the reaction to the family's last finding, but at most the severity of
    this one.
    """
    rounds = {finding.last}
    for earlier in reversed(findings):
        if earlier.last < finding.last - WITHIN:
            break
        if earlier.family == finding.family and earlier.last <= finding.last and earlier.severity != "notice":
            rounds.add(earlier.last)
    return min(LEVELS[finding.severity], len(rounds))


def last_findings(run: Run) -> list[tuple[int, FindingMade]]:
    """Return the findings of the last finished round with their reactions, the strongest first."""
    last, findings = run.last_finished_round, run.findings
    if last is None or not findings or findings[-1].last < last.index:
        return []
    mine: list[FindingMade] = []
    for finding in reversed(findings):
        if finding.last < last.index:
            break
        mine.append(finding)
    return sorted([(step_of(finding, findings), finding) for finding in reversed(mine)], key=lambda pair: -pair[0])


def nudge(run: Run) -> Guidance | None:
    """Guide: report a finding of the previous round to the model."""
    for step, finding in last_findings(run):
        if step >= NUDGE:
            last = "You were told this before: the run will be stopped if this continues. " if step > NUDGE else ""
            text = f"{finding.sentence}. {last}Do something new, or say what prevents you."
            return Guidance(SET, CELL, text, level=min(step, STOP), trigger=finding.rule, asks=("called", "answered_anew"))
    return None


def block(call: ToolCall, run: Run) -> Block | None:
    """Gate: block a repeated call that produced nothing new."""
    for step, finding in last_findings(run):
        if step >= BLOCK and isinstance(finding.evidence, dict) and finding.evidence.get("tool") == call.name:
            same = ToolCall(call.name, finding.evidence.get("arguments"))
            if "arguments" in finding.evidence and call_key(same) == call_key(call):
                return blocked_as_duplicate(call, finding.rule, finding.sentence, run.calls.outputs.get(call_key(call)))
    return None


def stop(run: Run) -> Stop | None:
    """Policy: end the run after an unsuccessful nudge and block."""
    for step, finding in last_findings(run):
        if step >= STOP:
            reason = "loop_detected" if finding.family in FAMILIES_OF_LOOPS else f"{finding.family}_detected"
            return Stop(reason, "stopped", round_status=LOOP_BROKEN)
    return None
