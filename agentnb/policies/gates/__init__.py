"""Gates, which decide whether a call may run: functions of the call and the run so far; the first that blocks wins."""

from agentnb.policies.gates.block import Block, Gate, admitted
from agentnb.policies.gates.duplicate import BatchGuard, DuplicateGuard

__all__ = ["BatchGuard", "Block", "DuplicateGuard", "Gate", "admitted"]
