"""Open tool calls: who makes each, and what an earlier process logged of it."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb.core.messages import ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.policies.gates import Block
from agentnb.tools.tool import ToolOutcome


class Caller(NamedTuple):
    """The maker of a tool call: the model in a round, the tool of another call, or a step."""

    kind: Literal["round", "call", "step"] = "round"
    id: str = ""
    """Id of the other call, or path of the step; empty for a round, as only one is open."""

    @property
    def place(self) -> tuple[str, str]:
        """The maker as events hold it: id of the call whose tool made the call, and path of the step; one is empty, or both."""
        return self.id if self.kind == "call" else "", self.id if self.kind == "step" else ""


MODEL = Caller()
NO_PLACE = MODEL.place


@dataclass(slots=True)
class PlacedCall:
    """A call that no model made: its maker, and its end once there is one."""

    call: ToolCall
    caller: Caller
    outcome: ToolOutcome | None = None
    block: Block | None = None
    """The verdict that kept it from running, if one did."""


class EarlierCall(NamedTuple):
    """What a process that died had logged of a call without a result."""

    question: WaitingOnUser | None = None
    """The question whether it may run, if that was asked."""
    start: ToolCall | None = None
    """The call as its tool had begun to run it, if it had."""
    is_judged: bool = True
    """Whether the verdict of the gates stands. Else they judge the call again, and an equal question is not asked twice."""


Begun: TypeAlias = tuple[Coroutine[Any, Any, None] | None, bool]
"""The work of a call that is left to await, if any, and whether the call waits for the person."""
