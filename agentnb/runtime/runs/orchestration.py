"""Runs of any orchestrator: an `Orchestration` is to your own orchestrator what an `Agent` is to a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Unpack

from agentnb.core.log.events import SCHEMA, AnyEvent, RunStarted
from agentnb.core.log.stores import Writer
from agentnb.core.messages import encodable, user
from agentnb.core.redaction import redact
from agentnb.core.run.approvals import check_answers
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.run_limits import LIMITS, OF_FILE
from agentnb.runtime.budget import OWN, Budget
from agentnb.runtime.host.consent import takes_log, with_permissions_of
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunKeywords, RunOptions, answerable, options_of
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.gate_names import check_gates
from agentnb.runtime.runs.launch import PendingRun, check_resumable, in_foreground
from agentnb.runtime.runs.lifecycle import Lifecycle, Orchestrator
from agentnb.settings import known_secrets
from agentnb.tools.agent_tool import ToolOffer, neutral_description
from agentnb.tools.mcp.mcp_server import ServerTools

DEFAULT_NAME = "workflow"
"""Default name of an orchestration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestration:
    """Runs of an orchestrator: started, awaited, stopped, limited, logged, nested and resumed like those of an agent.

    ``make`` returns the orchestrator of one run, such as a subclass of `StepOrchestrator`. ``run_kind``, ``name`` and
    ``settings`` are recorded in the log. ``max_seconds`` and ``budget``, in US dollars for all nested runs together,
    are limits, or None for no limit. Raises `SettingsError` for settings that cannot work.
    """

    make: Callable[[Lifecycle, Elicitation], Orchestrator]
    run_kind: str = "workflow"
    name: str = DEFAULT_NAME
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_seconds: float | None = None
    budget: float | None = None
    is_plain: bool = False
    """True if the settings are plain data that is never changed, and so need not be copied."""
    limits_of_file: tuple[str, ...] = ()
    """Names of limits that come only from a file: they do not loosen any budget of the person's."""
    server_tools: tuple[ServerTools, ...] = ()
    """MCP server tools that its steps may call."""
    rule_scope: tuple[Any, ...] = ()
    """Toolboxes and agents of its steps that rules may refer to; by default, those that appear in the code of ``make``."""
    check: Callable[[Budget], None] | None = None
    """Called before a new run begins, with its budget; raises `SettingsError` for settings that cannot work within it."""
    begins_with: Run | None = None
    """The run whose outputs new runs begin with; its mode applies to them unless their options set one."""

    def __post_init__(self) -> None:
        for name in ("max_seconds", "budget"):
            LIMITS[name].check(getattr(self, name))

    @property
    def tool_offer(self) -> ToolOffer:
        """Its name and description as a tool."""
        is_named = self.name != DEFAULT_NAME
        return ToolOffer(self.name, neutral_description(self.run_kind, self.name if is_named else ""), is_named)

    async def run(self, prompt: str, options: RunOptions | None = None, **keywords: Unpack[RunKeywords]) -> Run:
        """Work on the prompt until the run ends, on the running event loop; takes the keywords of `Agent.run`."""
        return await self._pending(prompt, options_of(options, keywords, RunKeywords, "orchestration.run(prompt")).run_here()

    def start(self, prompt: str, options: RunOptions | None = None, **keywords: Unpack[RunKeywords]) -> LiveRun:
        """Start a run in the background and return a handle on it at once; stopping the run stops its nested runs too."""
        options = options_of(options, keywords, RunKeywords, "orchestration.start(prompt")
        return self._pending(prompt, answerable(options)).start()

    def run_sync(self, prompt: str, options: RunOptions | None = None, **keywords: Unpack[RunKeywords]) -> Run:
        """Like `run`, for scripts and for code that cannot await, even inside a running event loop."""
        options = options_of(options, keywords, RunKeywords, "orchestration.run_sync(prompt")
        return in_foreground(partial(self.start, prompt), options)

    async def resume_here(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> Run:
        """Resume an interrupted run on the running event loop, and return it when it has ended."""
        return await self._resumed_run(run, writer, options or RunOptions()).run_here()

    def check_same(self, run: Run) -> None:
        """Raise `SettingsError` for a run of another workflow, whose log lacks the steps, or a run with different gates."""
        own, logged = [
            settings["workflow"].get("text") if isinstance(settings.get("workflow"), dict) else None
            for settings in (redact(plain_data(dict(self.settings)), known_secrets()), run.settings)
        ]
        if own is not None and own != logged:
            hint = f"recover({run.id!r}) uses the logged workflow; wf.run(rerun_from=STEP, of=run) reuses its outputs"
            raise SettingsError(f"Run {run.id} belongs to another workflow or another version of this one", hint)
        check_gates(run, names=self.settings.get("gates") or ())

    def resume(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> LiveRun:
        """Resume an interrupted run where it was cut off, and append to its log with ``writer``.

        The ``store`` in the options holds its nested runs, which are resumed with it. Raises `SettingsError` for
        answers to questions that the run does not ask.
        """
        if options is not None and options.answers and run.should_continue:
            options = replace(options, answers=check_answers(run, options.answers))
        return self._resumed_run(run, writer, answerable(options or RunOptions())).start()

    def _pending(self, prompt: str, options: RunOptions) -> _OrchestratedRun:
        for name in ("continue_from", "board"):
            if getattr(options, name) is not None:
                hint = "Omit it. To reuse the outputs of an earlier run: rerun_from=STEP, of=run"
                raise SettingsError(f"{name} does not apply to {self.name}: only agents have a conversation and todos", hint)
        if self.begins_with is not None:
            asks_nothing = options.approval_mode is not None
            counts = self.begins_with.gives_consent if asks_nothing else takes_log(self.begins_with, options)
            options = with_permissions_of(self.begins_with, options, counts=counts)
        return _OrchestratedRun(self, prompt, options)

    def _resumed_run(self, run: Run, writer: Writer | None, options: RunOptions) -> _OrchestratedRun:
        check_resumable(run, options)
        self.check_same(run)
        return _OrchestratedRun(self, run.prompt, options, recovered=run, writer=writer)


class _OrchestratedRun(PendingRun):
    """A run of an orchestration that is about to start."""

    def __init__(self, orchestration: Orchestration, prompt: str, options: RunOptions, **resumed: Any) -> None:
        self._orchestration = orchestration
        self._prompt = prompt
        self.name, self.budget, self.max_seconds = orchestration.name, orchestration.budget, orchestration.max_seconds
        self.limits_of_file = orchestration.limits_of_file
        self.server_tools = orchestration.server_tools
        super().__init__(options, **resumed)

    @property
    def rule_scope(self) -> Iterable[Any]:
        """Its servers, and the toolboxes and agents of its steps."""
        source = self._orchestration
        return (*source.server_tools, *(source.rule_scope or (source.make,)))

    def check(self) -> None:
        """Raise `SettingsError` for settings that cannot work within the budget of a new run."""
        if self.recovered is None and self._orchestration.check is not None:
            self._orchestration.check(self.context.budget)

    def orchestrator(self, lifecycle: Lifecycle, first: AnyEvent) -> Orchestrator:
        """Return the orchestrator of the run."""
        return self._orchestration.make(lifecycle, self.context.elicitation)

    def start_event(self) -> RunStarted:
        """Return the first event of a new run, already redacted."""
        source, options, log = self._orchestration, self.context.options, self.context.log
        limits: dict[str, Any] = {name: value for name in ("max_seconds", OWN) if (value := getattr(source, name)) is not None}
        if source.limits_of_file:
            limits[OF_FILE] = list(source.limits_of_file)
        started = RunStarted(
            seq=0,
            at=datetime.now(UTC),
            run_id=log.id,
            parent_id=log.parent_id,
            schema=SCHEMA,
            run_kind=source.run_kind,
            prompt=user(encodable(self._prompt)),
            agent=encodable(source.name),
            model="",
            settings={
                **(source.settings if source.is_plain else plain_data(dict(source.settings))),
                **limits,
                **self.logged_settings,
            },
            tags=tuple([encodable(tag) for tag in options.tags]),
            context_type=options.context_type,
            entity=options.entity,
            notebook=options.notebook,
            invocation=options.invocation,
        )
        return redact(started, known_secrets())
