"""Steps of an agent's run: nested runs started by an extension, which are resumed with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from agentnb.core.log import work_events as w
from agentnb.core.messages import encodable
from agentnb.core.plans.plan_steps import CALL
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.runs.launch import new_run_id
from agentnb.runtime.steps.attempt import Attempt, Place
from agentnb.runtime.steps.nested_runs import NestedRuns, Runnable


class RunSteps:
    """The steps of one agent's run."""

    def __init__(self, context: RunContext) -> None:
        self._log = context.log
        self._context = context

    async def run(
        self,
        path: str,
        runnable: Runnable,
        output: Callable[[Run], Any],
        *,
        agent: str = "",
        inputs: Any = None,
        seconds: float | None = None,
        in_call: bool = False,
    ) -> Run:
        """Run a nested run as a step and return it, however it ended; a run started by a process that died is resumed.

        ``output``: returns the output of the step; ``seconds``: its time limit, suspended while the person is being
        asked; ``in_call``: whether a tool runs it during its call. Raises `TimeoutError` at the limit.
        """
        nested, record = NestedRuns(self._context), self._log.run.step_records.get(path)
        is_new = record is None or record.status != "running"
        run_id = new_run_id() if record is None or is_new else record.nested
        if is_new:
            started = {"step": path, "step_kind": CALL, "agent": agent, "inputs": inputs, "nested": run_id, "attempt": 1}
            self._log.emit(w.StepStarted, **started)
        began, limit = perf_counter(), asyncio.timeout(seconds)
        try:
            async with limit:
                run = await nested.run(Attempt(Place(path), limit, run_id, is_new), runnable, "", in_call=in_call)
        except Suspended:
            raise
        except TimeoutError as error:
            partial = nested.load(run_id)  # its work so far
            partial_output = None if partial is None else output(partial)
            words = f"It took longer than {seconds:g} s" if limit.expired() else encodable(str(error))
            self._finish(path, "failed", began, output=partial_output, error=words)
            raise
        except AgentnbError as error:
            self._finish(path, "failed", began, error=encodable(str(error)))
            raise
        except BaseException:
            self._finish(path, "cancelled", began)
            raise
        has_failed = run.status != "completed"
        why = encodable(f"{run.status}: {run.stop_reason}") if has_failed else ""
        self._finish(path, "failed" if has_failed else "completed", began, output=output(run), error=why)
        return run

    def close_open(self) -> None:
        """Log the end of all open steps."""
        for path, record in [*self._log.run.step_records.items()]:
            if record.status == "running":
                self._finish(path, "cancelled", None)

    def _finish(self, path: str, status: Any, began: float | None, **fields: Any) -> None:
        if self._log.run.step_records[path].status == "running":  # else the run has ended without it
            seconds = None if began is None else perf_counter() - began
            self._log.emit(w.StepFinished, step=path, status=status, seconds=seconds, **fields)
