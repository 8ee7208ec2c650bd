"""More runs by hand: with gates that are really asked, and with tools that count how often they were run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from runs_by_hand import START, opening

from agentnb.agent.agent import Agent
from agentnb.core import events as e
from agentnb.core.guidance import Guidance
from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL, Todo, Todos
from agentnb.models.scripted import ScriptedModel
from agentnb.policies.gates import Gate, admitted
from agentnb.tools.function import FunctionTool


def guided(cell: str = "text", text: str = "Go on.", **fields: Any) -> Guidance:
    return Guidance("matrix", cell, text, **fields)


class Bench:
    """A run in which gates are asked about every call, without a loop, a model or a tool.

    A letter is a call of a tool of this name. What it returns is in ``outputs``, or "ok"; a tool in ``failing`` fails.
    """

    def __init__(self, *gates: Gate) -> None:
        self.gates = gates
        self.run = Run.from_events([opening()])
        self.outputs: dict[str, str] = {}
        self.failing: set[str] = set()
        self.blocks: list[ToolResult] = []
        self._calls = 0

    def add(self, kind: type[e.Event], **fields: Any) -> None:
        self.run.apply(kind(seq=len(self.run.events), at=START, run_id="r-1", **fields))  # type: ignore[arg-type]

    def say(self, text: str = "And now?") -> None:
        self.add(e.CommandReceived, command="say", text=text)

    def words(self, text: str = "Well.") -> None:
        """A round of words alone."""
        self._reply(Text(text))
        self.add(e.RoundFinished, index=len(self.run.rounds) - 1, status="success")

    def ask(self, *calls: str | ToolCall) -> list[str | None]:
        """A reply with these calls, all admitted in their order and then run. For each the rule that blocked it, or None."""
        asked = [self._call(call) for call in calls]
        self._reply(*asked)
        rules: list[str | None] = []
        for call in asked:
            block = admitted(self.gates, call, self.run)
            rules.append(None if block is None else block.rule)
            if block is None:
                self.add(e.ToolStarted, call=call)
            else:
                self.blocks.append(block.result)
                self.add(e.CallBlocked, call=call, result=block.result, rule=block.rule)
        for call, rule in zip(asked, rules, strict=True):
            if rule is None:
                self.add(e.ToolFinished, result=self._result(call))
        self.add(e.RoundFinished, index=len(self.run.rounds) - 1, status="success")
        return rules

    def one_by_one(self, calls: str | Sequence[ToolCall]) -> list[str | None]:
        """A reply for each of them."""
        return [rule for call in calls for rule in self.ask(call)]

    def _reply(self, *parts: Any) -> None:
        self.add(e.RoundStarted, index=len(self.run.rounds), reason="tool_results")
        self.add(e.ModelReplied, message=Message("assistant", parts))

    def _call(self, call: str | ToolCall) -> ToolCall:
        self._calls += 1
        name, arguments = (call, {}) if isinstance(call, str) else (call.name, call.arguments)
        return ToolCall(name, arguments, f"c{self._calls}")

    def _result(self, call: ToolCall) -> ToolResult:
        failed = call.name in self.failing
        text = Text(self.outputs.get(call.name, "ok"))
        return ToolResult(call.id, call.name, (text,), failed, "tool_error" if failed else None)


class Counting:
    """Tools that count how often each was really run."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()

    def tool(self, name: str, **settings: Any) -> FunctionTool:
        """A tool that returns how often it was run."""

        async def count(x: int = 0) -> str:
            """Counts."""
            self.runs[name] += 1
            return f"{name} was run {self.runs[name]} times"

        return FunctionTool(count, name=name, **settings)

    def failing(self, name: str) -> FunctionTool:
        """A tool that is run and fails."""

        async def fail(x: int = 0) -> str:
            """Fails."""
            self.runs[name] += 1
            raise ValueError(f"{name} cannot")

        return FunctionTool(fail, name=name)


REMINDER = "<system-reminder>"


def reminders(request: Request) -> list[str]:
    """All texts of a request that stand there in passing."""
    parts = [part for message in request.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, Text) and REMINDER in part.text]


def results_seen(request: Request) -> list[ToolResult]:
    """The tool results at the end of a request."""
    return [part for part in request.messages[-1].parts if isinstance(part, ToolResult)]


def answers(run: Run) -> Counter[str]:
    """How often each call was answered: by its tool, or by a gate."""
    return Counter(event.result.call_id for event in run.events if isinstance(event, e.ToolFinished | e.CallBlocked))


def assert_each_call_answered_once(run: Run) -> None:
    """In the log, in its round, and in the conversation right after the reply that asked, in its order."""
    calls = [call.id for one in run.rounds for call in one.calls]
    assert len(set(calls)) == len(calls)
    assert answers(run) == Counter(calls)
    for one in run.rounds:
        assert [result.call_id for result in one.results] == [call.id for call in one.calls]
    for message, after in zip(run.messages, [*run.messages[1:], None], strict=True):
        if message.calls:
            assert after is not None and after.role == "tool"
            told = [part.call_id for part in after.parts if isinstance(part, ToolResult)]
            assert told == [call.id for call in message.calls]


# Todos


class OthersBoard:
    """A board of somebody else: what it holds is read anew each time, and reading may fail."""

    def __init__(self, *todos: Todo) -> None:
        self.todos: Any = todos
        self.error: Exception | None = None
        self.read_times = 0

    def read(self) -> Todos:
        self.read_times += 1
        if self.error is not None:
            raise self.error
        return self.todos  # type: ignore[no-any-return]

    def change(self, update: Callable[[Todos], Todos]) -> Todos:
        self.todos = update(self.todos)
        return self.todos  # type: ignore[no-any-return]


def changes(run: Run) -> list[e.TodosChanged]:
    return [event for event in run.events if isinstance(event, e.TodosChanged)]


def update(number: int, status: str) -> ToolCall:
    return ToolCall(TODO_TOOL, {"operation": "update", "todoUpdates": [{"id": number, "status": status}]})


def working(board: Any, replies: list[Any], *tools: Any, **settings: Any) -> Run:
    run = Agent(ScriptedModel(replies), tools=tools or [Counting().tool("look")], todos=board, **settings).run_sync("go")
    assert_each_call_answered_once(run)
    assert Run.from_events(run.events) == run
    return run
