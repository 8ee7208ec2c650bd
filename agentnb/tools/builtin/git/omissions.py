"""Notes for results about skipped hooks, signatures, files and filters."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agentnb.tools.builtin.git.path_text import join_names, shown_name
from agentnb.tools.builtin.git.work_tree import Repository
from agentnb.tools.subject import READ_TOOL

INDEX_HOOKS = ("post-index-change",)
BRANCH_HOOKS = ("reference-transaction",)
SWITCH_HOOKS = ("post-checkout", *BRANCH_HOOKS, *INDEX_HOOKS)
COMMIT_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", *BRANCH_HOOKS, *INDEX_HOOKS)


def hooks_note(repository: Repository, hooks: Iterable[str]) -> str:
    """Return a note about skipped hooks, or "" if the repository has none."""
    folder = repository.common_dir / "hooks"
    if configured := repository.config.text("core.hookspath"):
        folder = repository.top / Path(configured).expanduser()
    present = [hook for hook in hooks if os.access(folder / hook, os.X_OK)]
    return f"Hooks of this repository were not run: {', '.join(present)}." if present else ""


def signing_note(repository: Repository) -> str:
    """Return a note that a commit is not signed, or "" unless signing is configured."""
    return "The commit is not signed, although commit.gpgsign is set." if repository.config.is_on("commit.gpgsign") else ""


def key_files_note(names: list[str]) -> str:
    """Return a note about files skipped by name, or "" if there are none."""
    return f"Left out because their names suggest that they contain keys: {join_names(names)}." if names else ""


def hidden_note(names: list[str]) -> str:
    """Return a note about files skipped by rules, or "" if there are none."""
    return f"Left out by the rules for {READ_TOOL}: {join_names(names)}." if names else ""


def filters_note(filters: dict[bytes, str]) -> str:
    """Return a note about files compared without their filter, or "" if there are none."""
    if not filters:
        return ""
    kinds = ", ".join(sorted(set(filters.values())))
    names = join_names([shown_name(path) for path in filters])
    return f"Compared without their git filters ({kinds}), so these files may be unchanged: {names}."


def with_notes(text: str, *notes: str) -> str:
    """Append the non-empty notes to the text, each on its own line."""
    return "\n".join([text, *filter(None, notes)])
