"""The setup of an experiment, as its report describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.planning.variants import Variant


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts and settings of an experiment, including extensions."""

    tasks: Sequence[ExperimentTask]
    variants: Sequence[Variant]
    checks: Sequence[Check]
    planned: Mapping[str, int]
    """Number of runs for each variant."""
    settings: Mapping[str, Any]
    """Arguments of `Experiment`, by name."""
    source: str = ""
    """YAML source; empty if the experiment is written in Python."""
