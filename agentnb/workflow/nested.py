"""Nested runs of the steps of one run, and whom they ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.detect.run import Run
from agentnb.runtime.elicitation import CallElicitor, Elicitation, current_call
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
            options = _answers_for(before, what, elicitation)
            elicitation.pass_on(before.waiting)
        with self.asks(attempt):
            run = await self._engine.nested_run(attempt.run_id, what, prompt, options, is_new=attempt.is_new)
        if run.is_suspended:
            elicitation.hold_open(run.waiting, attempt.place.path)
            raise Suspended("nobody_here")
        return run

    async def start(self, agent: Any, prompt: Any) -> Run:
        """Begin a nested run for a tool, and wait for its end."""
        run: Run = await agent.run(prompt, RunOptions(parent=self._engine.log))
        return run

    @contextmanager
    def asks(self, attempt: Attempt) -> Iterator[CallElicitor]:
        """What asks in this block asks the person of the run, and the time limit of the step stands still meanwhile."""
        asker = self._engine.elicitation.asker(attempt.place.path)
        asker.limit = attempt.limit
        outer = current_call.set(asker)
        try:
            yield asker
        finally:
            with suppress(ValueError):  # a run that was not awaited is closed from another context
                current_call.reset(outer)
            asker.close()


def _answers_for(run: Run, what: Runnable, elicitation: Elicitation) -> RunOptions:
    """Return the options with which a nested run is resumed: an agent takes only the answers to its own questions."""
    open_ids = {question.id for question in run.waiting}
    answers = {name: value for name, value in elicitation.given.items() if name in open_ids or not isinstance(what, Agent)}
    return RunOptions(suspend=elicitation.suspends or run.is_suspended, answers=answers or None)
