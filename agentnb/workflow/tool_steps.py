"""Tools that a step of a workflow calls by itself, without a model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentnb.core.json_schema import plain_data
from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError, ToolFailed
from agentnb.runtime.host import plain_tools
from agentnb.runtime.inside import InsideCalls
from agentnb.runtime.tool_errors import without_advice
from agentnb.runtime.tool_runner import ToolRunner
from agentnb.tools.tool import Tool, ToolOutcome
from agentnb.workflow.engine import Attempt, WorkflowEngine
from agentnb.workflow.nested import NestedRuns
from agentnb.workflow.step_failures import StepEndedBadly, StepFailure


class ToolSteps:
    """Calls tools for the steps of one run. The call has the path of its step as its id."""

    def __init__(self, engine: WorkflowEngine, runs: NestedRuns) -> None:
        self._running: set[str] = set()
        self._runs = runs
        inside = InsideCalls(engine.log, self._running, _no_other_tools, runs.start)
        self._runner = ToolRunner(engine.log, Path.cwd(), plain_tools(None), engine.elicitation, inside)
        self._inside = inside

    async def call(self, tool: Tool, arguments: dict[str, Any], attempt: Attempt) -> Any:
        """Return what the tool returned, as plain data, else as the text that a model would read.

        Raises `StepEndedBadly` if it fails.
        """
        path = attempt.place.path
        self._inside.loop = asyncio.get_running_loop()
        self._running.add(path)
        try:
            with self._runs.asker(attempt):
                ran = await self._runner.run(ToolCall(tool.spec.name, arguments, path), tool)
        finally:
            self._running.discard(path)
        outcome = ran.outcome
        if not outcome.ok:
            code = outcome.error_code or "tool_error"
            words = frozenset({code, "tool_error", "failed", "error"})
            raise StepEndedBadly(StepFailure(without_advice(outcome.text, tool.spec.name), words, is_final=code == "cancelled"))
        return _output(outcome)


async def _no_other_tools(call_id: str, name: str, arguments: Any) -> ToolOutcome:
    raise ToolFailed(f"A step of a workflow cannot call {name} from inside a tool", "Make it a step of its own")


def _output(outcome: ToolOutcome) -> Any:
    value = outcome.value
    if isinstance(value, str) or not isinstance(value, dict | list | int | float):
        return outcome.text
    try:
        return plain_data(value)
    except SettingsError:
        return outcome.text
