"""A repository for the tests of the git tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repositories import GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """Return a repository with three files in its first commit."""
    repository = GitRepository.make(tmp_path / "r")
    for name in ("d/a.txt", "d/b.txt", "c.txt"):
        repository.write(name, "1\n")
    repository.commit("First")
    return repository
