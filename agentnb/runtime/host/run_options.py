"""Options of one run of any agent: the run it continues, its store, watcher, budget and threads, and who can answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

from agentnb.advice import Invocation
from agentnb.core.log.stores import RunStore, Watcher
from agentnb.core.run.approvals import ApprovalWord
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models.destinations.allowed_urls import allow_urls
from agentnb.policies.permissions.approval_mode import ApprovalMode
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.runtime.budget import SPENDING, Spending
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.answerers import AnswerQuestion, Approve, check_approve
from agentnb.runtime.questions.model_code import check_person
from agentnb.runtime.threads import LoopThread
from agentnb.runtime.workers.foreground import Foreground
from agentnb.tools.todos.board import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of one run. Unset options are taken from the host in which it starts, such as a notebook
    (`runtime.host`).

    Raises `SettingsError` for an invalid ``store``, ``continue_from``, ``work_dir`` or other option.
    """

    store: RunStore | None = None
    """Stores the log and those of nested runs; without a store, logs are in memory only. For a resumed run, whose own
    log is already open, it stores only those of nested runs.
    """
    continue_from: Run | None = None
    """The run whose conversation is continued."""
    watch: Watcher | None = None
    """Called with every event and delta."""
    show: bool = True
    """True if a run that has no watcher is shown: as a card in a notebook with the extension, as a line in a terminal."""
    work_dir: str | Path | None = None
    """Working folder of the tools, instead of the agent's own. In a workflow, it is also used by the steps' tools and by nested
    runs.
    """
    tags: tuple[str, ...] = ()
    """Free-form labels for finding the run later."""
    context_type: str = ""
    """Type of the context, which scopes the run."""
    entity: str = ""
    """Id of the entity that the task is about."""
    notebook: str = ""
    """Notebook from which the run is started; the host's by default."""
    invocation: Invocation | None = None
    """Options of the cell or command that starts the run, needed by commands that continue it."""
    parent_id: str | None = None
    """Id of the parent run; by default the run whose tool starts the new one."""
    run_id: str | None = None
    """Id of the new run; the default begins with the date and time."""
    parent: EventLog | None = None
    """Log of the parent run, in whose store the new log is created as its child. Replaces ``parent_id``."""
    board: Board | None = None
    """The todo list to continue; the conversation's by default."""
    can_ask: bool | None = None
    """True if a person can answer the questions of the run's tools; by default, true if the caller gets a handle. If nobody
    can, a nested run asks the person of its parent run.
    """
    approve: Approve | str | None = None
    """Decides, before the person, about calls that a gate asks about: a function of the call and the run. A string
    sets the ``approval_mode``.
    """
    approval_mode: str | None = None
    """Which calls without a matching rule need the person's permission: ``auto``, ``ask``, ``never`` or ``read_only``
    (`policies.permissions.approval_mode`). By default, a resumed run keeps its own mode unless that is ``auto``.
    """
    least_mode: str = ""
    """Minimum mode of a run without an ``approval_mode``, if the run begins from a log that does not count."""
    permissions: Any = None
    """Rules about tool calls, which precede those of the agent: ``{"bash(git status*)": "allow", "bash": "ask"}``,
    the permitted flags, or ``restricted`` (`policies.permissions.rules`). A resumed run also keeps its own rules,
    except those that allow calls.
    """
    answer: AnswerQuestion | None = None
    """Answers the questions of the run and of its nested runs, instead of the person."""
    suspend: bool = False
    """True to suspend the run, rather than deny the call, if a gate asks and nobody is there to answer; requires a
    store that keeps the log. The run ends as ``waiting_on_user``, and is resumed with the answer (`recover`).
    """
    answers: Mapping[str, Any] | None = None
    """For a resumed run: answers, by id in ``run.waiting``, to the questions that its gates and steps had open when it was
    suspended or its process died.
    """
    trust_log: bool | None = None
    """True to accept the approvals, answers and settings in a log that the person's agentnb did not write, or that
    has been changed since. If False, every call is judged and every question asked again; if None, such a run is not
    resumed.
    """
    allow_urls: Iterable[str] = ()
    """Addresses that models named by files, logs and traces may use until the process ends: ``URL``, or
    ``URL&key=NAME``, which names the variable whose key is sent there (`agentnb.models.destinations.allowed_urls`).
    """
    budget: Spending | None = None
    """The budget that the run spends from, in addition to its agent's own."""
    thread: LoopThread | None = None
    """The event loop that the run uses; its own by default."""
    foreground: Foreground | None = None
    """Runs plain tools on the thread that waits for the run; by default, each runs in a thread of its own."""

    def __post_init__(self) -> None:
        # Nearly all runs set none of these: a look first halves the time.
        if self.allow_urls != ():
            check_person("Naming a model or an address")
            object.__setattr__(self, "allow_urls", allow_urls(self.allow_urls))
        if self.store is not None and not callable(getattr(self.store, "open", None)):
            raise SettingsError(f"store={self.store!r} is not a store", 'Create one: Store("runs")')
        if self.continue_from is not None and not isinstance(self.continue_from, Run):
            raise SettingsError(f"continue_from={self.continue_from!r} is not a run", "Load one: load_trace(PATH)")
        if self.work_dir is not None and not isinstance(self.work_dir, str | Path):
            raise SettingsError(f"work_dir={self.work_dir!r} is not a folder", "Use a path, or None for the current folder")
        if self.budget is not None and not all(callable(getattr(self.budget, name, None)) for name in SPENDING):
            raise SettingsError(f"budget={self.budget!r} is not a budget", f"A budget needs the methods {', '.join(SPENDING)}")
        if self.approve is not None:
            check_approve(self.approve)
        if isinstance(self.approve, str):
            object.__setattr__(self, "approval_mode", self.approve)
            object.__setattr__(self, "approve", None)
        if self.approval_mode is not None:
            ApprovalMode.of(self.approval_mode)
        if self.permissions is not None:
            object.__setattr__(self, "permissions", RuleList.of(self.permissions))
        tags: Any = self.tags
        if tags != () and (isinstance(tags, str) or not all(isinstance(tag, str) and tag.strip() for tag in tags)):
            raise SettingsError(f"tags={tags!r} must be a sequence of strings", 'For example: tags=("night", "v2")')


def answerable(options: RunOptions) -> RunOptions:
    """Return the options of a run whose caller gets a handle, and can therefore answer its questions."""
    return replace(options, can_ask=True) if options.can_ask is None else options


class _Keywords(TypedDict, total=False):
    """Keywords shared by all functions that start or resume a run. A value of None means unset."""

    work_dir: str | Path | None
    watch: Watcher | None
    show: bool | None
    approve: Approve | ApprovalWord | None
    permissions: Any
    answer: AnswerQuestion | None
    suspend: bool | None
    allow_urls: Iterable[str] | None


class RunKeywords(_Keywords, total=False):
    """Keywords shared by all functions that start a run: each overrides the option of the same name (`RunOptions`)."""

    store: RunStore | None
    tags: tuple[str, ...] | None
    context_type: str | None
    entity: str | None
    parent_id: str | None


class AgentRunKeywords(RunKeywords, total=False):
    """Keywords of the functions that start an agent, the only kind of run with a conversation."""

    continue_from: Run | None


class ResumeKeywords(_Keywords, total=False):
    """Keywords shared by all functions that resume a run."""

    answers: Mapping[str, Any] | None
    trust_log: bool | None


def options_of(options: RunOptions | None, keywords: Mapping[str, Any], known: type, door: str) -> RunOptions:
    """Return the options, overridden by the keywords that are not None.

    ``known``: the class of these keywords; ``door``: the call as written, up to its options. Raises `SettingsError` for
    an option that the call does not take, and TypeError for an unknown name.
    """
    if not keywords:
        return options or _USUAL
    for name in keywords:
        if name not in known.__annotations__:
            _refuse(name, door)
    overrides = {name: value for name, value in keywords.items() if value is not None}
    return RunOptions(**overrides) if options is None else replace(options, **overrides)


def folder_of(chosen: str | Path | None) -> Path:
    """Return the working folder of tools as an absolute path: the chosen folder, or else the current one.

    Raises `SettingsError` if the current folder no longer exists.
    """
    try:
        if chosen is None:
            return _path(os.getcwd())  # noqa: PTH109  # `Path.cwd` makes a new path each time
        return Path(chosen).expanduser().resolve()
    except FileNotFoundError as error:
        raise SettingsError("The current folder no longer exists", "Change to an existing one") from error


@lru_cache(maxsize=16)
def _path(folder: str) -> Path:
    # Cached: most runs start in the same folder, and a path is slow to create.
    return Path(folder)


_USUAL = RunOptions()
"""Default options."""


def _refuse(name: str, door: str) -> None:
    option = {"purse": "budget"}.get(name, name)
    if option not in {field.name for field in fields(RunOptions)}:
        raise TypeError(f"{door}) has no keyword {name!r}")
    raise SettingsError(f"{name} is now an option of the run", f"Use {door}, RunOptions({option}=...))")
