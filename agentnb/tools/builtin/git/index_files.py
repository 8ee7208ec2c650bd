"""Index files beside that of a repository, so that reading leaves its own alone."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agentnb.tools.builtin.git.repository import Repository


@asynccontextmanager
async def index_copy(repository: Repository) -> AsyncIterator[Path]:
    """Copy the index for a while: ``git diff`` notes in it which files it has compared, whatever GIT_OPTIONAL_LOCKS says."""
    with tempfile.TemporaryDirectory(prefix="agentnb-git-") as folder:
        copy = Path(folder) / "index"
        with suppress(FileNotFoundError):  # nothing was ever staged
            await asyncio.to_thread(shutil.copy2, repository.git_dir / "index", copy)
        yield copy


@asynccontextmanager
async def index_of_commit(repository: Repository, commit: str) -> AsyncIterator[Path]:
    """Make an index with the files of a commit, for a while."""
    with tempfile.TemporaryDirectory(prefix="agentnb-git-") as folder:
        index = Path(folder) / "index"
        await repository.output("read-tree", commit, is_reading=False, variables={"GIT_INDEX_FILE": str(index)})
        yield index
