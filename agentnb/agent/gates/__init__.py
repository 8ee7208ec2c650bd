"""Gates: whether a call may run. Each is a function of the call and the run so far; the first that blocks wins."""

from agentnb.agent.gates.batch import BatchGuard
from agentnb.agent.gates.block import Block, Gate, admitted
from agentnb.agent.gates.duplicate import DuplicateGuard

__all__ = ["BatchGuard", "Block", "DuplicateGuard", "Gate", "admitted"]
