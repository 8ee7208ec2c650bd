"""The start of every run, for any orchestrator: its id, log and budget, and a handle on it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from agentnb.advice import Advised, RaiseSessionBudget
from agentnb.core.guidance import GuidanceTexts
from agentnb.core.inbox import Inbox, current_inbox
from agentnb.core.log.events import SCHEMA, AnyEvent, Consent, RunRecovered
from agentnb.core.log.stores import Watcher, Writer
from agentnb.core.run.approvals import RULES
from agentnb.detect.agent_runs import how_to_continue
from agentnb.detect.run import Run
from agentnb.errors import NestedTooDeep, SettingsError
from agentnb.policies.permissions.approval_mode import NO_MODE, ApprovalMode
from agentnb.policies.permissions.approval_mode import SETTING as MODE
from agentnb.policies.permissions.gate import Confirms, confirms_nothing
from agentnb.policies.permissions.permission_rules import NO_RULES
from agentnb.policies.permissions.rule_words import known_rules
from agentnb.policies.permissions.run_permissions import SETTING as PERMISSIONS
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.policies.run_limits import OnLimit
from agentnb.runtime.budget import OWN, Budget, current_budget, nested_levels
from agentnb.runtime.calls.approval import answer_program
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.calls.run_servers import RunServers
from agentnb.runtime.clock import Clock, seconds_taken
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.consent import consent_to, least_mode, logged_permissions, note_begun, takes_log, warning_of_lost
from agentnb.runtime.host.host import Beginning, Host, complete_options, host_here, on_main_thread, plain_tools, use_host
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions, folder_of
from agentnb.runtime.questions.answerers import Approve
from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.questions.elicitation import CallElicitor, Elicitation
from agentnb.runtime.questions.grants import SessionGrants
from agentnb.runtime.questions.model_code import check_person, model_code
from agentnb.runtime.runs.lifecycle import Lifecycle, Orchestrator
from agentnb.runtime.runs.terminal_line import progress_watcher
from agentnb.runtime.servers.resumed_servers import changed_servers, check_configured
from agentnb.runtime.threads import AwakeForInterrupts, LoopThread
from agentnb.runtime.workers.foreground import Foreground
from agentnb.runtime.workers.tool_threads import call_around, follow_threads
from agentnb.settings import agent_mode
from agentnb.tools.mcp.mcp_server import ServerTools
from agentnb.tools.todos.board import Board

Life: TypeAlias = Callable[[], Coroutine[Any, Any, Run]]
"""Creates the coroutine of a run."""
_NOTHING_LOGGED = Permissions()
MAX_LEVELS = 20
"""Maximum depth of nested runs."""


def new_run_id() -> str:
    """Return a new run id: the time (UTC) to the millisecond, so that ids sort by age, followed by eight random hex digits."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(seconds)) + f"{milliseconds:03d}{os.urandom(4).hex()}"


def check_resumable(run: Run, options: RunOptions) -> None:
    """Raise `SettingsError` if the run has ended, or for options that apply only to new runs."""
    if not run.should_continue:
        raise SettingsError(f"Run {run.id} has ended ({run.status})", how_to_continue(run))
    for name in ("continue_from", "board", "parent_id", "parent", "run_id"):
        if getattr(options, name) is not None:
            raise SettingsError(f"{name} does not apply to a resumed run", "Omit it: the run continues its own log")
    if not takes_log(run, options) and options.answers:
        raise SettingsError(f"Run {run.id} will ask its questions again", "Resume it first, without answers")


class PendingRun:
    """A run that is about to start or be resumed: the settings of its agent or orchestration, and its context."""

    name: str
    """Name of the agent."""
    budget: float | None
    """Its own budget in US dollars."""
    limits_of_file: Iterable[str]
    """Names of limits that come only from a file."""
    max_seconds: float | None
    """Its time limit."""
    server_tools: Sequence[ServerTools]
    """MCP server tools that it names."""
    on_limit: OnLimit = "stop"
    """Behaviour at a limit."""
    approve: Approve | str | None = None
    """Mode of its runs, or the function that decides about their calls, unless the run's options set one."""
    rule_list = NO_RULES
    """Its rules about tool calls."""
    confirms: Confirms = staticmethod(confirms_nothing)
    """Returns the calls that the person must confirm every time in some contexts."""
    guidance: GuidanceTexts | None = None
    """Its guidance set, or None if no model gets guidance."""
    board: Board | None = None
    """The todo list that the run maintains or carries along."""
    work_dir: str | Path | None = None
    """Working folder of its tools unless the options set one; None means the current folder."""
    first: AnyEvent | None = None
    """First event of this process, for a fork, or None for new and resumed runs."""

    def __init__(
        self, options: RunOptions, *, recovered: Run | None = None, writer: Writer | None = None, is_fork: bool = False
    ) -> None:
        """``recovered``: the interrupted run to resume, or the head of a fork. ``writer``: appends to its log."""
        self.recovered = recovered
        host, around, is_resumed = host_here(), call_around(), recovered is not None
        options = complete_options(options, host, is_resumed=is_resumed)
        if around is not None and model_code() is not None:
            options = _without_person(options)
        work_dir = folder_of(self.work_dir if options.work_dir is None else options.work_dir)
        if options.work_dir is not None:
            options = replace(options, work_dir=work_dir)
        self.consent: Consent = "" if recovered is None else consent_to(recovered, options)
        """The person's decision about the log of a resumed run, in the form that `RunRecovered` logs."""
        logged = _NOTHING_LOGGED
        warnings: Sequence[tuple[str, Advised]] = ()
        if recovered is not None and not is_fork:
            options, logged = self._with_log(recovered, options)
            warnings = () if self.consent else tuple(warning_of_lost(recovered, options))
        permissions = self._permissions(options, logged, host, around)
        log = _log_of(options, recovered)
        if not is_resumed and permissions.loosen:
            note_begun(log.id)
        is_kept = writer is not None or (log.store is not None and (is_fork or not is_resumed))
        budget = _budget_of(self.budget, options, log, recovered)
        budget.is_of_file, budget.host_servers = OWN in self.limits_of_file, host.servers
        clock = Clock(self.max_seconds, before=0.0 if recovered is None else seconds_taken(recovered.events))
        elicitation = self._elicitation(options, log, clock, permissions, around, host.grants, work_dir)
        elicitation.suspends = options.suspend and is_kept
        if is_resumed and not is_fork and options.answers:
            elicitation.book.hand_in(options.answers)
        self.context = RunContext(
            options=options,
            host=host,
            log=log,
            inbox=Inbox(current_inbox.get()),
            clock=clock,
            budget=budget,
            elicitation=elicitation,
            call_sync=plain_tools(options.foreground, host),
            work_dir=work_dir,
            servers=self._servers(log, options, budget, work_dir) if self.server_tools else None,
            open_log=partial(_open_writer, log, writer) if is_kept else None,
            warnings=warnings,
        )

    # Implemented by its agent or orchestration

    @property
    def rule_scope(self) -> Iterable[Any]:
        """Toolboxes, agents and names that rules may refer to."""
        return ()

    @property
    def is_slow(self) -> bool:
        """True if `prepare` may take long."""
        return False

    def prepare(self) -> None:
        """Create what the run needs before it starts, such as its model."""

    def check(self) -> None:
        """Raise `SettingsError` for settings that cannot work within the run's budget."""

    def start_event(self) -> AnyEvent:
        """Return the first event of a new run, already redacted."""
        raise NotImplementedError

    def orchestrator(self, lifecycle: Lifecycle, first: AnyEvent) -> Orchestrator:
        """Return the orchestrator of the run."""
        raise NotImplementedError

    @property
    def logged_settings(self) -> dict[str, Any]:
        """The MCP servers and permissions, for the settings in the log."""
        servers, permissions = self.context.servers, self.context.elicitation.permissions
        return permissions.as_logged if servers is None else {**servers.as_logged, **permissions.as_logged}

    # Its start

    async def run_here(self) -> Run:
        """Run to the end, on the running event loop; plain tools run in threads."""
        if self.is_slow:
            await asyncio.to_thread(self.prepare)
        else:
            self.prepare()
        with AwakeForInterrupts() if self.context.options.parent is None else nullcontext():  # else the parent run is awake
            if self.context.host:
                return await self._in_host(self._assemble())
            self._show_in_terminal()
            return await self._assemble()()

    def start(self) -> LiveRun:
        """Start on an event loop in a thread and return a handle at once."""
        self.context.budget.detached = self.context.options.foreground is None
        self.prepare()
        return self._in_background(self._assemble())

    def _assemble(self) -> Life:
        """Return the function that creates its coroutine. Raises `SettingsError` if the budget is spent or the
        settings cannot work within it.
        """
        context, recovered, servers = self.context, self.recovered, self.context.host.servers
        self._check_left()
        if (rules := context.options.permissions) is not None:
            known_rules(rules, self.rule_scope, () if servers is None else servers.configuration.known)
        self.check()
        if recovered is not None:
            changed = changed_servers(recovered, () if context.servers is None else context.servers.items)
            context.warnings = (*context.warnings, *changed)
        lifecycle = Lifecycle(context, on_limit=self.on_limit)
        if context.elicitation.around is not None and recovered is None:
            context.elicitation.around.began(context.log.id, self.name)
        first = self.first or (self.start_event() if recovered is None else self._recovery_event(recovered))
        return partial(lifecycle.run, self, first)

    def _elicitation(
        self,
        options: RunOptions,
        log: EventLog,
        clock: Clock,
        permissions: Permissions,
        around: CallElicitor | None,
        grants: SessionGrants | None,
        work_dir: Path,
    ) -> Elicitation:
        """Return the run's `Elicitation`."""
        approve: Any = options.approve or self.approve
        return Elicitation(
            log,
            can_ask=bool(options.can_ask),
            clock=clock,
            answer=None if options.answer is None else answer_program(options.answer),
            approve=None if isinstance(approve, str) else approve,
            permissions=permissions,
            confirms=self.confirms,
            parent=around,
            grants=grants,
            work_dir=work_dir,
        )

    def _with_log(self, run: Run, options: RunOptions) -> tuple[RunOptions, Permissions]:
        """Return the options of a resumed run, and the permissions in its log."""
        is_refused = self.consent == "refused"
        logged = logged_permissions(run, options, counts=not is_refused)
        return replace(options, least_mode=least_mode(logged)) if is_refused else options, logged

    def _permissions(self, options: RunOptions, logged: Permissions, host: Host, around: CallElicitor | None) -> Permissions:
        """Return the run's permissions, from its options, its log if resumed, its agent, and the defaults here.

        The mode is that of the first of these that has one; a log that does not count can only add restrictions. The rules in
        the log, outer ones first, apply as well, and so do the restrictions of the parent run.
        """
        usual = NO_MODE if around is not None else _usual_mode(host)
        rules = self.rule_list if options.permissions is None else options.permissions.then(self.rule_list)
        if isinstance(self.approve, str):
            usual = ApprovalMode.of(self.approve)
        if options.approval_mode is not None:
            mode = ApprovalMode.of(options.approval_mode)
        elif options.least_mode:
            mode = ApprovalMode.of(options.least_mode).within(usual)
        else:
            mode = logged.mode if logged.mode.held else usual
        *outer, own = logged.layers or (NO_RULES,)
        layers = (*outer, rules.then(own)) if outer or rules or own else ()
        permissions = Permissions(mode, layers, confirms=logged.confirms)
        if around is not None:
            permissions = permissions.within(around.elicitation.permissions_of_nested)
        if not permissions.needs_nothing or self.confirms is not confirms_nothing:
            follow_threads()
        return permissions

    def _servers(self, log: EventLog, options: RunOptions, budget: Budget, work_dir: Path) -> RunServers:
        """Return the MCP servers that the run names. Raises `SettingsError` for a server that is not configured."""
        servers = budget.servers
        if self.recovered is not None:
            check_configured(servers, self.server_tools, self.recovered)
        rules = (*(options.permissions or NO_RULES).rules, *self.rule_list.rules)
        return RunServers(log, servers.resolve(self.server_tools), servers, work_dir, rules)

    def _check_left(self) -> None:
        """Raise `SettingsError` if the budget is spent. A recovered run is let through, since it ends at its own limit
        anyway.
        """
        spent = self.context.budget.exhausted()
        if spent is not None and not (self.recovered is not None and spent.name == OWN):
            is_own, more = spent.name == OWN, RaiseSessionBudget(2 * (spent.limit or 1), lead="Raise it")
            raise SettingsError(
                f"The {spent.name.replace('_', ' ')} is used up: ${spent.spent:.4f} of ${spent.limit:g} spent",
                "Raise it: budget=" if is_own else more,
            )

    def _recovery_event(self, run: Run) -> RunRecovered:
        """Return the event that records that this process resumes the run."""
        permissions = self.context.elicitation.permissions
        words, rules = permissions.mode.words, permissions.as_logged.get(PERMISSIONS, [])
        return RunRecovered(
            seq=len(run.events),
            at=datetime.now(UTC),
            run_id=run.id,
            parent_id=run.parent_id,
            schema=SCHEMA,
            approve="" if words == run.settings.get(MODE, RULES) else words,
            permissions=None if rules == run.settings.get(PERMISSIONS, []) else rules,
            consent=self.consent,
            guidance=None if self.guidance == run.given_guidance else self.guidance,
        )

    async def _in_host(self, life: Life) -> Run:
        """Await the run's coroutine on the running event loop; the host gets a handle on the run."""
        inside, ended = self._attach_watcher(awaited=True), Future[Run]()
        self._hand_over(ended, len(self.context.log.run.events))
        try:
            with use_host(inside):
                run = await life()
        except BaseException as error:
            ended.set_exception(error)
            raise
        ended.set_result(run)
        return run

    def _in_background(self, life: Life) -> LiveRun:
        """Start the run's coroutine on an event loop in a thread, and return a handle at once; the host gets it too."""
        options, host, before = self.context.options, self.context.host, len(self.context.log.run.events)
        inside = self._attach_watcher(awaited=False)
        shared = options.thread or (host.thread() if host.thread is not None and options.foreground is None else None)
        thread = shared or LoopThread()

        async def work() -> Run:
            with use_host(inside):
                return await life()

        future = thread.submit(work)
        if shared is None:
            future.add_done_callback(lambda _: thread.close())
        return self._hand_over(future, before)

    def _attach_watcher(self, *, awaited: bool) -> Host:
        """Let the host watch the run unless its options set a watcher; return the host of its nested runs."""
        log, options, host = self.context.log, self.context.options, self.context.host
        watcher = options.watch
        if host.watch is None:
            self._show_in_terminal()
        elif watcher is None and options.show:
            call = current_call.get() if log.parent_id is not None else None
            watcher = host.watch(
                Beginning(
                    run=log.run,
                    run_id=log.id,
                    parent_id=log.parent_id,
                    call_id=None if call is None else call.call_id,
                    agent=self.name,
                    awaited=awaited,
                    blocks=awaited or options.foreground is not None,
                    stored=options.store is not None,
                )
            )
            if watcher is not None:
                log.watch(watcher)
        foreground, store = options.foreground, options.store or host.store
        return host.inside(watcher, store, host.call_sync if foreground is None else on_main_thread(foreground.call))

    def _show_in_terminal(self) -> None:
        """On standard error, if that is a terminal, show a top-level run that has no watcher."""
        log, options = self.context.log, self.context.options
        if options.watch is None and options.show and log.parent_id is None and (line := progress_watcher(log.run, log.id)):
            log.watch(line)

    def _hand_over(self, ended: Future[Run], before: int) -> LiveRun:
        """Return a handle on the run; the host gets it too. ``before``: number of its earlier events."""
        context = self.context
        log, foreground, is_kept = context.log, context.options.foreground, context.is_kept
        live = LiveRun(log.id, log.run, context.inbox, ended, self.board, foreground, before, is_kept=is_kept)
        if context.host.begun is not None:
            context.host.begun(live)
        return live


def in_foreground(start: Callable[[RunOptions], LiveRun], options: RunOptions) -> Run:
    """Start a run with these options and wait for it, while the calling thread runs its plain tools.

    An interrupt ends the run, closes its log and raises KeyboardInterrupt.
    """
    foreground = Foreground()
    can_ask = host_here().can_ask if options.can_ask is None else options.can_ask  # the caller gets no handle
    with foreground.own_interrupts():
        return start(replace(options, foreground=foreground, can_ask=can_ask)).wait_in_foreground()


def _without_person(options: RunOptions) -> RunOptions:
    """Return the options of a run started by a model's code: it may ask the person only through its parent run.

    Raises `SettingsError` if that code would answer in the person's place.
    """
    if options.answer is not None or options.answers:
        check_person("Answering a question")
    if options.trust_log:
        check_person("Trusting a log")
    return replace(options, can_ask=False)


def _usual_mode(host: Host) -> ApprovalMode:
    """Return the default mode of a top-level run: the host's, or else the environment's."""
    mode = "" if host.approval_mode is None else host.approval_mode()
    return ApprovalMode.of(mode or agent_mode() or RULES)


def _log_of(options: RunOptions, recovered: Run | None) -> EventLog:
    """Return the log of a new run, or of the ``recovered`` one."""
    if nested_levels.get() >= MAX_LEVELS:
        problem = f"Runs are nested {MAX_LEVELS} levels deep, each started by a tool of the previous one"
        raise NestedTooDeep(problem, "Remove the tools that start runs from the innermost agent")
    watchers: tuple[Watcher, ...] = () if options.watch is None else (options.watch,)
    if recovered is not None:
        return EventLog(recovered.id, parent_id=recovered.parent_id, watchers=watchers, run=recovered, store=options.store)
    run_id = options.run_id or new_run_id()
    if options.parent is not None:
        return options.parent.child(run_id, watchers=watchers)
    around = current_budget.get()
    outer = None if around is None else around.log  # of the run whose tool is running
    parent_id, store = options.parent_id, options.store
    if outer is not None:
        parent_id, store = parent_id or outer.id, store or outer.store
    return EventLog(run_id, parent_id=parent_id, watchers=watchers, store=store)


def _budget_of(limit: float | None, options: RunOptions, log: EventLog, recovered: Run | None) -> Budget:
    """Return the budget of a run with its own limit, within that of its parent run or its options (the session's)."""
    within = current_budget.get() or options.budget
    if recovered is None:
        budget = Budget(limit, within=within)
    else:
        inside = recovered.counters.spent_inside
        budget = Budget(limit, within=within, spent=recovered.own_spent, inside=inside, usage=recovered.own_usage)
    budget.log = log
    return budget


async def _open_writer(log: EventLog, writer: Writer | None) -> Writer:
    """Return the writer of a log, creating the log if it is not open yet. A fork's log begins with the events before
    the fork.
    """
    if writer is None:
        writer = await log.open()
        for event in log.run.events:
            writer.append(event)
    return writer
