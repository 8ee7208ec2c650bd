"""``git_status``: branch, changed files, and an operation in progress."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from git_repositories import GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    repository = GitRepository.make(tmp_path / "r")
    repository.commit("First", a_txt="1\n", b_txt="1\n", c_txt="a longer text\nof two lines\n")
    return repository


def test_file_states_are_shown_as_two_letters(repository: GitRepository) -> None:
    repository.write("a.txt", "2\n")
    repository.write("b.txt", "2\n")
    repository.git("add", "b.txt")
    repository.write("b.txt", "3\n")
    repository.git("mv", "c.txt", "moved.txt")
    repository.write("new/x", "1")
    repository.write("new/y", "1")
    lines = ["## main", " M a.txt", "MM b.txt", "R  c.txt -> moved.txt", "?? new/"]
    assert repository.text("git_status").split("\n") == lines
    (repository.folder / "a.txt").unlink()
    assert " D a.txt" in repository.text("git_status")


def test_first_line_of_status_shows_branch_and_upstream(repository: GitRepository) -> None:
    empty = GitRepository.make(repository.folder.parent / "empty")
    assert empty.text("git_status") == "## No commits yet on main\nNo changes."
    clone = repository.folder.parent / "clone"
    repository.git("clone", "--quiet", str(repository.folder), str(clone))
    ours = GitRepository(clone)
    ours.git("config", "user.name", "Ada")
    ours.git("config", "user.email", "a@example.org")
    ours.commit("Ours")
    repository.commit("Theirs")
    repository.commit("Theirs, too")
    ours.git("fetch", "--quiet")
    assert ours.text("git_status").split("\n") == ["## main...origin/main ahead 1 behind 2", "No changes."]
    ours.configure("status.aheadBehind", "false")
    ours.configure("status.showStash", "true")
    assert ours.text("git_status").startswith("## main...origin/main")
    ours.git("switch", "--quiet", "--detach")
    commit = ours.git("rev-parse", "HEAD")[:9]
    assert ours.text("git_status") == f"## HEAD detached at {commit}\nNo changes."


def test_status_names_conflicts_and_an_unfinished_merge(repository: GitRepository) -> None:
    repository.git("switch", "--quiet", "-c", "two")
    repository.commit("Two", a_txt="two\n")
    repository.git("switch", "--quiet", "main")
    repository.commit("One", a_txt="one\n")
    repository.git("merge", "two", is_checked=False)
    text = repository.text("git_status")
    assert "UU a.txt" in text and "A merge is in progress." in text and "1 file has conflicts" in text


def test_unusual_file_names_in_status_are_quoted_correctly(repository: GitRepository) -> None:
    for name in (b"a\nb", b'q"q', b"caf\xe9", "größe".encode(), b"-x", b"a -> b"):
        repository.write(name, "1")
    lines = repository.text("git_status").split("\n")[1:]
    assert sorted(lines) == sorted(['?? "a\\nb"', '?? "q\\"q"', '?? "caf\\351"', "?? größe", "?? -x", "?? a -> b"])


def test_many_files_are_counted(repository: GitRepository) -> None:
    for number in range(205):
        repository.write(f"n{number:03}", "")
    lines = repository.text("git_status").split("\n")
    assert len(lines) == 202 and lines[-1] == "[5 more files]"


def test_status_names_files_compared_without_their_filter(repository: GitRepository) -> None:
    repository.write(".git/info/attributes", "a.txt filter=lfs\n")
    repository.write("a.txt", "2\n")
    assert "(lfs)" in repository.text("git_status")
    repository.git("checkout", "a.txt")
    assert "lfs" not in repository.text("git_status")


def test_git_status_writes_nothing_to_the_repository(repository: GitRepository) -> None:
    index = repository.folder / ".git/index"
    os.utime(repository.folder / "a.txt", (1, 1))  # git would note it in the index
    before = index.read_bytes()
    for name in ("git_status", "git_diff", "git_log"):
        repository.text(name)
    assert index.read_bytes() == before
    repository.git("status")
    assert index.read_bytes() != before, "plain git notes it"
