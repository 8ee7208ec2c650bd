"""``git_branch``: branches listed, created and switched."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from git_repositories import GitRepository, call_tool
from property_settings import size

from agentnb import settings


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """A repository whose branch ``two`` has another d/a.txt."""
    repository = GitRepository.make(tmp_path_factory.mktemp("template") / "r")
    for name in ("d/a.txt", "c.txt"):
        repository.write(name, "1\n")
    repository.commit("First")
    repository.git("switch", "--quiet", "-c", "two")
    repository.write("d/a.txt", "two\n")
    repository.commit("Two")
    repository.git("switch", "--quiet", "main")
    return repository


@pytest.fixture
def repository(template: GitRepository, tmp_path: Path) -> GitRepository:
    """Return a copy for one test."""
    return template.copy(tmp_path / "r")


def commit_id(repository: GitRepository, branch: str = "HEAD") -> str:
    return repository.git("rev-parse", "--short=7", branch).strip()


def test_branches_are_listed(repository: GitRepository) -> None:
    lines = repository.text("git_branch", action="list").split("\n")
    main, two = (commit_id(repository, name) for name in ("main", "two"))
    assert sorted(lines) == [f"  two {two} Two", f"* main {main} First"]
    assert repository.text("git_branch", action="list", name="ignored").split("\n") == lines
    repository.git("branch", "--set-upstream-to=two", "main")
    assert f"* main {main} [two: behind 1] First" in repository.text("git_branch", action="list")
    repository.git("switch", "--quiet", "--detach")
    assert repository.text("git_branch", action="list").startswith("* HEAD detached at ")
    repository.git("update-ref", "--stdin", stdin="".join([f"create refs/heads/n{number} HEAD\n" for number in range(100)]))
    assert len(repository.text("git_branch", action="list").split("\n")) == 102


def test_branch_is_created_and_checked_out(repository: GitRepository, snapshot: Snapshot) -> None:
    repository.write(".git/hooks/post-checkout", "#!/bin/sh\n").chmod(0o755)
    commit = repository.git("rev-parse", "--short=9", "HEAD").strip()
    assert repository.text("git_branch", action="create", name="fix/a") == snapshot("created", COMMIT=commit)
    assert repository.git("branch", "--show-current").strip() == "main"
    assert repository.text("git_branch", action="switch", name="fix/a") == snapshot("switched", COMMIT=commit)
    assert repository.git("branch", "--show-current").strip() == "fix/a"
    repository.text("git_branch", action="switch", name="two")
    assert (repository.folder / "d/a.txt").read_text() == "two\n"


@pytest.mark.req("R2.19")
def test_invalid_names_are_refused(repository: GitRepository, subtests: pytest.Subtests) -> None:
    names = ("-x", "--force", "a b", "a..b", "a.lock", "HEAD", "@", "@{-1}", "", "a\nb", "a\0b", "x~1", "/a", "a//b", "a:b")
    for action, name in [*product(("create", "switch"), names)][:: size(2, nightly=1)]:  # of an odd number of names
        with subtests.test(f"{action} {name!r}"):
            assert repository.refusal("git_branch", action=action, name=name) == "invalid_arguments"
    assert repository.refusal("git_branch", action="create") == "invalid_arguments"
    assert repository.refusal("git_branch", action="delete", name="two") == "invalid_arguments"
    assert repository.git("branch", "--format=%(refname:short)").split() == ["main", "two"]


def test_missing_or_existing_branch_names_are_reported(repository: GitRepository, snapshot: Snapshot) -> None:
    repository.git("tag", "v1")
    repository.git("update-ref", "refs/remotes/origin/three", "two")
    cases = {"unknown": ("switch", "none"), "tag": ("switch", "v1"), "remote": ("switch", "three"), "there": ("create", "two")}
    for case, (action, name) in cases.items():
        assert repository.call("git_branch", action=action, name=name).text == snapshot(case)
    empty = GitRepository.make(repository.folder.parent / "empty")
    assert empty.call("git_branch", action="create", name="x").text == snapshot("no commits")
    assert empty.text("git_branch", action="list") == "* No commits yet on main"


def test_local_changes_are_not_overwritten(repository: GitRepository) -> None:
    repository.write("d/a.txt", "mine\n")
    outcome = repository.call("git_branch", action="switch", name="two")
    assert outcome.error_code == "git_error" and "d/a.txt" in outcome.text
    assert (repository.folder / "d/a.txt").read_text() == "mine\n"


def test_switch_changes_nothing_outside_the_folder(repository: GitRepository, snapshot: Snapshot) -> None:
    (repository.folder / "e").mkdir()
    outcome = call_tool("git_branch", repository.folder / "e", action="switch", name="two")
    assert (outcome.error_code, outcome.text) == ("outside_work_dir", snapshot)
    assert repository.git("branch", "--show-current").strip() == "main"
    assert call_tool("git_branch", repository.folder / "d", action="switch", name="two").ok


def test_switch_that_needs_a_filter_is_refused(repository: GitRepository, snapshot: Snapshot) -> None:
    repository.git("switch", "--quiet", "-c", "lfs", "two")
    repository.write(".gitattributes", "*.bin filter=lfs\n")
    repository.write("big.bin", "version https://git-lfs.github.com/spec/v1\n")
    repository.commit("By git-lfs")
    repository.git("switch", "--quiet", "main")
    # By the attributes of the branch; the folder has none.
    outcome = repository.call("git_branch", action="switch", name="lfs")
    assert (outcome.error_code, outcome.text) == ("filtered", snapshot)
    assert not (repository.folder / "big.bin").exists()
    # By the attributes of the folder; the branch has none.
    repository.write(".gitattributes", "*.txt filter=x\n")
    assert repository.refusal("git_branch", action="switch", name="two") == "filtered"
    repository.write(".gitattributes", "c.txt filter=x\n")
    assert repository.call("git_branch", action="switch", name="two").ok


def test_switch_creates_neither_a_nested_repository_nor_agentnb_files(
    repository: GitRepository, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    monkeypatch.setattr(settings, "personal_folder", lambda: repository.folder / "own")
    cases = {"a HEAD": ("x/HEAD",), "objects and refs": ("x/objects/a", "x/refs/a"), "own": ("own/allowed-urls.txt",)}
    cases |= {"runs": (".agentnb/runs/a.jsonl",), "all": ("y/HEAD", "y/objects/a", "y/refs/a")}
    for name, paths in cases.items():
        repository.git("switch", "--quiet", "--create", name.replace(" ", "-"))
        for path in paths:
            repository.write(path, "ref: refs/heads/main\n")
        repository.git("add", "--all", "--force")
        repository.git("commit", "--quiet", "--message", name)
        repository.git("switch", "--quiet", "main")
    for name in cases:
        parts = ("objects/b", "refs/b") if name == "a HEAD" else ("HEAD",)
        shutil.rmtree(repository.folder / "x", ignore_errors=True)
        for part in parts:
            repository.write(f"x/{part}", "ref: refs/heads/main\n")
        with subtests.test(name):
            assert repository.refusal("git_branch", action="switch", name=name.replace(" ", "-")) == "protected_path"
    assert repository.call("git_branch", action="switch", name="all").text == snapshot
    repository.git("switch", "--quiet", "all")
    assert repository.call("git_branch", action="switch", name="main").ok, "switching back removes the protected files"


def test_switching_away_from_an_empty_branch_is_possible() -> None:
    repository = GitRepository.make(Path("r").absolute())
    repository.commit("First", a_txt="1\n")
    repository.git("switch", "--quiet", "--orphan", "empty")
    assert repository.text("git_branch", action="switch", name="main").startswith("Switched to branch main")
    assert (repository.folder / "a.txt").exists()
