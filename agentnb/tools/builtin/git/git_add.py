"""The tool ``git_add``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from agentnb.key_files import is_key_file
from agentnb.tools.builtin.git.changes import Change, read_status, shorten_lines
from agentnb.tools.builtin.git.filters import filters_of
from agentnb.tools.builtin.git.omissions import INDEX_HOOKS, hooks_note, key_files_note, with_notes
from agentnb.tools.builtin.git.path_text import confined_path, exists, is_below, join_names, may_hold_keys, shown_name
from agentnb.tools.builtin.git.work_tree import Repository, check_result, open_repository
from agentnb.tools.subject import CallNature
from agentnb.tools.tool import ToolContext, ToolRefused

MAX_SHOWN = 100
BY_HAND = "Ask the person to stage it in a terminal with git add, which runs the filter."


async def git_add(context: ToolContext, paths: Annotated[list[str], msgspec.Meta(min_length=1)]) -> str:
    """Stage files of the git repository for the next commit: new, changed and deleted ones.

    :param paths: Files or directories; ["."] stages everything
    """
    repository = await open_repository(context.work_dir)
    named = [confined_path(path, repository.work_dir) for path in paths]
    status = await read_status(repository, *named, untracked="all")
    changes = {repository.below(change.path): change for change in status.changes if change.is_unstaged}
    await _check_known(
        repository, [path for path in named if not any(is_below(changed_path, path) for changed_path in changes)]
    )
    if not changes:
        return "Nothing to stage: these files have no unstaged changes."
    filters = await filters_of(repository, changes)
    if refused := sorted(set(named) & set(filters)):
        kind, names = filters[refused[0]], join_names([shown_name(name) for name in refused])
        raise ToolRefused("filtered", f"Not staged: {names} needs a git filter ({kind}), which is not run here.", BY_HAND)
    key_files = [path for path in changes if path not in named and may_hold_keys(path, repository.work_dir)]
    repositories = [path for path, change in changes.items() if change.is_repository]
    left_out = {*filters, *key_files, *repositories}
    staged = {path: change for path, change in changes.items() if path not in left_out}
    notes = [
        key_files_note([shown_name(path) for path in key_files]),
        _note(
            "Left out because they need a git filter, which is not run here",
            [path for path in filters if path not in key_files],
        ),
        _note("Left out because they are separate repositories", repositories),
    ]
    if not staged:
        raise ToolRefused("nothing_staged", with_notes("Nothing was staged.", *notes), "Name the files to stage.")
    stdin = b"".join(path + b"\0" for path in staged)
    await repository.output("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=stdin, is_reading=False)
    lines = shorten_lines([*staged.items()], MAX_SHOWN, lambda item: f"{_letter(item[1])} {shown_name(item[0])}")
    heading = f"Staged {len(staged):,} {'file' if len(staged) == 1 else 'files'}:"
    return with_notes("\n".join([heading, *lines]), *notes, hooks_note(repository, INDEX_HOOKS))


def nature_of_add(arguments: Any, work_dir: Path) -> CallNature:
    """Return the nature of a call: sensitive if it names a key file."""
    paths = arguments.get("paths") if isinstance(arguments, dict) else None
    names = [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
    return "sensitive" if any(is_key_file(Path(name).name) for name in names) else "changes"


async def _check_known(repository: Repository, paths: list[bytes]) -> None:
    """Raise `ToolRefused` for ignored or missing paths. ``paths``: those without changes."""
    if not paths:
        return
    if names := [shown_name(path) for path in await _ignored_paths(repository, paths)]:
        advice = "Leave them out, or change .gitignore first."
        raise ToolRefused("ignored", f"Nothing was staged: .gitignore excludes {join_names(names)}.", advice)
    missing = [path for path in paths if not exists(repository.work_dir, path)]
    if unknown := [shown_name(path) for path in missing if not await repository.output("ls-files", "-z", "--", path)]:
        problem = f"Nothing was staged: these paths do not exist: {join_names(unknown)}."
        raise ToolRefused("not_found", problem, "Use git_status to list the changed files.")


async def _ignored_paths(repository: Repository, paths: list[bytes]) -> list[bytes]:
    """Return the paths that git ignores."""
    # check-ignore refuses literal pathspecs; a path that begins with ./ has no magic.
    stdin = b"".join(b"./" + path + b"\0" for path in paths)
    result = await repository.run("check-ignore", "-z", "--stdin", stdin=stdin, variables={"GIT_LITERAL_PATHSPECS": "0"})
    if result.code not in (0, 1):  # 1: no path is ignored
        check_result(result, "check-ignore")
    return [path.removeprefix(b"./") for path in repository.names(bytes(result.output.head))]


def _letter(change: Change) -> str:
    if change.is_conflict:
        return "M"
    return "A" if change.in_folder == "?" else change.in_folder


def _note(words: str, paths: list[bytes]) -> str:
    return f"{words}: {join_names([shown_name(path) for path in paths])}." if paths else ""
