"""Filters in git attributes: programs, such as git-lfs, that convert a file when git reads or writes it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentnb.tools.builtin.git.work_tree import Repository

NO_FILTER = (b"unspecified", b"unset")


async def filters_of(
    repository: Repository, paths: Iterable[bytes], *options: str, index: Path | None = None
) -> dict[bytes, str]:
    """Return the filters by path, for the paths that have one. Paths are relative to the working folder.

    ``index``: index file to read attributes from, instead of the files in the folder.
    """
    stdin = b"".join(path + b"\0" for path in paths)
    if not stdin:
        return {}
    variables = {} if index is None else {"GIT_INDEX_FILE": str(index)}
    output = await repository.output("check-attr", "-z", "--stdin", *options, "filter", stdin=stdin, variables=variables)
    return {path: value.decode(errors="replace") for path, value in _pairs(output) if value not in NO_FILTER}


async def filters_at(repository: Repository, commit: str, paths: Iterable[bytes]) -> dict[bytes, str]:
    """Return the filters by path according to the attributes of a commit, for the paths that have one."""
    async with _index_of_commit(repository, commit) as index:
        return await filters_of(repository, paths, "--cached", index=index)


@asynccontextmanager
async def _index_of_commit(repository: Repository, commit: str) -> AsyncIterator[Path]:
    """Create a temporary index with the files of a commit."""
    with tempfile.TemporaryDirectory(prefix="agentnb-git-") as folder:
        index = Path(folder) / "index"
        await repository.output("read-tree", commit, is_reading=False, variables={"GIT_INDEX_FILE": str(index)})
        yield index


def _pairs(output: bytes) -> Iterator[tuple[bytes, bytes]]:
    parts = output.split(b"\0")
    return zip(parts[::3], parts[2::3], strict=False)
