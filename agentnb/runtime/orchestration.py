"""Runs of any orchestrator: what an `Agent` is for a loop, an `Orchestration` is for one of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from agentnb.core.approvals import checked_answers
from agentnb.core.events import SCHEMA, RunStarted
from agentnb.core.json_schema import plain_data
from agentnb.core.log import Writer
from agentnb.core.messages import encodable, user
from agentnb.core.redaction import redact
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.limits import LIMITS, OF_FILE
from agentnb.runtime.budget import OWN, Budget
from agentnb.runtime.consent import with_mode_of
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.launch import Launch, check_resumable
from agentnb.runtime.lifecycle import Lifecycle, Orchestrator
from agentnb.runtime.live import LiveRun
from agentnb.runtime.run_options import RunOptions
from agentnb.runtime.threads import AwakeForInterrupts
from agentnb.settings import known_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestration:
    """Runs of an orchestrator: started, awaited, stopped, limited, logged, nested and resumed like those of an agent.

    ``make`` returns the orchestrator of one run, such as a subclass of `StepOrchestrator`. ``run_kind`` and ``name`` say in
    the log what it is, ``settings`` what it works by. Limits, None for no limit: ``max_seconds``, and ``budget`` in US
    dollars, for all nested runs together. Raises `SettingsError` for settings that cannot work.
    """

    make: Callable[[Lifecycle, Elicitation], Orchestrator]
    run_kind: str = "workflow"
    name: str = "workflow"
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_seconds: float | None = None
    budget: float | None = None
    limits_of_file: tuple[str, ...] = ()
    """Names of the limits that only a file sets: they loosen no budget of the person."""
    check: Callable[[Budget], None] | None = None
    """Called before a new run begins, with what it may spend; raises `SettingsError` for what cannot work then."""
    begins_with: Run | None = None
    """The run whose outputs new runs begin with: its approval mode holds for them, unless their options name one."""

    def __post_init__(self) -> None:
        for name in ("max_seconds", "budget"):
            LIMITS[name].check(getattr(self, name))

    async def run(self, prompt: str, options: RunOptions | None = None) -> Run:
        """Work on the prompt until the run ends, on the running event loop."""
        return await _Pending(self, prompt, options or RunOptions()).run_here()

    def start(self, prompt: str, options: RunOptions | None = None) -> LiveRun:
        """Start a run in the background and return a handle on it at once, which stops its nested runs too."""
        return _Pending(self, prompt, options or RunOptions()).start()

    async def resume_here(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> Run:
        """Resume an interrupted run on the running event loop, and return it when it has ended."""
        return await _Pending(self, run.prompt, options or RunOptions(), run, writer).run_here()

    def check_same(self, run: Run) -> None:
        """Raise `SettingsError` for a run of another workflow, whose steps would not be found in its log."""
        own, logged = [
            settings["workflow"].get("text") if isinstance(settings.get("workflow"), dict) else None
            for settings in (redact(plain_data(dict(self.settings)), known_secrets()), run.settings)
        ]
        if own is not None and own != logged:
            hint = (
                f"recover({run.id!r}) takes it from the log; wf.run(rerun_from=STEP, of=run) begins a new run with its outputs"
            )
            raise SettingsError(f"Run {run.id} is of another workflow, or of another version of it", hint)

    def resume(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> LiveRun:
        """Resume an interrupted run where it was cut off, and append to its log with ``writer``.

        The ``store`` of the options is where its nested runs are, which are resumed with it. Raises `SettingsError` for answers
        to what it does not ask.
        """
        if options is not None and options.answers and run.should_continue:
            options = replace(options, answers=checked_answers(run, options.answers))
        return _Pending(self, run.prompt, options or RunOptions(), run, writer).start()


class _Pending:
    """A run of an orchestration, about to start or to be resumed."""

    def __init__(
        self,
        what: Orchestration,
        prompt: str,
        options: RunOptions,
        recovered: Run | None = None,
        writer: Writer | None = None,
    ) -> None:
        if recovered is not None:
            check_resumable(recovered, options)
            what.check_same(recovered)
        elif what.begins_with is not None:
            options = with_mode_of(what.begins_with, options)
        self._what = what
        paid: dict[str, Any] = {"budget": what.budget, "is_budget_of_file": OWN in what.limits_of_file}
        self._launch = Launch(options, name=what.name, **paid, recovered=recovered, writer=writer)
        self._first = self._started(prompt) if recovered is None else self._launch.resumed(recovered)
        self._launch.check_left()
        if recovered is None and what.check is not None:
            what.check(self._launch.budget)

    async def run_here(self) -> Run:
        lifecycle, orchestrator = self._assembled(can_ask=bool(self._launch.options.can_ask))
        with AwakeForInterrupts():
            return await self._launch.here(partial(lifecycle.run, orchestrator, self._first, self._launch.open_log))

    def start(self) -> LiveRun:
        launch = self._launch
        launch.budget.detached = launch.options.foreground is None

        async def life() -> Run:
            lifecycle, orchestrator = self._assembled(can_ask=launch.options.can_ask is not False)
            return await lifecycle.run_abandonable(orchestrator, self._first, launch.open_log)

        return launch.in_background(life)

    def _assembled(self, *, can_ask: bool) -> tuple[Lifecycle, Orchestrator]:
        launch = self._launch
        clock = launch.clock(self._what.max_seconds)
        elicitation = launch.elicitation(clock, can_ask=can_ask)
        elicitation.book.hand_in(launch.options.answers or {})
        lifecycle = Lifecycle(
            launch.log,
            launch.inbox,
            clock=clock,
            budget=launch.budget,
            on_answer=elicitation.take,
            on_suspend=lambda why: elicitation.leave(),
        )
        return lifecycle, self._what.make(lifecycle, elicitation)

    def _started(self, prompt: str) -> RunStarted:
        what, options, log = self._what, self._launch.options, self._launch.log
        limits: dict[str, Any] = {name: value for name in ("max_seconds", OWN) if (value := getattr(what, name)) is not None}
        if what.limits_of_file:
            limits[OF_FILE] = list(what.limits_of_file)
        started = RunStarted(
            seq=0,
            at=datetime.now(UTC),
            run_id=log.id,
            parent_id=log.parent_id,
            schema=SCHEMA,
            run_kind=what.run_kind,
            prompt=user(encodable(prompt)),
            agent=encodable(what.name),
            model="",
            settings={**plain_data(dict(what.settings)), **limits, **self._launch.logged_mode},
            tags=tuple([encodable(one) for one in options.tags]),
            context_type=options.context_type,
            entity=options.entity,
            notebook=options.notebook,
        )
        return redact(started, known_secrets())
