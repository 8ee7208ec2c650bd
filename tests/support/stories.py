"""A run told step by step, or in whole rounds."""

from __future__ import annotations

from typing import Any, Literal, Self

from run_builder import RunBuilder, answered, begun, blocked_call, said, todos_are

from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log.older_logs import STATUS_AT_END
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.todos import TODO_TOOL, Todo


class Story(RunBuilder):
    """Adds the steps of a round, or rounds as a whole. A call that `call` makes has an id of its own."""

    def __init__(self, *todos: Todo, **first: Any) -> None:
        super().__init__(**{"prompt": "Go", "todos": todos, **first})
        self._calls = 0

    @property
    def last(self) -> WorkflowRound:
        return self.run.rounds[-1]

    def call(self, name: str, **arguments: Any) -> ToolCall:
        self._calls += 1
        return ToolCall(name, arguments, f"c{self._calls}")

    # Steps

    def begun(self, *guidance: Guidance, reason: str = "") -> Self:
        """A round begins, with this guidance."""
        return self.extend(*begun(self.round_count, reason, *guidance))

    def retried(
        self, *waits: float, reason: str = "The provider is overloaded", status: int | None = 529, heard: str = ""
    ) -> Self:
        """The call of the model failed, once for each of these waits, and is made again after it."""
        for attempt, seconds in enumerate(waits, 1):
            self.add(e.RetryScheduled, attempt=attempt, seconds=seconds, reason=reason, status=status, heard=heard)
        return self

    def replied(self, *parts: Any, **fields: Any) -> Self:
        return self.add(e.ModelReplied, message=Message("assistant", parts), **fields)

    def ran(self, call: ToolCall, text: str = "ok", **how: Any) -> Self:
        """A call was answered."""
        return self.extend(*answered(call, text, **how))

    def blocked(self, call: ToolCall) -> Self:
        """A gate did not let the call run."""
        return self.extend(*blocked_call(call))

    def listed(self, *todos: Todo, by: Literal["model", "outside"] = "model", call_id: str = "") -> Self:
        """The todo list is this now."""
        return self.extend(todos_are(*todos, by=by, call_id=call_id))

    def heard(self, text: str = "And now?") -> Self:
        """The user speaks."""
        return self.extend(said(text))

    def ended(self, status: e.RoundStatus = "success") -> Self:
        """The round ends."""
        return self.add(e.RoundFinished, index=self.last.index, status=status)

    def over(self, status: e.Status = "completed", stop_reason: str = "natural") -> Self:
        """The run ends."""
        return self.add(
            e.RunFinished, status=status, stop_reason=stop_reason, last_round=STATUS_AT_END.get(stop_reason, ""), seconds=1.5
        )

    # Whole rounds

    def said(self, text: str = "Well.", *guidance: Guidance, reason: str = "") -> Self:
        """A round of words alone."""
        return self.begun(*guidance, reason=reason).replied(Text(text)).ended()

    def delayed(self, text: str = "At last.", *waits: float, **fields: Any) -> Self:
        """A round of words alone, which came after the call had failed and been made again after each of these waits."""
        return self.begun().retried(*waits).replied(Text(text), **fields).ended()

    def failed(self, *waits: float, error: str = "The provider is overloaded") -> Self:
        """A round whose call failed in the end, and the run with it."""
        self.begun().retried(*waits)
        self.add(e.ErrorRaised, error=e.RunError("ProviderTrouble", error), where="model")
        return self.ended("error").over("failed", "error")

    def called(self, *names: str, guidance: tuple[Guidance, ...] = (), **how: Any) -> Self:
        """A round in which these tools ran, without arguments."""
        calls = [self.call(name) for name in names]
        self.begun(*guidance).replied(*calls)
        for call in calls:
            self.ran(call, **how)
        return self.ended()

    def refused(self, *names: str) -> Self:
        """A round of which every call was blocked."""
        calls = [self.call(name) for name in names]
        self.begun().replied(*calls)
        for call in calls:
            self.blocked(call)
        return self.ended()

    def planned(self, *todos: Todo) -> Self:
        """A round in which the model made its list this one."""
        call = self.call(TODO_TOOL)
        return self.begun().replied(call).extend(*answered(call, todos=todos)).ended()
