"""The change that lands: the commit before it, and the files that differ from there."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

MAIN = "origin/main"


@dataclass(frozen=True)
class Landing:
    """A change that lands."""

    base: str
    """The commit before it; empty if git does not know."""
    name: str
    """The base in words, or the reason why it is missing."""
    files: frozenset[str] = frozenset()


def read_landing(root: Path) -> Landing:
    """Compare the working tree with the merge base of HEAD and origin/main, or with HEAD~1 where that is HEAD or missing."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        return Landing("", "there is no git history here")
    base, name = "", f"the merge base with {MAIN}"
    if _git(root, "rev-parse", "--verify", "--quiet", f"{MAIN}^{{commit}}"):
        base = _git(root, "merge-base", "HEAD", MAIN)
        if not base:
            return Landing("", f"HEAD and {MAIN} have no common commit{_if_shallow(root)}")
    if not base or base == head:
        base, name = _git(root, "rev-parse", "--verify", "--quiet", "HEAD~1"), "HEAD~1"
    if not base:
        return Landing("", f"HEAD has no commit before it{_if_shallow(root)}")
    names = _git(root, "diff", "--name-only", "--no-renames", "-z", base).split("\0")
    return Landing(base, name, frozenset(filter(None, names)))


def _if_shallow(root: Path) -> str:
    return " in this shallow clone" if _git(root, "rev-parse", "--is-shallow-repository") == "true" else ""


def _git(root: Path, *arguments: str) -> str:
    """Return git's output; empty if git fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, encoding="utf-8")
    except OSError:
        return ""
    return done.stdout.strip("\n") if done.returncode == 0 else ""
