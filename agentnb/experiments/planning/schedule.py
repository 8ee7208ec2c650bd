"""Cells: every task under every variant and model, repeated, in random order within blocks."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from agentnb.experiments.planning.content_hash import content_hash
from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.planning.variants import OWN_MODEL, Variant

Seeds: TypeAlias = Literal["shared", "independent"]
"""Assignment of seeds: each task and repeat has one seed for all variants, or one for each variant."""
MAX_SEED = 2**31


class Cell(NamedTuple):
    """A run to be made: the positions of its task, variant and model, its repeat, and its seed."""

    task: int
    variant: int
    model: int
    repeat: int
    """Number of the repeat, from 0."""
    seed: int
    key: str
    """Hash of its content: task, variant, model, repeat, seed, and the source of its tools."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All cells of an experiment in order."""

    tasks: Sequence[ExperimentTask]
    """All tasks of the experiment."""
    places: Sequence[int]
    """Positions of the tasks that have cells in this schedule."""
    variants: Sequence[Variant]
    models: Sequence[str]
    """Names of the models; `OWN_MODEL` means the variants' own."""
    repeats: int
    seed: int
    seeds: Seeds = "shared"
    is_pilot: bool = False
    first_repeat: int = 0
    """The first repeat; lower repeats belong to an earlier schedule, which this one extends."""
    stage: int = 0
    """Number of planned looks before this schedule: each look adds its tasks as a separate schedule."""

    def __len__(self) -> int:
        return len(self.places) * len(self.variants) * len(self.models) * self.repeats

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells: blocks of a task, model and repeat in random order, with the variants in random order within each
        block.
        """
        stage = f":{self.stage}" if self.stage else ""
        draw = Random(f"{self.seed}:order:{self.is_pilot}:{self.first_repeat}:{len(self.places)}{stage}")
        blocks = array("L", range(len(self.places) * len(self.models) * self.repeats))
        draw.shuffle(blocks)
        for block in blocks:
            position, remainder = divmod(block, len(self.models) * self.repeats)
            model, repeat = divmod(remainder, self.repeats)
            for variant in draw.sample(range(len(self.variants)), len(self.variants)):
                yield self._cell(self.places[position], variant, model, self.first_repeat + repeat)

    def _cell(self, task: int, variant: int, model: int, repeat: int) -> Cell:
        arm, work = self.variants[variant], self.tasks[task]
        seed = self.seed_for(work.id, repeat, arm.name)
        parts = (work.id, work.content, arm.content, self.models[model], repeat, seed, arm.tools, self.is_pilot)
        # The name tells apart equal variants of an A/A experiment.
        return Cell(task, variant, model, repeat, seed, content_hash(*parts, arm.name))

    def seed_for(self, task: str, repeat: int, variant: str) -> int:
        """Return the seed of a task and repeat; it depends on the variant only if seeds are independent."""
        of_variant = variant if self.seeds == "independent" else ""
        text = f"{self.seed}:{self.is_pilot}:{task}:{repeat}:{of_variant}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % MAX_SEED

    def model_name(self, cell: Cell) -> str:
        """Return the name of the cell's model; by default, the model of the variant's own agent."""
        name = self.models[cell.model]
        if name != OWN_MODEL:
            return name
        own = self.variants[cell.variant].model
        return "" if own is None else own if isinstance(own, str) else own.name
