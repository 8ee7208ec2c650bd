"""Undo of the file changes that a run and its nested runs made with ``write_file`` and ``edit_file``."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from agentnb.advice import StopRun
from agentnb.core.log.events import ToolStarted
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError
from agentnb.policies.permissions.file_rules import denied_write
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.rerun.undo.undo_place import NotAllowed, Place, open_place
from agentnb.rerun.undo.undo_plan import Action, FilePlan, WhyNot, plan_file
from agentnb.store.before_images.images import folder_of_run, has_list, listed_changes, note_undone, read_image
from agentnb.store.before_images.records import FileChanged
from agentnb.store.own_logs import is_own
from agentnb.store.run_file import held_still
from agentnb.store.store import Store
from agentnb.store.summaries import NEVER

FILE_TOOLS = frozenset({"write_file", "edit_file"})
_LASTING = frozenset({"execute", "write"})
"""Effects that outlast an undo."""
CHANGED = ("changed_since", "changed_between")
"""Reasons for which the file as it was before the run may be needed."""
LASTING_TOOLS = frozenset({"bash", "git_add", "git_commit", "git_branch", "github_create_comment", "run_python"})
"""Built-in tools with lasting effects, needed for workflows: their logs lack the declared effects of tools."""
Why: TypeAlias = WhyNot | Literal["not_allowed", "denied", "failed"]
"""Reasons for keeping changes. ``not_allowed``: agentnb does not write there; ``denied``: a rule of the run forbids it;
``failed``: the system refused.
"""


class UndoneFile(NamedTuple):
    """The outcome for one file."""

    path: str
    """Relative to the run's working directory."""
    action: Action
    why_not: Why | None = None
    """Reason for keeping some of the run's changes, or None if all were undone."""
    detail: str = ""
    """The rule, the error, or the copy that is left."""


@dataclass(frozen=True, slots=True)
class UndoReport:
    """The outcome of an undo."""

    run_id: str
    files: tuple[UndoneFile, ...]
    """Files with changes to undo, most recently changed first."""
    calls: tuple[ToolCall, ...]
    """Calls of other tools, whose effects remain."""
    has_changed_files: bool
    """True if the run ever changed files."""
    foreign: int
    """Number of changes listed by another person's agentnb; they are ignored."""


def has_file_changes(store: Store, run_id: str) -> bool:
    """True if the run itself, as opposed to its nested runs, has recorded file changes."""
    return has_list(store.folder, run_id)


def last_change(store: Store, run_ids: Iterable[str]) -> datetime:
    """Return when one of these runs last changed a file."""
    return max((change.at for run_id in run_ids for change in listed_changes(store.folder, run_id).changes), default=NEVER)


def undo_run(store: Store, run_id: str) -> UndoReport:
    """Restore the files that a run and its nested runs changed, unless something else has changed them since.

    Raises `StoreError` for a live run, `SettingsError` if the log belongs to another person.
    """
    outer, family = _relatives(store, run_id)
    try:
        with held_still(map(store.path, (*outer, *family))):
            return _undone(store, run_id, family)
    except BlockingIOError as error:
        raise StoreError(f"Run {run_id} is running", StopRun((*outer, run_id)[0], lead="Stop it first")) from error
    except OSError as error:
        raise StoreError(f"Run {run_id} cannot be undone: {error.strerror or error}", "Make its log writable") from error


def _relatives(store: Store, run_id: str) -> tuple[list[str], list[str]]:
    """Return the ids of a run's ancestors, outermost first, and then the run's own id followed by those of its nested runs."""
    parents = {summary.id: summary.parent_id for summary in store.each_summary()}
    outer: list[str] = []
    parent = parents.get(run_id)
    while parent is not None and parent in parents and parent not in (run_id, *outer):
        outer.insert(0, parent)
        parent = parents[parent]
    family = [run_id]
    for member in family:  # the list grows during the loop
        family += [child for child, parent in parents.items() if parent == member and child not in family]
    return outer, family


def _undone(store: Store, run_id: str, family: Sequence[str]) -> UndoReport:
    pending: list[FileChanged] = []
    rules: dict[str, tuple[RuleList, ...]] = {}
    calls: list[ToolCall] = []
    has_changed, foreign = False, 0
    for member in family:
        run = store.load(member)
        listed = listed_changes(store.folder, member)
        calls += lasting_calls(run, {change.call_id for change in listed.changes})
        if (listed.changes or listed.foreign or member == run_id) and not is_own(store.path(member), run):
            _refuse(member)
        pending += listed.pending
        has_changed, foreign = has_changed or bool(listed.changes), foreign + listed.foreign
        rules[member] = Permissions.from_log(run.settings, loosens=False).layers
    pending.sort(key=lambda change: (change.at, change.number))
    by_path: dict[str, list[FileChanged]] = {}
    for change in pending:
        by_path.setdefault(change.path, []).append(change)
    newest_first = sorted(by_path.values(), key=lambda changes: changes[-1].at, reverse=True)
    files = tuple([_undo_file(store, changes, rules[changes[-1].run_id]) for changes in newest_first])
    return UndoReport(run_id, files, tuple(calls), has_changed, foreign)


def _refuse(run_id: str) -> None:
    problem = f"The log of run {run_id} was not written by your agentnb, and neither were its copies of files"
    raise SettingsError(problem, "Nothing was undone. Compare the files yourself, for example with git diff")


def lasting_calls(run: Run, listed: Container[str] = ()) -> Iterator[ToolCall]:
    """Yield calls whose effects may outlast an undo, except those with ``listed`` ids."""
    declared = {tool.name: tool.effects for tool in run.tools}
    for event in run.events:
        if not isinstance(event, ToolStarted) or event.call.name in FILE_TOOLS or event.call.id in listed:
            continue
        call = event.call
        if (_LASTING & {*declared.get(call.name, ())} or call.name in LASTING_TOOLS) and not _only_lists(call):
            yield call


def _only_lists(call: ToolCall) -> bool:
    """True if a call only lists branches and so changes nothing."""
    return call.name == "git_branch" and isinstance(call.arguments, dict) and call.arguments.get("action") == "list"


def _undo_file(store: Store, changes: Sequence[FileChanged], rules: Iterable[RuleList]) -> UndoneFile:
    """Restore one file. ``changes``: those that are not undone yet, oldest first."""
    path, work_dir = Path(changes[-1].path), Path(changes[-1].work_dir)
    shown = str(path.relative_to(work_dir)) if path.is_relative_to(work_dir) else str(path)
    try:
        with open_place(path, work_dir, store.folder) as location:
            rule = denied_write(rules, path, work_dir)
            if rule:
                return UndoneFile(shown, "none", "denied", rule)
            plan = plan_file(changes, location.digest())
            _carry_out(store, plan, location)
    except NotAllowed as error:
        return UndoneFile(shown, "none", "not_allowed", str(error))
    except OSError as error:
        return UndoneFile(shown, "none", "failed", error.strerror or str(error))
    _note(store, plan)
    return UndoneFile(shown, plan.action, plan.why_not, _copy(store, changes[0]) if plan.why_not in CHANGED else "")


def _copy(store: Store, change: FileChanged) -> str:
    """Return where the file as it was before a change is kept; empty if it is not."""
    folder = folder_of_run(store.folder, change.run_id).path.name
    return f"{store.shown_folder}/{folder}/{change.image}" if change.image else ""


def _carry_out(store: Store, plan: FilePlan, place: Place) -> None:
    if plan.action == "delete":
        place.remove()
    elif plan.source is not None:
        place.put(read_image(store.folder, plan.source), plan.source.mode)


def _note(store: Store, plan: FilePlan) -> None:
    """Mark the changes as undone in the lists of their runs. If that fails, the file's content still shows it."""
    in_order = sorted(plan.undone, key=lambda change: change.run_id)
    for run_id, changes in groupby(in_order, key=lambda change: change.run_id):
        with suppress(OSError):
            note_undone(store.folder, run_id, [change.number for change in changes])
