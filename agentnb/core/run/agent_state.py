"""The agent's state: thinking, executing, or waiting for the person, and the events that switch it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.core.log.event import Status

AgentState: TypeAlias = Literal["thinking", "executing_tool", "executing_plan", "waiting_on_user"]
EXECUTION = "llm/exec:run_plan"
"""Action of a task that runs a plan."""
PLAN_TOOL = "agent_create_plan"
"""The chat's tool for making plans; the agent is thinking while it runs."""
ASKING = "question-"
"""Prefix of the number in the path of a plan step that asks the person instead of making a call."""
CUT_OFF = frozenset({"cancelled", "time_limit"})
"""Error codes of calls cut off by the end of the turn: the agent does not go on to think about their results."""

_WITH_WORDS = frozenset({"completed", "limited", "unknown"})
"""End statuses of runs whose last text is for the person."""


class PlanPosition(NamedTuple):
    """The progress of a running plan."""

    step: int
    """Number of the most recent step, from 1, as in the plan; 0 before the first."""
    steps: int
    """Number of all steps, including those dropped or not run."""


class AgentStateMachine(msgspec.Struct, gc=False):
    """The agent's state, switched by the events of its run. Called only by the fold.

    An open question or a pause takes precedence over everything else, and a plan takes precedence over the tools that its
    steps call. After the person's answer, if nothing runs, the state remains until the next event.
    """

    executions: dict[str, tuple[str, int]] = {}
    """For each running plan, the path of the most recent step and the number of steps; keyed by the path of the task or the id
    of the call that runs the plan."""
    _calls: set[tuple[str, str]] = set()
    """Open tool calls by step and id."""
    _held: AgentState | Literal["works"] | None = None
    """The state to keep until the next event, regardless of open calls; ``works``: derive it from them."""
    _waits: bool = False
    """True if a question is open or the run is paused."""
    _has_words: bool = False
    """True if the last reply ended the turn with text."""

    @property
    def state(self) -> AgentState | None:
        """The current state, or None before the first round or step, and after a run that ended without text for the person."""
        if self._held != "works":
            return self._held
        if self._waits:
            return "waiting_on_user"
        if self.executions:
            return "executing_plan"
        return "executing_tool" if self._calls else "thinking"

    @property
    def position(self) -> PlanPosition | None:
        """Progress of the most recent plan, or None if no plan is running."""
        current = next(reversed(self.executions.values()), None)
        return None if current is None else PlanPosition(plan_step_number(current[0]) + 1, current[1])

    def begin_round(self) -> None:
        """Start thinking: a round begins. A trace may lack results of the previous round."""
        self._calls.clear()
        self._has_words = False
        self._held = "works"

    def say(self) -> None:
        """Wait for the person: the model's text ends its turn."""
        self._held = "waiting_on_user"
        self._has_words = True

    def start_call(self, call_id: str, name: str, step: str = "") -> None:
        """Start executing a tool, or thinking about a plan."""
        if name != PLAN_TOOL:
            self._calls.add((step, call_id))
        self._held = "works"

    def end_call(self, call_id: str, step: str = "", error_code: str | None = None) -> None:
        """Return to thinking after the last open call, unless that call was cut off by the end of the turn."""
        self._held = "works" if step or error_code not in CUT_OFF else self.state
        self._calls.discard((step, call_id))
        self.executions.pop(call_id, None)

    def begin_step(self, path: str) -> None:
        """Advance the running plan; any other step counts as thinking until it calls a tool."""
        execution = path.rpartition("/")[0] if self.executions else ""
        if (running := self.executions.get(execution)) is not None:
            self.executions[execution] = path, running[1]
        self._held = "works"

    def begin_plan(self, path: str, steps: int) -> None:
        """Start executing a plan."""
        self.executions[path] = "", steps
        self._held = "works"

    def end_step(self, path: str) -> None:
        """End a plan; the state remains until the next event."""
        if path in self.executions:
            self._held = self.state
            del self.executions[path]

    def wait(self, is_waiting: bool) -> None:
        """Wait for the person, or continue once all questions are answered."""
        works = is_waiting or self._calls or self.executions
        self._held = "works" if works else self.state
        self._waits = is_waiting

    def resume(self, is_waiting: bool) -> None:
        """Continue in another process, which restarts the open calls and continues the plans."""
        self._calls.clear()
        self._waits = is_waiting
        self._held = "works"

    def end(self, status: Status) -> None:
        """End the run: the agent waits for the person if text ended its turn and it neither failed nor was stopped."""
        self._calls.clear()
        self.executions.clear()
        has_words = self._has_words and status in _WITH_WORDS
        self._waits = self._has_words = False
        self._held = "waiting_on_user" if has_words else None


def plan_step_number(path: str) -> int:
    """Return the step number of a path such as ``exec/3`` or ``exec/question-3``; -1 for the plan itself."""
    number = path.rpartition("/")[2].removeprefix(ASKING)
    return int(number) if number.isascii() and number.isdigit() and len(number) < 6 else -1
