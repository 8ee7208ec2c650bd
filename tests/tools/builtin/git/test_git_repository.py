"""Repositories that the tools use and refuse."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from git_repositories import GitRepository, call_tool


def repository_at(path: str) -> GitRepository:
    repository = GitRepository.make(Path(path).absolute())
    repository.commit(path, a_txt="1\n")
    return repository


def test_parent_repository_is_used() -> None:
    repository = repository_at("r")
    repository.write("d/e/x.txt", "1\n")
    for folder in ("d", "d/e"):
        assert call_tool("git_status", repository.folder / folder).text == "## main\n?? ./"
    repository.commit("Second")
    repository.write("d/x.txt", "1\n")
    assert call_tool("git_status", repository.folder / "d").text == "## main\n?? x.txt"
    linked = Path("link").absolute()
    linked.symlink_to(repository.folder / "d")
    assert call_tool("git_status", linked).text == "## main\n?? x.txt"


def test_linked_work_trees_and_submodules_are_used() -> None:
    repository, inner = repository_at("r"), repository_at("inner")
    tree = Path("tree").absolute()
    repository.git("worktree", "add", "--quiet", "-b", "two", str(tree))
    assert call_tool("git_status", tree).text == "## two\nNo changes."
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.folder), "sub")
    assert call_tool("git_status", repository.folder / "sub").text == "## main...origin/main\nNo changes."


def test_missing_repository_is_an_error_with_a_hint(snapshot: Snapshot) -> None:
    assert call_tool("git_status", Path().absolute()).text == snapshot
    repository = repository_at("r")
    assert call_tool("git_status", repository.folder / ".git").text == snapshot


def redirect_work_tree(repository: GitRepository, other: GitRepository) -> None:
    repository.configure("core.worktree", str(other.folder))


def redirect_to_parent(repository: GitRepository, other: GitRepository) -> None:
    repository.configure("core.worktree", str(repository.folder.parent))


def redirect_by_file(repository: GitRepository, other: GitRepository) -> None:
    (repository.folder / ".git").rename(repository.folder / "old")
    repository.write(".git", f"gitdir: {other.folder}/.git\n")


def redirect_by_link(repository: GitRepository, other: GitRepository) -> None:
    (repository.folder / ".git").rename(repository.folder / "old")
    (repository.folder / ".git").symlink_to(other.folder / ".git")


def redirect_common_data(repository: GitRepository, other: GitRepository) -> None:
    repository.write(".git/commondir", f"{other.folder}/.git\n")


def redirect_branches(repository: GitRepository, other: GitRepository) -> None:
    (repository.folder / ".git/refs").rename(repository.folder / "refs")
    (repository.folder / ".git/refs").symlink_to(other.folder / ".git/refs")


def redirect_one_branch(repository: GitRepository, other: GitRepository) -> None:
    (repository.folder / ".git/refs/heads/side").symlink_to(other.folder / ".git/refs/heads")


def redirect_log(repository: GitRepository, other: GitRepository) -> None:
    log = repository.folder / ".git/logs/HEAD"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    log.symlink_to(other.folder / ".bashrc")


REDIRECTED: dict[str, Callable[[GitRepository, GitRepository], None]] = {
    "core.worktree": redirect_work_tree,
    "core.worktree above": redirect_to_parent,
    ".git file": redirect_by_file,
    ".git link": redirect_by_link,
    "commondir": redirect_common_data,
    "link in .git": redirect_branches,
    "link below .git/refs": redirect_one_branch,
    "link below .git/logs": redirect_log,
}


@pytest.mark.req("R2.20")
def test_repository_that_points_elsewhere_is_refused(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    made = repository_at("made")
    for number, (name, redirect) in enumerate(REDIRECTED.items()):
        with subtests.test(name):
            repository, other = (made.copy(Path(f"{place}{number}").absolute()) for place in ("r", "other"))
            redirect(repository, other)
            outcome = repository.call("git_log")
            assert outcome.error_code == "redirected"
            assert outcome.text == snapshot(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_repository_of_another_user_is_refused_with_git_advice() -> None:
    repository = repository_at("r")
    os.chown(repository.folder, 12_345, 12_345)
    outcome = repository.call("git_status")
    assert outcome.error_code == "not_a_repository" and "safe.directory" in outcome.text
