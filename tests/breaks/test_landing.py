"""The change that lands: the files that a landing's rules are chosen by, or why there are none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from landing import read_landing


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> None:
        person = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *person, *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self, name: str) -> None:
        (self.root / name).write_text(name)
        self.git("add", name)
        self.git("commit", "-q", "-m", f"Add {name}")

    def clone(self, root: Path, *options: str) -> Repository:
        subprocess.run(["git", "clone", "-q", *options, self.root.as_uri(), str(root)], check=True, capture_output=True)
        other = object.__new__(Repository)
        other.root = root
        return other


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "origin")
    made.commit("first")
    return made


def test_a_branch_lands_all_since_the_merge_base(repository: Repository, tmp_path: Path) -> None:
    clone = repository.clone(tmp_path / "clone")
    repository.commit("of others")
    clone.git("fetch", "-q")
    clone.commit("second")
    clone.commit("third")
    landing = read_landing(clone.root)
    assert (landing.files, landing.name) == ({"second", "third"}, "the merge base with origin/main")


def test_without_origin_the_last_commit_lands(repository: Repository) -> None:
    repository.commit("second")
    repository.commit("third")
    landing = read_landing(repository.root)
    assert (landing.files, landing.name) == ({"third"}, "HEAD~1")


def test_on_main_itself_the_last_commit_lands(repository: Repository, tmp_path: Path) -> None:
    repository.commit("second")
    assert read_landing(repository.clone(tmp_path / "clone").root).files == {"second"}


def test_a_moved_file_lands_under_both_names(repository: Repository) -> None:
    repository.git("mv", "first", "moved")
    repository.git("commit", "-q", "-m", "Move")
    assert read_landing(repository.root).files == {"first", "moved"}


def test_without_a_commit_before_nothing_lands(repository: Repository, tmp_path: Path, subtests: pytest.Subtests) -> None:
    empty = Repository(tmp_path / "empty")
    repository.commit("second")
    (tmp_path / "folder").mkdir()
    unrelated = repository.clone(tmp_path / "unrelated")
    unrelated.git("checkout", "-q", "--orphan", "other")
    unrelated.git("commit", "-q", "-m", "Begin")
    cases = {
        "HEAD has no commit before it in this shallow clone": repository.clone(tmp_path / "shallow", "--depth", "1").root,
        "there is no git history here": empty.root,
        "HEAD and origin/main have no common commit": unrelated.root,
    }
    for words, root in cases.items():
        with subtests.test(words):
            landing = read_landing(root)
            assert (landing.base, landing.name, landing.files) == ("", words, frozenset())
