"""Setup of an experiment, for its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.planning.variants import Variant


@dataclass(frozen=True, slots=True)
class Setup:
    """An experiment's parts and settings, extensions included."""

    tasks: Sequence[ExperimentTask]
    variants: Sequence[Variant]
    checks: Sequence[Check]
    planned: Mapping[str, int]
    """Runs of each variant."""
    settings: Mapping[str, Any]
    """Arguments of `Experiment`, by name."""
    source: str = ""
    """Source YAML; empty for Python."""
