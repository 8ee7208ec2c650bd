"""Runs by hand with todos, guidance and blocked calls: whole rounds at a time."""

from __future__ import annotations

from typing import Any, Literal

from some_events import Story

from agentnb.core import events as e
from agentnb.core.guidance import Guidance
from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.rounds import DUPLICATE, WorkflowRound
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL, Todo, TodoStatus


def todo(number: int, status: TodoStatus = "not-started", **fields: Any) -> Todo:
    return Todo(number, f"Do thing {number}", status, **fields)


def guided(cell: str, **fields: Any) -> Guidance:
    return Guidance("matrix", cell, f"about {cell}", **fields)


class Tale(Story):
    """A story told in whole rounds; calls get ids of their own."""

    def __init__(self, *todos: Todo, **first: Any) -> None:
        super().__init__(todos=todos, **first)
        self.rounds = 0
        self._calls = 0

    @property
    def run(self) -> Run:
        return Run.from_events(self.events)

    @property
    def last(self) -> WorkflowRound:
        return self.run.rounds[-1]

    def call(self, name: str, **arguments: Any) -> ToolCall:
        self._calls += 1
        return ToolCall(name, arguments, f"c{self._calls}")

    def begun(self, *guidance: Guidance, reason: str = "") -> Tale:
        """A round begins, with this said in passing."""
        self.add(e.RoundStarted, index=self.rounds, reason=reason or ("tool_results" if self.rounds else "prompt"))
        for one in guidance:
            self.add(e.GuidanceGiven, guidance=one)
        return self

    def replied(self, *parts: Any, **fields: Any) -> Tale:
        self.add(e.ModelReplied, message=Message("assistant", parts), **fields)
        return self

    def ran(self, call: ToolCall, text: str = "ok", **how: Any) -> Tale:
        self.answered(call, text, **how)
        return self

    def blocked(self, call: ToolCall) -> Tale:
        result = ToolResult(call.id, call.name, (Text("again"),), is_error=True, error_code=DUPLICATE)
        self.add(e.CallBlocked, call=call, result=result, rule="consecutive")
        return self

    def listed(self, *todos: Todo, by: Literal["model", "outside"] = "model", call_id: str = "") -> Tale:
        """The todo list is this now."""
        self.add(e.TodosChanged, todos=todos, by=by, call_id=call_id)
        return self

    def ended(self, status: e.RoundStatus = "success") -> Tale:
        self.round_over(self.rounds, status)
        self.rounds += 1
        return self

    def heard(self, text: str = "And now?") -> Tale:
        """The person speaks."""
        self.add(e.CommandReceived, command="say", text=text)
        return self

    def said(self, text: str = "Well.", *guidance: Guidance, reason: str = "") -> Tale:
        """A round of words alone."""
        return self.begun(*guidance, reason=reason).replied(Text(text)).ended()

    def delayed(self, text: str = "At last.", *waits: float, **fields: Any) -> Tale:
        """A round of words alone, which came after the call had failed and been made again after each of these waits."""
        self.begun().retried(*waits)
        return self.replied(Text(text), **fields).ended()

    def failed(self, *waits: float, error: str = "The provider is overloaded") -> Tale:
        """A round whose call failed in the end, and the run with it."""
        self.begun().retried(*waits)
        self.add(e.ErrorRaised, error=e.RunError("ProviderTrouble", error), where="model")
        self.ended("error").over("failed", "error")
        return self

    def called(self, *names: str, guidance: tuple[Guidance, ...] = (), **how: Any) -> Tale:
        """A round in which these tools ran, without arguments."""
        calls = [self.call(name) for name in names]
        self.begun(*guidance).replied(*calls)
        for call in calls:
            self.ran(call, **how)
        return self.ended()

    def refused(self, *names: str) -> Tale:
        """A round of which every call was blocked."""
        calls = [self.call(name) for name in names]
        self.begun().replied(*calls)
        for call in calls:
            self.blocked(call)
        return self.ended()

    def planned(self, *todos: Todo) -> Tale:
        """A round in which the model made its list this one."""
        call = self.call(TODO_TOOL)
        self.begun().replied(call).add(e.ToolStarted, call=call)
        self.listed(*todos, call_id=call.id)
        self.add(e.ToolFinished, result=ToolResult(call.id, call.name, (Text("Updated"),)))
        return self.ended()
