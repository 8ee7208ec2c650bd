"""The session of a kernel: its live and past runs, its store, and its defaults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.core.log.events import RunSuspended
from agentnb.core.log.work_events import GrantGiven, GrantWithdrawn
from agentnb.core.request import Request
from agentnb.core.todos import Todo
from agentnb.detect.agent_runs import check_of_agent
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError, TraceError, suggest_names
from agentnb.experiments.running.control import Control
from agentnb.guidance import BUILT_IN, GuidanceSet, find_set
from agentnb.models.registry import check_model
from agentnb.policies import find_policy
from agentnb.policies.permissions.permission_rules import Rule, RuleList
from agentnb.policies.permissions.rule_words import known_rules
from agentnb.policies.run_limits import SESSION_BUDGET as SESSION_BUDGET_LIMIT
from agentnb.runtime.budget import Budget
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.host import Host, host_here, use_host
from agentnb.runtime.host.live_run import LiveRun, wait_for_ends
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.grants import SessionGrants, is_copy
from agentnb.runtime.questions.model_code import check_person
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.runtime.servers.servers import Servers
from agentnb.runtime.threads import LoopThread
from agentnb.session.default_store import default_store
from agentnb.session.option_defaults import (
    APPROVE,
    LIMIT_KEYS,
    MODELS,
    SESSION_BUDGET,
    agent_settings,
    at_first,
    check_default,
    tool_groups,
    workflow_settings,
)
from agentnb.session.session_contexts import SessionContexts
from agentnb.store.store import Store
from agentnb.tools.builtin.group import ToolGroup
from agentnb.tools.todos.board import Board, TodoBoard

MAX_EXPERIMENTS = 5
"""Number of newest experiments that `all_experiments` returns even if they have ended."""
MAX_RESUMABLE = 50
"""Maximum number of stored runs searched for grants, newest first."""
SWEEP = 2
"""Number of runs above which ended ones are dropped."""


class Session:
    """Starts the runs of a kernel and keeps track of them."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._lock = threading.RLock()  # a cell and the panel, in its own thread, may start runs simultaneously
        self._threads: dict[str, LoopThread] = {}
        self._live: list[LiveRun] = []
        self._begun_here: list[LiveRun] = []
        """All runs started in this kernel that may still be live, in order, including those outside the conversation."""
        self._sweep_at = SWEEP
        self._experiments: list[Control] = []
        """The experiments started in this kernel that may still be live, in order."""
        self._newest: LiveRun | Control | None = None
        """The latest run or experiment of this kernel."""
        self._loaded: Run | None = None
        self._loaded_board: Board | None = None
        self._store_note = ""
        self.notebook = ""
        """The notebook that this kernel belongs to, if known."""
        self.budget = Budget(name=SESSION_BUDGET_LIMIT.name)
        """The budget that all its runs share."""
        self.grants = SessionGrants()
        """Calls that the person has allowed in all of its runs."""
        self.servers = Servers()
        """The configured MCP servers and their connections, which last until the kernel ends."""
        self.defaults: dict[str, str] = at_first()
        """Defaults for options that a cell does not give."""
        self.sets: dict[str, GuidanceSet] = {}
        """The guidance sets written in this session, by name."""
        self.contexts = SessionContexts()

    @property
    def store(self) -> Store:
        """The store for the logs of its runs."""
        with self._lock:
            if self._store is None:
                self._store, self._store_note = default_store()
            return self._store

    @property
    def store_note(self) -> str:
        """A note for the person about the store's folder; usually empty."""
        return self._store_note if self.store else ""

    def start(
        self,
        agent: Agent | Orchestration,
        prompt: str,
        options: RunOptions | None = None,
    ) -> LiveRun:
        """Start a run with the session's store, event loop and budget and the conversation's todo list. Thread-safe."""
        with self._lock:
            options = options or RunOptions()
            keeps_todos = isinstance(agent, Agent) and agent.todos is True
            board = self._board_of(options.continue_from) if keeps_todos else None
            self._forget_ended()
            with self._hosting():
                return self._register(agent.start(prompt, replace(self._with_own(options), store=self.store, board=board)))

    def recover(
        self,
        run_id: str,
        make_agent: Callable[[Run], Agent | Orchestration],
        options: RunOptions | None = None,
    ) -> LiveRun:
        """Resume an interrupted run of the store with the agent from ``make_agent``, and append to its log.

        A watcher first receives all earlier events. Raises `SettingsError` if the run is live here, and the errors of
        `Store.reopen` and of the agent.
        """
        with self._lock:
            run_id = self.store.find(run_id)
            if run_id in [live.run_id for live in self.running()]:
                raise SettingsError(f"Run {run_id} is already running here", "%agent status shows its progress")
            writer, run = self.store.reopen(run_id)
            try:
                own = replace(self._with_own(options or RunOptions()), store=self.store)
                with self._hosting():
                    live = make_agent(run).resume(run, writer, own)
            except BaseException:
                writer.close()
                raise
            self._forget_ended()
            return self._register(live)

    def host(self) -> Host:
        """Return the session's resources for runs started from Python code, such as ``await agent.run(...)``.

        These runs share its budget and count as live runs. Unless they have their own store, their logs are only in memory.
        """
        return Host(
            begun=self.take,
            budget=self.budget,
            grants=self.grants,
            servers=self.servers,
            thread=lambda: self._thread("background"),
            notebook=self.notebook,
            sets=self.sets,
            experiment=self.take_experiment,
            approval_mode=lambda: self.defaults[APPROVE],
        )

    def _hosting(self) -> AbstractContextManager[None]:
        """Use the session's host for a run started in this block; nested runs store their logs beside the run's own."""
        return use_host(replace(host_here() or self.host(), begun=None, watch=None, store=self.store))

    def take(self, live: LiveRun) -> None:
        """Add a run to the live runs. Only runs started by `start` or `recover` are part of the conversation."""
        with self._lock:
            if len(self._begun_here) >= self._sweep_at:
                self._begun_here = [earlier for earlier in self._begun_here if not earlier.done]
                self._sweep_at = 2 * len(self._begun_here) + SWEEP
            self._begun_here.append(live)
            self._newest = live

    def take_experiment(self, control: Control) -> None:
        """Add an experiment, unless it is already there."""
        with self._lock:
            if all(known_control is not control for known_control in self._experiments):
                self._experiments.append(control)
                self._newest = control

    def experiments(self) -> list[Control]:
        """Return the experiments that have not ended, oldest first."""
        return [control for control in tuple(self._experiments) if not control.progress.is_over]

    def all_experiments(self) -> list[Control]:
        """Return the experiments of this kernel, newest first; ended ones only among the last five."""
        latest = self._experiments[::-1]
        return [one for place, one in enumerate(latest) if place < MAX_EXPERIMENTS or not one.progress.is_over]

    def interrupted_ids(self) -> Iterator[str]:
        """Yield the ids of the interrupted runs in the store, newest first."""
        running_ids = [live.run_id for live in self.running()]
        return (
            summary.id for summary in self.store.each_summary() if summary.can_be_recovered and summary.id not in running_ids
        )

    def suspended_ids(self) -> Iterator[str]:
        """Yield the ids of the suspended top-level runs in the store, newest first."""
        running_ids = [live.run_id for live in self.running()]
        candidates = (summary for summary in self.store.each_summary() if summary.can_be_answered and summary.parent_id is None)
        return (summary.id for summary in candidates if summary.id not in running_ids)

    def only_suspended(self) -> str:
        """Return the id of the suspended top-level run if there is only one and no live run is waiting; otherwise an empty
        string.
        """
        if any(live.run.waiting for live in self.running()):
            return ""
        ids = list(islice(self.suspended_ids(), 2))
        return ids[0] if len(ids) == 1 else ""

    def stored_grants(self) -> Iterator[tuple[str, GrantGiven]]:
        """Yield the grants of stored runs that no process holds and that may be resumed, each with its run's id."""
        running_ids = [live.run_id for live in self.running()]
        resumable = (summary.id for summary in self.store.each_summary() if summary.can_be_answered or summary.can_be_recovered)
        for run_id in islice((summary for summary in resumable if summary not in running_ids), MAX_RESUMABLE):
            with suppress(StoreError, TraceError):  # a torn log, or one of a newer version
                run = self.store.load(run_id)
                yield from [(run_id, grant) for grant in run.grants if run.gives_consent and not is_copy(grant)]

    def withdraw_stored(self, run_id: str, grant_id: str) -> None:
        """Withdraw a grant in the log of a stored run, so that the run no longer has it when resumed."""
        check_person("Withdrawing a grant")
        writer, run = self.store.reopen(run_id)
        try:
            log, last = EventLog(run_id, parent_id=run.parent_id, run=run), run.events[-1]
            log.keep_in(writer)
            log.emit(GrantWithdrawn, grant_id=grant_id)
            if isinstance(last, RunSuspended):
                log.emit(RunSuspended, why=last.why)
        finally:
            writer.close()

    def newest_interrupted(self) -> str:
        """Return the id of the newest interrupted top-level run; nested runs belong to their parents.

        Raises `SettingsError` if no run was interrupted.
        """
        running_ids = {live.run_id for live in self.running()}
        for summary in self.store.each_summary():
            if summary.can_be_recovered and summary.parent_id is None and summary.id not in running_ids:
                with suppress(StoreError, TraceError):  # a torn log, or one of a newer version
                    self.store.load(summary.id)
                    return summary.id
        if not self.store.ids():
            problem = f"There are no runs in {self.store.shown_folder}"
            raise SettingsError(problem, "Logs are stored in the folder of their notebook. Check that this is the right folder")
        raise SettingsError(f"No run in {self.store.shown_folder} was interrupted", "%agent history lists the runs")

    def _register(self, live: LiveRun) -> LiveRun:
        self.take(live)
        self._live.append(live)
        self._loaded = None
        return live

    def _with_own(self, options: RunOptions) -> RunOptions:
        """Return the options with the session's budget and one of its event loops added."""
        thread = self._thread("background" if options.foreground is None else "foreground")
        return replace(options, thread=thread, budget=self.budget)

    def _thread(self, kind: str) -> LoopThread:
        """Return the event loop for foreground or background runs, so that a tool that blocks one does not block the other."""
        thread = self._threads.get(kind)
        if thread is None:
            thread = self._threads[kind] = LoopThread()
        return thread

    def _forget_ended(self) -> None:
        """Keep the live runs and the newest run that has ended."""
        states = [(live, live.done) for live in self._live]  # read once: a run that ends meanwhile must not be lost
        ended = [live for live, done in states if done and live.run.started_at is not None]
        self._live = ended[-1:] + [live for live, done in states if not done]

    def allow_always(self, rule: str, variables: Iterable[Any] = ()) -> None:
        """Allow the calls that match a rule, such as ``bash(git status *)``, in the session.

        ``variables``: tools and agents, or words for them, that the rule may refer to in addition to those of live runs. Raises
        `SettingsError` for an invalid rule, and for an unknown name.
        """
        check_person("Allowing calls", is_lasting=True)
        parsed = Rule.read(rule, "allow")
        run_tools = [spec.name for live in self.running() for spec in live.run.tools]
        known_rules(RuleList((parsed,)), (*variables, *run_tools), self.servers.configuration.known)
        self.grants.give(parsed.tools, rule=parsed.text if parsed.pattern else "")

    def first_request(self, agent: Agent, prompt: str, continue_from: Run | None) -> Request:
        """Return the first request that `start` would send, without sending it."""
        board = self._board_of(continue_from) if agent.todos is True else None
        return agent.first_request(prompt, continue_from=continue_from, board=board)

    def board(self) -> Board:
        """Return the board of the last loaded run or, if none was loaded, of the newest. Raises `SettingsError` if that run has
        no list.
        """
        if self._loaded is not None:
            board: Board | None = self._board_of(self._loaded)
        else:
            begun = [live for live in self._live if live.run.started_at is not None]
            board = begun[-1].board if begun else None
        if board is None and not self.has_run:
            hint = (
                "For a run started from Python, see run.todos" if self.has_hosted else "Start one with tools: %%agent -t NAME"
            )
            raise SettingsError("There is no todo list: no %%agent cell has run yet", hint)
        if board is None:
            raise SettingsError("There is no todo list: the newest cell's run has no tools", "Give it tools: %%agent -t NAME")
        return board

    def _board_of(self, run: Run | None) -> Board | None:
        """Return the board of a run in this session, so that changes made after the run reach the next run."""
        if run is not None and run is self._loaded:
            return self._loaded_board
        return next((live.board for live in self._live if live.run is run), None)

    def write_set(self, name: str, body: str) -> GuidanceSet:
        """Store a guidance set under its name, replacing an earlier one. Raises `SettingsError` if it is invalid."""
        if name in BUILT_IN:
            raise SettingsError(f"{name} is a built-in guidance set", "Choose another name for yours")
        self.sets[name] = GuidanceSet.from_markdown(name, body)
        return self.sets[name]

    def find_set(self, name: str) -> GuidanceSet:
        """Return the guidance set with this name, either written here or built-in."""
        return find_set(name, self.sets)

    def leave_foreground(self) -> None:
        """Give the next cell a new event loop, since a tool of the last cell is blocking the old one."""
        self._threads.pop("foreground", None)

    @property
    def has_run(self) -> bool:
        """True if a run has been loaded or started."""
        return self._loaded is not None or any(live.run.started_at is not None for live in self._live)

    @property
    def has_hosted(self) -> bool:
        """True if any run has been started here, in a cell or from Python code."""
        return bool(self._begun_here)

    def running(self) -> list[LiveRun]:
        """Return the runs that have not ended, oldest first."""
        return [live for live in tuple(self._begun_here) if not live.done]

    def newest(self) -> LiveRun | Control:
        """Return the newest run or experiment that has not ended. Raises `SettingsError` if everything has ended."""
        live: list[LiveRun | Control] = [*self.experiments(), *self.running()]
        newest = next((candidate for candidate in live if candidate is self._newest), None)
        return newest or (live[-1] if live else self.current())

    def current(self) -> LiveRun:
        """Return the newest run that has not ended. Raises `SettingsError` if all runs have ended."""
        running = self.running()
        if not running:
            raise SettingsError("Nothing is running", "%agent history lists past runs")
        return running[-1]

    def leave(self) -> list[LiveRun]:
        """Suspend and return the runs that wait for an approval: this kernel is ending, and another one will resume them."""
        suspended_runs = []
        for live in self.running():
            with suppress(SettingsError):  # it waits for no approval, or its log is in memory only
                live.suspend(nobody_here=True)
                suspended_runs.append(live)
        return suspended_runs

    def stop(self, chosen: list[LiveRun], seconds: float) -> None:
        """Stop these runs, and wait up to ``seconds`` in total for those started by a cell to end.

        Others are not waited for, since a run awaited by Python code may need this thread's event loop.
        """
        for live in chosen:
            live.stop()
        wait_for_ends([live for live in chosen if live in self._live], seconds)

    def waiting_for_answer(self) -> LiveRun:
        """Return the newest run with an open question for the person. Raises `SettingsError` if no question is open."""
        waiting = [live for live in self.running() if live.run.waiting]
        if not waiting:
            raise SettingsError("No run is waiting for an answer", "%agent status shows what is running")
        return waiting[-1]

    def last_run(self) -> Run:
        """Return the last loaded run or, if none was loaded, the newest.

        Raises `SettingsError` if there is none, or if it has not ended.
        """
        if self._loaded is not None:
            return self._loaded
        begun = [live for live in self._live if live.run.started_at is not None]
        if not begun:
            raise SettingsError("There is no run to continue", self._instead_of_continuing())
        if not begun[-1].done:
            raise _still_running(begun[-1].run)
        return begun[-1].run

    def conversation(self, run: Run | None = None) -> Run:
        """Return the run to continue, by default the last one.

        Raises `SettingsError` if it has not ended, or is the run of a workflow.
        """
        run = self.last_run() if run is None else run
        if any(live.run is run for live in self.running()):
            raise _still_running(run)
        check_of_agent(run, "it has no conversation to continue")
        return run

    def stored(self, part_of_id: str) -> Run:
        """Return the stored run with this id, or part of an id; for a live run, or the newest here, return the object
        in memory.
        """
        run_id = self.store.find(part_of_id)
        live_run = next((live.run for live in self._live if live.run_id == run_id), None)
        if self._loaded is not None and self._loaded.id == run_id:
            return self._loaded
        return self.store.load(run_id) if live_run is None else live_run

    def _instead_of_continuing(self) -> str:
        """Return advice for a kernel that has no run yet: the newest run in the store may have been interrupted."""
        newest = next((summary for summary in self.store.each_summary() if summary.parent_id is None), None)
        if newest is None:
            return "Start one without --continue"
        if newest.status == "interrupted":
            return f"Run {newest.id} was interrupted when its kernel died. To resume it: %agent recover {newest.id}"
        return f"Start one without --continue, or load one: %agent load {newest.id} loads the newest"

    def load(self, part_of_id: str) -> Run:
        """Load a run from the store for ``--continue``, or return it from this session if it is still live."""
        run_id = self.store.find(part_of_id)
        for live in self.running():
            if live.run_id == run_id:
                return live.run
        loaded = self.store.load(run_id)
        ended = next((live for live in self._live if live.run_id == run_id), None)
        # A run of this session keeps its own board, with the changes made since its end.
        board = ended.board if ended is not None else _board_with(loaded.conversation_todos)
        self._loaded, self._loaded_board = loaded, board
        return self._loaded

    def set_default(self, key: str, value: str, *, is_variable: bool = False) -> None:
        """Change one of `defaults`. Raises `SettingsError` for an unknown key or an invalid value.

        The key may be written with underscores, as the settings of an `Agent` are. ``is_variable``: whether the value names a
        variable that holds a model.
        """
        check_person("Changing a default", is_lasting=True)
        key = key.replace("_", "-")
        if key not in self.defaults:
            raise SettingsError(f"There is no default {key!r}", suggest_names(key, self.defaults))
        if key in MODELS and value and not is_variable:
            check_model(value)
        if key == "guidance":
            self.find_set(value)
        if key == "policy":
            find_policy(value)
        value = check_default(key, value)
        if key == SESSION_BUDGET:
            self.budget.limit = LIMIT_KEYS[key].read(value) if value else None
        self.defaults[key] = value

    def agent_settings(self) -> dict[str, Any]:
        """Return the defaults as arguments of `Agent`, except model, guidance and policy."""
        return agent_settings(self.defaults)

    def tool_groups(self) -> dict[str, ToolGroup]:
        """Return the groups of built-in tools that the defaults configure, by word."""
        return tool_groups(self.defaults)

    def workflow_settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the changed defaults: limits for the workflow as a whole, and settings of the agents that it declares."""
        limits, of_agents = workflow_settings(self.defaults)
        if "guidance" in of_agents:
            of_agents["guidance"] = self.find_set(of_agents["guidance"])
        return limits, of_agents


def _still_running(run: Run) -> SettingsError:
    return SettingsError(f"Run {run.id} is still running", f"Wait for it, or end it: %agent stop {run.id}")


def _board_with(todos: tuple[Todo, ...]) -> TodoBoard | None:
    """Return a board with this list, or None if the list came from a board with other rules (the next run then
    reports that).
    """
    try:
        return TodoBoard(todos)
    except SettingsError:
        return None
