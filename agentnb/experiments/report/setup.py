"""What a report needs of an experiment besides its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentnb.experiments.planning.checks import Check
from agentnb.experiments.planning.tasks import ExperimentTask
from agentnb.experiments.planning.variants import Variant


@dataclass(frozen=True, slots=True)
class Setup:
    """An experiment as it was set up, extensions included."""

    tasks: Sequence[ExperimentTask]
    variants: Sequence[Variant]
    checks: Sequence[Check]
    planned: Mapping[str, int]
    """Runs of each variant."""
    settings: Mapping[str, Any]
    """The arguments of `Experiment`, by name."""
    source: str = ""
    """The YAML that it was read from; empty for Python."""
