"""The state of the agent: which events switch it between thinking, executing and waiting for the person."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.core.log.event import Status

AgentState: TypeAlias = Literal["thinking", "executing_tool", "executing_plan", "waiting_on_user"]
EXECUTION = "llm/exec:run_plan"
"""The action of a task that runs a plan."""
PLAN_TOOL = "agent_create_plan"
"""The tool with which a chat makes plans: while one is made, the agent thinks."""
ASKING = "question-"
"""The prefix of the number in the path of a plan's step that asks the person, in place of a call."""
CUT_OFF = frozenset({"cancelled", "time_limit"})
"""Error codes of calls that the end of the turn cut off: the agent does not think about their results."""

_WITH_WORDS = frozenset({"completed", "limited", "unknown"})
"""The ends of runs whose last words are for the person."""


class PlanPosition(NamedTuple):
    """How far a running plan has come."""

    step: int
    """The number of the step that began last, from 1, as the plan has them; 0 before the first."""
    steps: int
    """All its steps, those that are dropped or not run included."""


class AgentStateMachine(msgspec.Struct, gc=False):
    """The state of the agent, switched by the events of its run. Only the fold calls it.

    An open question or a pause wins over the rest, and a plan over the tools that its steps call. When the person has
    answered and nothing runs, the state stays until the next event shows what the agent does.
    """

    executions: dict[str, tuple[str, int]] = {}
    """The plans that run, by the path of the task or the id of the call that runs each: the path of the step that began last,
    and how many steps there are.
    """
    _calls: set[tuple[str, str]] = set()
    """Open tool calls, by step and id."""
    _held: AgentState | Literal["works"] | None = None
    """The state that stays until the next event, whatever runs; ``works`` if what runs decides."""
    _waits: bool = False
    """Whether a question is open, or the run is paused."""
    _has_words: bool = False
    """Whether the last reply ended the turn with words."""

    @property
    def state(self) -> AgentState | None:
        """None before the first round or step, and when the run has ended without words for the person."""
        if self._held != "works":
            return self._held
        if self._waits:
            return "waiting_on_user"
        if self.executions:
            return "executing_plan"
        return "executing_tool" if self._calls else "thinking"

    @property
    def position(self) -> PlanPosition | None:
        """How far the plan that began last has come; None while none runs."""
        current = next(reversed(self.executions.values()), None)
        return None if current is None else PlanPosition(plan_step_number(current[0]) + 1, current[1])

    def begin_round(self) -> None:
        """Think: a round begins. Its trace may lack results of the round before."""
        self._calls.clear()
        self._has_words = False
        self._held = "works"

    def say(self) -> None:
        """Wait for the person: the model's words end its turn."""
        self._held = "waiting_on_user"
        self._has_words = True

    def start_call(self, call_id: str, name: str, step: str = "") -> None:
        """Execute a tool, or think about a plan."""
        if name != PLAN_TOOL:
            self._calls.add((step, call_id))
        self._held = "works"

    def end_call(self, call_id: str, step: str = "", error_code: str | None = None) -> None:
        """Think again when the last open call has ended, unless the end of the turn cut it off."""
        self._held = "works" if step or error_code not in CUT_OFF else self.state
        self._calls.discard((step, call_id))
        self.executions.pop(call_id, None)

    def begin_step(self, path: str) -> None:
        """Count a step of a running plan; any other is thought, until it calls a tool."""
        execution = path.rpartition("/")[0] if self.executions else ""
        if (running := self.executions.get(execution)) is not None:
            self.executions[execution] = path, running[1]
        self._held = "works"

    def begin_plan(self, path: str, steps: int) -> None:
        """Execute a plan."""
        self.executions[path] = "", steps
        self._held = "works"

    def end_step(self, path: str) -> None:
        """Note that a plan is over; the next event shows what the agent does then."""
        if path in self.executions:
            self._held = self.state
            del self.executions[path]

    def wait(self, is_waiting: bool) -> None:
        """Wait for the person, or continue what runs when all is answered."""
        works = is_waiting or self._calls or self.executions
        self._held = "works" if works else self.state
        self._waits = is_waiting

    def resume(self, is_waiting: bool) -> None:
        """Continue in another process, which begins the open calls again, and continues the plans."""
        self._calls.clear()
        self._waits = is_waiting
        self._held = "works"

    def end(self, status: Status) -> None:
        """End the run: it waits for the person if words ended its turn, and it neither failed nor was stopped."""
        self._calls.clear()
        self.executions.clear()
        has_words = self._has_words and status in _WITH_WORDS
        self._waits = self._has_words = False
        self._held = "waiting_on_user" if has_words else None


def plan_step_number(path: str) -> int:
    """Return the number of the step that ``exec/3`` or ``exec/question-3`` is; -1 for the plan itself."""
    number = path.rpartition("/")[2].removeprefix(ASKING)
    return int(number) if number.isascii() and number.isdigit() and len(number) < 6 else -1
