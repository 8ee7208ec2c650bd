"""``git_commit``: committed files, author, and skipped files."""

from __future__ import annotations

from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from git_repositories import GitRepository, call_tool


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    repository = GitRepository.make(tmp_path / "r")
    for name in ("d/a.txt", "d/b.txt", "c.txt"):
        repository.write(name, "1\n")
    repository.git("add", "--all")
    return repository


def commit_id(repository: GitRepository) -> str:
    return repository.git("rev-parse", "--short", "HEAD").strip()


def test_staged_changes_are_committed_with_their_message(repository: GitRepository, snapshot: Snapshot) -> None:
    text = repository.text("git_commit", message="First\n\n# Not a comment\n")
    assert text == snapshot("first", COMMIT=commit_id(repository))
    assert repository.git("log", "-1", "--format=%an,%ae,%cn").strip() == "Ada,ada@example.org,Ada"
    assert repository.git("log", "-1", "--format=%B").split("\n")[:3] == ["First", "", "# Not a comment"]
    repository.git("mv", "c.txt", "moved.txt")
    repository.write("d/a.txt", "2\n")
    assert repository.text("git_commit", message="größe") == snapshot("renamed", COMMIT=commit_id(repository))
    assert repository.git("status", "--porcelain") == " M d/a.txt\n"
    repository.git("switch", "--quiet", "--detach")
    repository.git("add", "--all")
    assert repository.text("git_commit", message="Third") == snapshot("detached", COMMIT=commit_id(repository))


def test_commit_lists_files_that_were_not_included(repository: GitRepository, snapshot: Snapshot) -> None:
    for name in ("pre-commit", "commit-msg", "post-checkout"):
        repository.write(f".git/hooks/{name}", "#!/bin/sh\nexit 1\n").chmod(0o755)
    repository.write(".git/hooks/post-commit", "not executable")
    repository.configure("commit.gpgSign", "true")
    text = repository.text("git_commit", message="First")
    assert text.split("\n")[-2:] == snapshot("hooks and signing")
    repository.write("hooks/pre-commit", "#!/bin/sh\nexit 1\n").chmod(0o755)
    repository.configure("core.hooksPath", "hooks")
    repository.configure("commit.gpgSign", "no")
    repository.git("add", "--all")
    assert repository.text("git_commit", message="Second").split("\n")[-1] == snapshot("hooks elsewhere")


def test_nothing_to_commit_is_an_error(repository: GitRepository, snapshot: Snapshot) -> None:
    repository.text("git_commit", message="First")
    repository.write("c.txt", "2\n")
    outcome = repository.call("git_commit", message="Second")
    assert (outcome.error_code, outcome.text) == ("nothing_to_commit", snapshot)
    assert repository.git("rev-list", "--count", "HEAD").strip() == "1"
    for message in ("", " \n", "a\0b"):
        assert repository.refusal("git_commit", message=message) == "invalid_arguments"


def test_staged_changes_elsewhere_are_not_committed(repository: GitRepository, snapshot: Snapshot) -> None:
    outcome = call_tool("git_commit", repository.folder / "d", message="First")
    assert (outcome.error_code, outcome.text) == ("staged_outside", snapshot)
    repository.text("git_commit", message="First")
    repository.git("mv", "c.txt", "d/c.txt")
    assert call_tool("git_commit", repository.folder / "d", message="Second").error_code == "staged_outside"
    repository.git("mv", "d/c.txt", "c.txt")
    repository.write("d/a.txt", "2\n")
    repository.git("add", "--all")
    assert call_tool("git_commit", repository.folder / "d", message="Second").text.split("\n")[1:] == ["M a.txt"]


def test_missing_identity_is_an_error_with_a_hint(repository: GitRepository, snapshot: Snapshot) -> None:
    repository.git("config", "--unset", "user.email")
    outcome = repository.call("git_commit", message="First")
    assert (outcome.error_code, outcome.text) == ("no_identity", snapshot)
    repository.git("config", "author.email", "author@example.org")
    assert repository.refusal("git_commit", message="First") == "no_identity"
    repository.git("config", "committer.email", "committer@example.org")
    repository.text("git_commit", message="First")
    assert repository.git("log", "-1", "--format=%ae %ce").strip() == "author@example.org committer@example.org"


def test_author_comes_from_the_user_configuration(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    home = repository.folder.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Grace\n\temail = grace@example.org\n")
    monkeypatch.setenv("HOME", str(home))
    repository.git("config", "--remove-section", "user")
    repository.text("git_commit", message="First")
    assert repository.git("log", "-1", "--format=%an <%ae>").strip() == "Grace <grace@example.org>"


def test_commit_with_conflicts_names_the_conflicting_files(repository: GitRepository, snapshot: Snapshot) -> None:
    repository.commit("First")
    repository.git("switch", "--quiet", "-c", "two")
    repository.commit("Two", c_txt="two\n")
    repository.git("switch", "--quiet", "main")
    repository.commit("One", c_txt="one\n")
    repository.git("merge", "two", is_checked=False)
    outcome = repository.call("git_commit", message="Both")
    assert (outcome.error_code, outcome.text) == ("conflicts", snapshot)
