"""Base class for custom orchestrators that work in steps."""

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
    """An orchestrator that works in steps: implement `orchestrate`.

    A step's id is unique in its run and the same in every process. Steps may be awaited concurrently with `together`.
    A recovered run calls `orchestrate` again, which gets the outcomes of finished steps from the log.
    """

    where = "step"

    def __init__(self, lifecycle: Lifecycle, elicitation: Elicitation) -> None:
        """``elicitation``: asks the person the questions of nested runs."""
        self.log = lifecycle.log
        self.steps = StepRunner(lifecycle, elicitation)
        self._taken: set[str] = set()
        """Ids of steps that this process has started or taken from the log."""

    async def orchestrate(self) -> Stop | None:
        """Run the steps and return the run's verdict. If it is None, the run has failed if a step has, and is completed
        otherwise.
        """
        raise NotImplementedError(f"{type(self).__name__} must define orchestrate as an async method")

    async def do(
        self, step: str, work: Callable[[], Awaitable[Any]], *, inputs: Any = None, kind: str = "", title: str = ""
    ) -> Any:
        """Run a step and return its output as plain data; for a finished step, return the logged output.

        Raises `StepFailed` if the work raises an error, now or in the process that died.
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
        """Run a nested run as a step and return it, however it ended; the step's output is its answer.

        ``options``: those of the nested run, such as its watcher or folder; its log and its id are set here. A nested
        run started by the process that died is resumed; one that has ended is loaded. Its questions reach the person of
        this run, which is suspended with it. Raises `StepFailed` if the nested run cannot begin.
        """
        with self._own_step(step) as own_place:
            return await self.steps.nested_run(StepTerms(kind=kind), own_place, runnable, prompt, options, title=title)

    async def together(self, *steps: Awaitable[T]) -> list[T]:
        """Await steps concurrently. If one raises an error, the others are cancelled and awaited before the error is raised."""
        outputs: dict[int, T] = {}

        async def keep(index: int) -> None:
            outputs[index] = await steps[index]

        await self.steps.side_by_side.all_or_none(keep, range(len(steps)))
        return [outputs[index] for index in range(len(steps))]

    # For the lifecycle

    def raises(self, error: AgentnbError) -> bool:
        """Return False: a run with a failed step is returned, with its work so far."""
        return False

    async def work(self) -> Stop:
        """Run the steps, and return the run's verdict."""
        self.steps.begin()
        try:
            verdict = await self.orchestrate()
        except NothingLeft:
            verdict = None
        if verdict is not None:
            check_verdict(verdict, type(self))
        return verdict or self._verdict()

    async def final_answer(self, limit: Stop) -> None:
        """Do nothing: steps end where the limit is reached."""

    def close_open(self, status: RoundStatus) -> None:
        """Finish all open steps."""
        self.steps.close_open(status)

    def suspend(self, why: str) -> None:
        """Leave questions open, to be answered after the run has been suspended."""
        self.steps.elicitation.leave()

    def _verdict(self) -> Stop:
        spent = self.steps.budget.exhausted()
        steps = self.log.run.step_records.values()
        failed = [record for record in steps if record.status == "failed"]
        if spent is not None and (failed or any(record.status == "skipped" for record in steps)):
            return Stop(spent.name, "limited", limit=spent.limit)
        if failed:
            words = "; ".join(f"step {record.id}: {record.error}" for record in failed)
            return Stop("step_failed", "failed", problem=words, hint="See the logs of its nested runs")
        return Stop("completed")

    @contextmanager
    def _own_step(self, step: str) -> Iterator[Place]:
        """Yield the place of a step; raises `StepFailed` if the step fails.

        Raises `SettingsError` if the id is invalid or belongs to another step of this run, whose work would be
        skipped.
        """
        if not isinstance(step, str) or not step or encodable(step) != step:
            raise SettingsError(f"{step!r} is not a valid step id", "Give each step of a run a unique string")
        if step in self._taken:
            problem = f"Step {step} has already been started"
            raise SettingsError(problem, "Give each step of a run a unique id, such as item-1")
        self._taken.add(step)
        try:
            yield Place(step)
        except FailedStep as error:
            raise StepFailed(f"Step {step} failed: {error.failure.text}", error.failure.advice) from error
