"""Work in steps: each is logged, one that has finished is not done again, and nested runs live and end with their run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal, Protocol, TypeVar

from agentnb.core import work_events as w
from agentnb.core.event import RoundStatus
from agentnb.core.events import RunRecovered
from agentnb.core.json_schema import plain_data
from agentnb.core.log import ReopeningStore, Writer
from agentnb.core.messages import encodable
from agentnb.core.usage import COST_DIGITS, NestedUsage
from agentnb.core.work_records import StepRecord
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StepFailed, StoreError
from agentnb.policies.verdict import Stop, check_verdict
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.launch import new_run_id
from agentnb.runtime.lifecycle import Lifecycle
from agentnb.runtime.run_options import RunOptions
from agentnb.runtime.tool_calls import ToolCalls
from agentnb.runtime.tool_errors import cancelled

T = TypeVar("T")
MAX_HOLD_SECONDS = 0.02
"""How long steps may follow one another before the event loop gets a turn, for stop, time limits and other runs."""
StepStatus = Literal["completed", "failed", "cancelled"]


class Runnable(Protocol):
    """What can be a nested run: an agent, an orchestration."""

    async def run(self, prompt: str, options: RunOptions | None = None) -> Run:
        """Run to the end, on the running event loop."""

    async def resume_here(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> Run:
        """Run an interrupted run to its end, on the running event loop."""


class NothingLeft(Exception):
    """The budget is exhausted: no further step begins, and the run ends at its limit."""


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
        self._lifecycle = lifecycle
        self._elicitation = elicitation
        self._started: dict[str, float] = {}
        """When each open step began."""
        self._taken: set[str] = set()
        """The ids of the steps that this process has begun or taken from the log."""
        self.calls: ToolCalls | None = None
        """The tool calls of the steps, if they make any."""
        self._gate = asyncio.Lock()
        self._turn_began = perf_counter()

    async def orchestrate(self) -> Stop | None:
        """Do the steps; return how the run ends, or None: it has failed if a step has, else completed."""
        raise NotImplementedError(f"{type(self).__name__} has no orchestrate: write it as an async method")

    async def do(
        self, step: str, work: Callable[[], Awaitable[Any]], *, inputs: Any = None, kind: str = "", title: str = ""
    ) -> Any:
        """Do a step and return its output as plain data; of a step that has finished, return the output that the log holds.

        Raises `StepFailed` if the work raises, now or in the process that died.
        """
        if (record := self._finished(step)) is not None:
            if record.status != "completed":
                raise StepFailed(f"Step {step} has failed: {record.error}")
            return record.output
        await self._begin(step)
        self._start(step, step_kind=kind, title=title, inputs=plain_data(inputs))
        with self._ended(step):
            output = plain_data(await work())
        self._finish(step, "completed", output=output)
        return output

    async def run(
        self,
        step: str,
        what: Runnable,
        prompt: str,
        options: RunOptions | None = None,
        *,
        kind: str = "agent",
        title: str = "",
    ) -> Run:
        """Do a step that is a nested run, and return that run; the step's output is its answer.

        ``options``: of the nested run, such as its watcher or folder; its log and its id are given here. A nested run that the
        dead process had begun is resumed; one that had ended is loaded. What it asks reaches the person of this run.
        """
        if (record := self._finished(step)) is not None:
            return self.loaded(record)
        await self._begin(step)
        with self._elicitation.asker(step), self._ended(step):
            run = await self._run(step, what, prompt, options or RunOptions(), kind=kind, title=title)
        status: StepStatus = "completed" if run.status == "completed" else "failed"
        why = "" if status == "completed" else f"{run.status}: {run.stop_reason}"
        self._finish(step, status, output=run.text if run.output is None else plain_data(run.output), error=why)
        return run

    async def together(self, *steps: Awaitable[T]) -> list[T]:
        """Await steps side by side. If one raises, the others are cancelled, and awaited, before the error is raised."""
        tasks = [asyncio.ensure_future(one) for one in steps]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # For the lifecycle

    def raises(self, error: AgentnbError) -> bool:
        """Return False: a run whose step failed is returned, with what it did until then."""
        return False

    async def work(self) -> Stop:
        """Do the steps, and return how the run ends."""
        self._count_spent()
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
        for step in [*self._started]:
            self._finish(step, "failed" if status == "error" else "cancelled")

    def _verdict(self) -> Stop:
        spent = self._lifecycle.budget.exhausted()
        steps = self.log.run.step_records.values()
        failed = [one for one in steps if one.status == "failed"]
        if spent is not None and (failed or any(one.status == "skipped" for one in steps)):
            return Stop(spent.name, "limited", limit=spent.limit)
        if failed:
            words = "; ".join(f"step {one.id}: {one.error}" for one in failed)
            return Stop("step_failed", "failed", problem=words, hint="The logs of its nested runs say why")
        return Stop("completed")

    # Steps

    def _count_spent(self) -> None:
        """Count what nested runs spent in a process that died before it was logged here."""
        store = self.log.store
        if isinstance(store, ReopeningStore):
            ids = [one.nested for one in self.log.run.events if isinstance(one, w.StepStarted) and one.nested]
            stored: list[Run] = [store.load(run_id) for run_id in dict.fromkeys(ids) if store.has(run_id)]
            own = [run for run in stored if run.parent_id == self.log.id]  # not those of a run that this one continues
            budget, logged = self._lifecycle.budget, self.log.run.nested_usage
            if "" in logged:  # by a version that logged the dollars of all together
                missing = round(sum(run.spent for run in own) - self.log.run.counters.spent_inside, COST_DIGITS)
                if missing > 0:
                    budget.pay(missing)
                return
            for run in own:
                for run_id, nested in {run.id: NestedUsage(run.own_spent, run.own_usage), **run.nested_usage}.items():
                    budget.take(run_id, nested.since(logged.get(run_id)))

    def _finished(self, step: str) -> StepRecord | None:
        """Return the record of a step that an earlier process has finished.

        Raises `SettingsError` for an invalid id, and for that of another step of this run, as its work would be skipped.
        """
        if not isinstance(step, str) or not step or encodable(step) != step:
            raise SettingsError(f"{step!r} is not the id of a step", "Give each step of a run a text of its own")
        if step in self._started:
            raise SettingsError(f"Step {step} is open already", "Give each step of a run an id of its own")
        if step in self._taken:
            raise SettingsError(f"Step {step} was done already", "Give each step of a run an id of its own, such as item-1")
        self._taken.add(step)
        record = self.log.run.step_records.get(step)
        return record if record is not None and record.status in ("completed", "failed") else None

    async def _begin(self, step: str) -> None:
        """Wait while the run is paused. Raise `NothingLeft` if the step cannot be paid for."""
        if self._gate.locked() or self._lifecycle.inbox.has_news:
            async with self._gate:  # side by side, each would read only some of the commands
                await self._lifecycle.read_inbox()
        await self._give_turn()
        self._lifecycle.check_stop()
        spent = self._lifecycle.budget.exhausted()
        if spent is not None:
            reason = f"nothing is left of the {spent.name.replace('_', ' ')}"
            self.log.emit(w.StepSkipped, step=step, reason=reason)
            raise NothingLeft(reason)

    async def _give_turn(self) -> None:
        """Let the event loop run if this run has held it for long: steps that wait for nothing could spin forever."""
        if perf_counter() - self._turn_began > MAX_HOLD_SECONDS:
            await asyncio.sleep(0)
            self._turn_began = perf_counter()

    def _start(self, step: str, **fields: Any) -> None:
        self._started[step] = perf_counter()
        fields["title"] = encodable(fields["title"])
        self.log.emit(w.StepStarted, step=step, **fields)

    async def nested_run(
        self, run_id: str, what: Runnable, prompt: str, options: RunOptions | None = None, *, is_new: bool
    ) -> Run:
        """Run, or resume, the nested run with this id to its end; return it as it is if it has ended.

        ``is_new``: no process has begun it.
        """
        if is_new or not self._has_log(run_id):
            # Made in one go if there are no others: this is a tenth of what a step costs.
            new = replace(options, parent=self.log, run_id=run_id) if options else RunOptions(parent=self.log, run_id=run_id)
            return await _ended_run(what.run(prompt, new))
        store = self._store_for(run_id)
        found: Run = store.load(run_id)
        if not found.should_continue and found.status != "interrupted":
            return found
        writer, found = store.reopen(run_id)
        options = replace(options or RunOptions(), store=store, trust_log=self._trusts(found, run_id))
        if not options.trust_log:
            options = replace(options, answers=None)  # to questions that are asked again
        try:
            return await _ended_run(what.resume_here(found, writer, options))
        finally:
            writer.close()  # also if it was refused: nobody else could resume it

    def _trusts(self, nested: Run, run_id: str) -> bool:
        """Return whether the log of a nested run counts: it is the person's own, or came with this run's, which they took."""
        run = self.log.run
        consents = (event.consent for event in reversed(run.events) if isinstance(event, RunRecovered))
        if next(consents, "") == "taken":  # by this process: earlier, the person may have seen another nested log
            return True
        return nested.gives_consent and (nested.id, nested.parent_id) == (run_id, run.id)

    def nested_log(self, run_id: str) -> Run | None:
        """Return a nested run as a process that died left it; None if it has no log."""
        return self._store_for(run_id).load(run_id) if self._has_log(run_id) else None

    def _finish(
        self,
        step: str,
        status: StepStatus,
        *,
        output: Any = None,
        error: str = "",
        attempts: int = 1,
        sets: Any = None,
        words: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        began = self._started.pop(step, None)
        if began is None:
            return
        self._close_call(step)
        finished = w.StepFinished(
            *self.log.head(),
            step=step,
            status=status,
            output=output,
            error=error,
            attempts=attempts,
            seconds=perf_counter() - began,
            sets=sets or {},
            words=words,
            reason=reason,
        )
        self.log.append(finished)

    def _close_call(self, step: str) -> None:
        """Give the call of a step that ends its result, if it has none: its tool was left behind, or never began."""
        if self.calls is not None:
            self.calls.close(step, cancelled())

    async def _run(self, step: str, what: Runnable, prompt: str, options: RunOptions, *, kind: str, title: str) -> Run:
        before = self.log.run.step_records.get(step)
        if before is None or not before.nested or not self._has_log(before.nested):
            nested = new_run_id()
            self._start(step, step_kind=kind, title=title, inputs={"prompt": encodable(prompt)}, nested=nested)
            return await self.nested_run(nested, what, prompt, options, is_new=True)
        self._started[step] = perf_counter()
        return await self.nested_run(before.nested, what, prompt, options, is_new=False)

    @contextmanager
    def _ended(self, step: str) -> Iterator[None]:
        """Finish the step if its work raises or is cancelled; raise `StepFailed` for an error of its own."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            words = encodable(error.what if isinstance(error, AgentnbError) else f"{type(error).__name__}: {error}")
            self._finish(step, "failed", error=words)
            raise StepFailed(f"Step {step} failed: {words}", getattr(error, "advice", ())) from error
        except BaseException:
            self._finish(step, "cancelled")
            raise

    def loaded(self, record: StepRecord) -> Run:
        """Return the nested run of a step; raises `StepFailed` if the step failed before that run began."""
        store = self._store_for(record.nested)
        if record.status == "failed" and not store.has(record.nested):
            raise StepFailed(f"Step {record.id} has failed: {record.error}")
        run: Run = store.load(record.nested)
        return run

    def _has_log(self, run_id: str) -> bool:
        return self._store_for(run_id).has(run_id)

    def _store_for(self, run_id: str) -> ReopeningStore:
        """Return the store with the log of a nested run; raises `SettingsError` if there is none."""
        store = self.log.store
        if not isinstance(store, ReopeningStore):
            what = f"The log of the nested run {run_id} cannot be found: there is no store"
            raise SettingsError(what, "Give it: RunOptions(store=Store(...))")
        return store


async def _ended_run(run: Awaitable[Run]) -> Run:
    """Return the run, also if it raised after it had begun."""
    try:
        return await run
    except AgentnbError as error:
        if isinstance(error, StoreError) or not isinstance(error.run, Run) or error.run.should_continue:
            raise
        return error.run
