"""Decisions after each round of a recorded run, and the reasons for them."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.log import events as e
from agentnb.core.run.rounds import FINAL_ANSWER, WorkflowRound
from agentnb.core.todos import Todo, open_todos
from agentnb.detect.run import Run
from agentnb.detect.walk import RoundEvents
from agentnb.policies.gates import Block, judge
from agentnb.policies.run_limits import LIMITS
from agentnb.policies.turn_rules import TurnRule
from agentnb.policies.verdict import Continue
from agentnb.rerun.replay_result import Decision
from agentnb.rerun.turn_endings import LOGGED, AfterText, after_texts, infer_turn_ending
from agentnb.rerun.variant import NOT_COUNTED, is_own, variant_of
from agentnb.runtime.run_end import OF_THE_REPLY

CONTINUED = "continued"
"""Reason for a round in another product's trace that follows a text-only reply without a message in between."""
_NO_RULE: frozenset[TurnRule] = frozenset()
_UNUSABLE: frozenset[TurnRule] = frozenset({"reply"})
_ALL_BUT_ANSWERS: frozenset[TurnRule] = frozenset({"reply", "todos"})
_EVERY_RULE: frozenset[TurnRule] = frozenset({"answer", "reply", "todos"})


class RecordedCourse:
    """Decisions after each round of a recorded run, as far as they were recorded."""

    def __init__(self, run: Run, walked: Sequence[RoundEvents]) -> None:
        self.walked = walked
        self._run = run
        self._own = is_own(run)
        self._by_index = {round_.index: round_ for round_ in run.rounds}
        self._after: Sequence[AfterText | None] = [None] * len(walked) if self._own else after_texts(run, walked)
        self.turn_ending = LOGGED if self._own else infer_turn_ending(self._after)
        """The run's way of ending its turns."""
        self._open = self._count_open()
        self.mode = self._workflow_mode()
        """True if text-only replies did not end the run."""

    def round_of(self, round_: RoundEvents) -> WorkflowRound:
        """Return the run's round for these events."""
        return self._by_index[round_.start.index]

    def decision(self, position: int) -> Decision:
        """Return the recorded decision after a round."""
        current = self.walked[position]
        continues, reason = self._recorded_course(position)
        tools = bool(self.round_of(current).records)
        return Decision(tools, self._open[current.start.index], self.mode, continues, reason)

    def after_text(self, position: int) -> AfterText | None:
        """Return the successor of a round with a text-only reply in another product's trace."""
        return self._after[position]

    def hands_over(self, position: int) -> bool:
        """True if the turn in another product's trace ended with this round and a person spoke next.

        A run of agentnb would end there; in its own logs, user messages precede the decision.
        """
        return self._after[position] == "person"

    def rules_left_out(self, position: int, *, mode_is_chosen: bool) -> frozenset[TurnRule]:
        """Return the turn rules that cannot judge this round, because the record does not show the end of a turn.

        These rounds occur in traces of other products, and in forks, whose log lacks the policy of the original run.
        ``mode_is_chosen``: whether the variant decides if an answer ends the run of an agent that was prompted again
        after an answer.
        """
        after, is_last = self._after[position], position + 1 == len(self.walked)
        if self._own:
            return _EVERY_RULE if self._is_taken_over(position) else _NO_RULE
        if is_last and after is None:
            return _NO_RULE
        if after == "end" and self._was_ended():
            return _NO_RULE if self.turn_ending.by_text else _UNUSABLE
        if after == "person" and self.turn_ending.by_text:
            return _NO_RULE
        if after in ("end", "person") or (mode_is_chosen and self._may_be_workflow_mode(position)):
            return _ALL_BUT_ANSWERS
        return _EVERY_RULE

    def _may_be_workflow_mode(self, position: int) -> bool:
        """True if the agent, in a run with a single agent, was prompted again after an answer without a message in between."""
        is_asked_again = self._after[position] == self.turn_ending.kind == "same_agent"
        return is_asked_again and bool(self.round_of(self.walked[position]).text.strip())

    def _is_taken_over(self, position: int) -> bool:
        """True if another run decided after this round, since a fork decides only from the round before its first own round."""
        forked_from = self._run.forked_from
        return forked_from is not None and position + 1 < forked_from.round

    def as_recorded(self, position: int) -> Continue | None:
        """Return the recorded reason for continuing after this round, or None at the end."""
        if position + 1 >= len(self.walked):
            return None
        following = self.walked[position + 1].start
        return Continue(following.reason, following.continuation, round_status=following.before)

    def is_outside(self, round_: RoundEvents) -> bool:
        """True if no policy requested this round, because it is the final answer at a limit."""
        return round_.start.reason == FINAL_ANSWER

    def is_decided(self, current: RoundEvents, following: RoundEvents | None) -> bool:
        """True if policies decide after this round: it was not broken off, and no other process resumed there."""
        round_ = self.round_of(current)
        whole = round_.reply is not None and round_.stop_reason != "broken_off" and round_.status != "running"
        return whole and (following is None or following.start.reason != "recovered")

    def after_last_round(self) -> list[e.AnyEvent]:
        """Return todo changes after the last round that came before the decision to end."""
        changes: list[e.AnyEvent] = []
        for event in reversed(self._run.events):
            if isinstance(event, e.RoundFinished | e.RoundStarted):
                break
            if isinstance(event, e.TodosChanged):
                changes.insert(0, event)
        return changes if self._own else []

    def tools_that_repeat(self) -> frozenset[str]:
        """Return the tools that were allowed to repeat: they ran although the run's own gates would have blocked them."""
        if not self._own:
            return frozenset()
        gates, folded, names = variant_of(self._run).bundle.gates, Run(), set()
        for event in self._run.events:
            if (
                isinstance(event, e.ToolStarted)
                and not event.parent_call
                and isinstance(judge(gates, event.call, folded), Block)
            ):
                names.add(event.call.name)
            folded.apply(event)
        return frozenset(names)

    def _recorded_course(self, position: int) -> tuple[bool | None, str]:
        run = self._run
        following = self.walked[position + 1] if position + 1 < len(self.walked) else None
        if following is not None and self.is_outside(following):
            return False, run.stop_reason or ""
        if following is not None:
            return (False, "") if self.hands_over(position) else (True, following.start.reason)
        return (False if self._was_ended() else None), run.stop_reason or ""

    def _was_ended(self) -> bool:
        """True if the run was ended by a decision after a round, rather than by an external event."""
        run = self._run
        if not self._own and run.rounds and run.rounds[-1].records:
            return False  # ended by the harness or a tool, such as a submit tool: no loop ends with a call by itself
        if run.status == "limited" and self._own:
            return run.stop_reason in LIMITS and run.stop_reason not in NOT_COUNTED
        if run.status == "failed" and self._own:
            return run.failed_at == OF_THE_REPLY
        if run.status == "unknown":
            return self.turn_ending.kind in ("end", "person")  # the last reply ends the turn as the earlier ones do
        return run.status in ("completed", "stopped")

    def _count_open(self) -> dict[int, int]:
        """Return the number of open todos after each round, by its index, as the next decision sees it."""
        opened: dict[int, int] = {}
        todos: tuple[Todo, ...] = ()
        last: int | None = None
        for round_ in self.walked:
            todos = _todos_after(round_.before, todos)
            if last is not None and self._own:
                opened[last] = len(open_todos(todos))
            last = round_.start.index
            todos = _todos_after(round_.answered, todos)
            opened[last] = len(open_todos(todos))
        if last is not None:
            opened[last] = len(open_todos(_todos_after(self.after_last_round(), todos)))
        return opened

    def _workflow_mode(self) -> bool:
        if self._own:
            policy = self._run.settings.get("policy")
            return isinstance(policy, dict) and bool(policy.get("workflow_mode"))
        if self.turn_ending.kind != "same_agent":
            return False
        before = {round_.index: self._open.get(round_.index - 1, 0) for round_ in self._run.rounds if round_.index}
        return any(round_.reason == CONTINUED and not before.get(round_.index) for round_ in self._run.rounds)


def _todos_after(events: Sequence[e.AnyEvent], todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
    for event in events:
        if isinstance(event, e.TodosChanged | e.RunStarted):
            todos = event.todos
    return todos
