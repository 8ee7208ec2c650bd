"""Nested runs of the steps of one run, and whom they ask."""

from __future__ import annotations

from typing import Any

from agentnb.core.approvals import answerable_later
from agentnb.detect.run import Run
from agentnb.runtime.elicitation import CallElicitor
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.run_options import RunOptions
from agentnb.runtime.steps import Runnable
from agentnb.workflow.engine import Attempt, WorkflowEngine


class NestedRuns:
    """Runs what does the work of a step in a run of its own."""

    def __init__(self, engine: WorkflowEngine) -> None:
        self._engine = engine

    async def run(self, attempt: Attempt, what: Runnable, prompt: str) -> Run:
        """Return the nested run of an attempt, however it ended; a run that is suspended suspends this one."""
        elicitation = self._engine.elicitation
        options = RunOptions(suspend=True) if elicitation.suspends else None
        if not attempt.is_new and (before := self._engine.nested_log(attempt.run_id)) is not None:
            waiting = answerable_later(before)
            suspends = elicitation.suspends or before.is_suspended or bool(waiting)
            options = RunOptions(suspend=suspends, answers=elicitation.book.answers_for(waiting) or None)
        with self.asker(attempt):
            run = await self._engine.nested_run(attempt.run_id, what, prompt, options, is_new=attempt.is_new)
        if run.is_suspended or self._engine.log.run.waiting:
            elicitation.book.share(run, attempt.place.path)
        if run.is_suspended:
            raise Suspended("nobody_here")
        return run

    async def start(self, agent: Any, prompt: Any) -> Run:
        """Begin a nested run for a tool, and wait for its end."""
        run: Run = await agent.run(prompt, RunOptions(parent=self._engine.log))
        return run

    def asker(self, attempt: Attempt) -> CallElicitor:
        """Return what asks the person of the run; the time limit of the step stands still meanwhile."""
        elicitation = self._engine.elicitation
        asker = elicitation.asker(attempt.place.path)
        asker.limit = attempt.limit
        asker.names = f"{elicitation.book.ids.prefix}{attempt.place.path}/"
        return asker
