"""A run in which gates are asked about every call, without a loop, a model or a tool."""

from __future__ import annotations

from collections.abc import Sequence

from run_builder import RunBuilder, answered, begun

from agentnb.core.log import events as e
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.policies.gates import Gate, judge


class GatedRun(RunBuilder):
    """Add rounds of calls. A letter is a call of the tool of this name.

    A tool returns its text in ``outputs``, or "ok"; a tool in ``failing`` fails.
    """

    def __init__(self, *gates: Gate) -> None:
        super().__init__()
        self.gates = gates
        self.outputs: dict[str, str] = {}
        self.failing: set[str] = set()
        self.blocks: list[ToolResult] = []
        self._calls = 0

    def say(self, text: str = "And now?") -> None:
        self.add(e.CommandReceived, command="say", text=text)

    def words(self, text: str = "Well.") -> None:
        """A round of words alone."""
        self.round(text, reason="tool_results")

    def ask(self, *calls: str | ToolCall) -> list[str | None]:
        """A reply with these calls, all admitted in their order and then run. For each the rule that blocked it, or None."""
        asked = [self._call(call) for call in calls]
        index = self.round_count
        self.extend(*begun(index, "tool_results")).add(e.ModelReplied, message=Message("assistant", tuple(asked)))
        rules = [self._admit(call) for call in asked]
        for call, rule in zip(asked, rules, strict=True):
            if rule is None:
                self.extend(self._finished(call))
        self.add(e.RoundFinished, index=index, status="success")
        return rules

    def one_by_one(self, calls: str | Sequence[ToolCall]) -> list[str | None]:
        """A reply for each of them."""
        return [rule for call in calls for rule in self.ask(call)]

    def _admit(self, call: ToolCall) -> str | None:
        block = judge(self.gates, call, self.run)
        if block is None:
            self.add(e.ToolStarted, call=call)
            return None
        self.blocks.append(block.result)
        self.add(e.CallBlocked, call=call, result=block.result, rule=block.rule)
        return block.rule

    def _call(self, call: str | ToolCall) -> ToolCall:
        self._calls += 1
        name, arguments = (call, {}) if isinstance(call, str) else (call.name, call.arguments)
        return ToolCall(name, arguments, f"c{self._calls}")

    def _finished(self, call: ToolCall) -> tuple[type[e.Event], dict[str, object]]:
        failed = call.name in self.failing
        how = {"is_error": True, "error_code": "tool_error"} if failed else {}
        return answered(call, self.outputs.get(call.name, "ok"), **how)[-1]
