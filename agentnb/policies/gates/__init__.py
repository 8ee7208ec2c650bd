"""Gates decide whether a call may run: pure functions of the call and the run so far."""

from agentnb.policies.gates.duplicate import BatchGuard, DuplicateGuard
from agentnb.policies.gates.gate_verdicts import Allow, Ask, Block, Deny, Gate, OnCopy, Verdict, as_copy, deny, judge

__all__ = [
    "Allow",
    "Ask",
    "BatchGuard",
    "Block",
    "Deny",
    "DuplicateGuard",
    "Gate",
    "OnCopy",
    "Verdict",
    "as_copy",
    "deny",
    "judge",
]
