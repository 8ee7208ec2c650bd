"""What a step in a branch within a block may read: also the steps before it in its branch, though the block is open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.step_outputs import Entry


class BranchOutputs(Mapping[str, Entry]):
    """The entries of the steps outside of a block, and of those that have completed in one child of it, by id."""

    def __init__(self, outside: Mapping[str, Entry], run: RunFacts, block: str, ids: Collection[str]) -> None:
        """``block``: its path; ``ids``: those of the steps that the child is, or has in its branches."""
        self._outside = outside
        self._run = run
        self._block = block
        self._ids = ids

    def __getitem__(self, name: str) -> Entry:
        own = self._own()
        return own[name] if name in own else self._outside[name]

    def __iter__(self) -> Iterator[str]:
        own = self._own()
        yield from (name for name in self._outside if name not in own)
        yield from own

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def path_of(self, name: str) -> str:
        """Return the path of a step that has an entry here."""
        return f"{self._block}/{name}" if name in self._own() else path_of(self._outside, name)

    def _own(self) -> dict[str, Entry]:
        children = self._run.open_outputs(self._block)
        return {name: entry for name, entry in children.items() if name in self._ids}


def path_of(steps: Mapping[str, Entry], name: str) -> str:
    """Return the path of a step that has an entry among these."""
    return steps.path_of(name) if isinstance(steps, BranchOutputs) else name
