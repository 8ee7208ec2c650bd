"""Gates: whether a call may run. Each is a function of the call and the run so far; the first that blocks wins."""

from agentnb.policies.gates.batch import BatchGuard
from agentnb.policies.gates.block import Block, Gate, admitted
from agentnb.policies.gates.duplicate import DuplicateGuard

__all__ = ["BatchGuard", "Block", "DuplicateGuard", "Gate", "admitted"]
