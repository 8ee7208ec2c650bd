"""An orchestrator that works in steps: the one to write for a course of one's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from agentnb.core.log.event import RoundStatus
from agentnb.core.messages import encodable
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StepFailed
from agentnb.policies.verdict import Stop, check_verdict
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.steps.attempt import Place, StepTerms
from agentnb.runtime.steps.nested_runs import Runnable
from agentnb.runtime.steps.step_failures import FailedStep
from agentnb.runtime.steps.step_runner import NothingLeft, StepRunner

T = TypeVar("T")


class StepOrchestrator:
    """An orchestrator that works in steps: write its `orchestrate`.

    A step has an id that is unique in its run and the same in every process. Steps may be awaited side by side, with
    `together`. A run that is recovered calls `orchestrate` again, which gets the outcome of each step that has finished from
    the log.
    """

    where = "step"

    def __init__(self, lifecycle: Lifecycle, elicitation: Elicitation) -> None:
        """``elicitation``: how the person is asked what nested runs ask."""
        self.log = lifecycle.log
        self.steps = StepRunner(lifecycle, elicitation)
        self._taken: set[str] = set()
        """The ids of the steps that this process has begun or taken from the log."""

    async def orchestrate(self) -> Stop | None:
        """Do the steps; return how the run ends, or None: it has failed if a step has, else completed."""
        raise NotImplementedError(f"{type(self).__name__} has no orchestrate: write it as an async method")

    async def do(
        self, step: str, work: Callable[[], Awaitable[Any]], *, inputs: Any = None, kind: str = "", title: str = ""
    ) -> Any:
        """Do a step and return its output as plain data; of a step that has finished, return the output that the log holds.

        Raises `StepFailed` if the work raises, now or in the process that died.
        """

        async def attempt(_: object) -> Any:
            return await work()

        with self._own_step(step) as own_place:
            return await self.steps.attempts(StepTerms(kind=kind), own_place, attempt, inputs=plain_data(inputs), title=title)

    async def run(
        self,
        step: str,
        runnable: Runnable,
        prompt: str,
        options: RunOptions | None = None,
        *,
        kind: str = "agent",
        title: str = "",
    ) -> Run:
        """Do a step that is a nested run, and return that run, however it ended; the step's output is its answer.

        ``options``: of the nested run, such as its watcher or folder; its log and its id are given here. A nested run that the
        dead process had begun is resumed; one that had ended is loaded. What it asks reaches the person of this run, which is
        suspended with it. Raises `StepFailed` if the nested run cannot begin.
        """
        with self._own_step(step) as own_place:
            return await self.steps.nested_run(StepTerms(kind=kind), own_place, runnable, prompt, options, title=title)

    async def together(self, *steps: Awaitable[T]) -> list[T]:
        """Await steps side by side. If one raises, the others are cancelled, and awaited, before the error is raised."""
        outputs: dict[int, T] = {}

        async def keep(index: int) -> None:
            outputs[index] = await steps[index]

        await self.steps.side_by_side.all_or_none(keep, range(len(steps)))
        return [outputs[index] for index in range(len(steps))]

    # For the lifecycle

    def raises(self, error: AgentnbError) -> bool:
        """Return False: a run whose step failed is returned, with what it did until then."""
        return False

    async def work(self) -> Stop:
        """Do the steps, and return how the run ends."""
        self.steps.begin()
        try:
            verdict = await self.orchestrate()
        except NothingLeft:
            verdict = None
        if verdict is not None:
            check_verdict(verdict, type(self))
        return verdict or self._verdict()

    async def final_answer(self, limit: Stop) -> None:
        """Do nothing: steps end where the limit was reached."""

    def close_open(self, status: RoundStatus) -> None:
        """Finish the steps that are open."""
        self.steps.close_open(status)

    def suspend(self, why: str) -> None:
        """Leave open questions to an answer after the run was suspended."""
        self.steps.elicitation.leave()

    def _verdict(self) -> Stop:
        spent = self.steps.budget.exhausted()
        steps = self.log.run.step_records.values()
        failed = [record for record in steps if record.status == "failed"]
        if spent is not None and (failed or any(record.status == "skipped" for record in steps)):
            return Stop(spent.name, "limited", limit=spent.limit)
        if failed:
            words = "; ".join(f"step {record.id}: {record.error}" for record in failed)
            return Stop("step_failed", "failed", problem=words, hint="The logs of its nested runs say why")
        return Stop("completed")

    @contextmanager
    def _own_step(self, step: str) -> Iterator[Place]:
        """Yield the place of a step; raises `StepFailed` if the step fails.

        Raises `SettingsError` for an invalid id, and for that of another step of this run, as its work would be skipped.
        """
        if not isinstance(step, str) or not step or encodable(step) != step:
            raise SettingsError(f"{step!r} is not the id of a step", "Give each step of a run a text of its own")
        if step in self._taken:
            problem = f"Step {step} was begun already"
            raise SettingsError(problem, "Give each step of a run an id of its own, such as item-1")
        self._taken.add(step)
        try:
            yield Place(step)
        except FailedStep as error:
            raise StepFailed(f"Step {step} failed: {error.failure.text}", error.failure.advice) from error
