"""``git_log``: recent commits, whatever their messages hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repositories import GitRepository, call_tool


@pytest.mark.req("R2.19")
def test_commits_are_newest_first() -> None:
    repository = GitRepository.make(Path("r").absolute())
    assert repository.text("git_log") == "No commits yet."
    for number in range(12):
        repository.commit(f"Commit {number}\n\nWhy {number}")
    subjects = [line.partition(" ")[2] for line in repository.text("git_log", oneline=True).split("\n")]
    assert subjects == [f"Commit {number}" for number in range(11, 1, -1)]
    commit = repository.git("rev-parse", "--short", "HEAD").strip()
    date = repository.git("show", "--no-patch", "--format=%aI").strip()
    entry = f"{commit} {date} Ada <ada@example.org>\n    Commit 11\n\n    Why 11"
    assert repository.text("git_log", count=1) == entry
    assert call_tool("git_log", repository.folder, count=1.0).ok
    for count in (0, 51):
        assert repository.refusal("git_log", count=count) == "invalid_arguments"


def test_unusual_commit_messages_are_shown_or_truncated_with_a_note() -> None:
    repository = GitRepository.make(Path("r").absolute())
    repository.git("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--file=-", stdin="%H \x1e\x1f größe\n# kept\n")
    assert "    %H \x1e\x1f größe\n    # kept" in repository.text("git_log")
    repository.commit("x" * 5_000)
    assert repository.text("git_log", count=1).endswith("[the rest of the message is left out]")
    assert len(repository.text("git_log", count=1, oneline=True)) < 220
    latin = "caf\xe9".encode("latin-1")
    (repository.folder / "message").write_bytes(latin)
    repository.git("-c", "i18n.commitEncoding=latin1", "commit", "--quiet", "--allow-empty", "--file=message")
    assert "café" in repository.text("git_log", count=1)
