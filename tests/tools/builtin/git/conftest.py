"""A repository for the tests of the git tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repositories import GitRepository


@pytest.fixture(scope="session")
def three_files(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """A repository with three files in its first commit."""
    repository = GitRepository.make(tmp_path_factory.mktemp("three") / "r")
    for name in ("d/a.txt", "d/b.txt", "c.txt"):
        repository.write(name, "1\n")
    repository.commit("First")
    return repository


@pytest.fixture
def repository(three_files: GitRepository, tmp_path: Path) -> GitRepository:
    """Return a copy for one test."""
    return three_files.copy(tmp_path / "r")
