"""Plots of runs: each function returns a matplotlib figure.

Most take a run, several runs, a path, a folder, a glob or a store, as the tables do. `timeline`, `detections` and
`similarity` take a single run, `sweep` takes a table from `agentnb.detect.sweep`, and `survey` one from
`agentnb.survey`; `differences`, `flips` and `pass_k` take comparisons, `cost_against_success` the results of an
experiment, `survival` and `ledger` any of them.

Figures are made without pyplot: a notebook shows them once, and ``figure.savefig("plot.png")`` writes them. Rounds
count from 1, an unknown value is never drawn as 0, and a plot that has no data says so.
"""

from typing import TYPE_CHECKING

from agentnb.errors import module_getattr
from agentnb.plots.cost import cost
from agentnb.plots.detections_plot import detections
from agentnb.plots.ends_plot import ends
from agentnb.plots.experiments.cost_against_success import cost_against_success
from agentnb.plots.experiments.differences import differences
from agentnb.plots.experiments.flips import flips
from agentnb.plots.experiments.ledger_plot import ledger
from agentnb.plots.experiments.pass_k_plot import pass_k
from agentnb.plots.guidance_plot import guidance
from agentnb.plots.outcomes import outcomes
from agentnb.plots.similarity_plot import similarity
from agentnb.plots.surveys import survey
from agentnb.plots.survival_plot import survival
from agentnb.plots.sweeps import sweep
from agentnb.plots.timeline_plot import timeline
from agentnb.plots.todos_plot import todos
from agentnb.plots.tokens import tokens
from agentnb.plots.tools import tools

OF_A_TABLE = frozenset({"survey", "sweep"})
"""Plots that take a table instead of runs."""
OF_EXPERIMENTS = frozenset({"cost_against_success", "differences", "flips", "pass_k"})
"""Plots that take comparisons or results instead of runs."""
OF_ONE_RUN = frozenset({"detections", "similarity", "timeline"})

__all__ = [
    "cost",
    "cost_against_success",
    "detections",
    "differences",
    "ends",
    "flips",
    "guidance",
    "ledger",
    "outcomes",
    "pass_k",
    "similarity",
    "survey",
    "survival",
    "sweep",
    "timeline",
    "todos",
    "tokens",
    "tools",
]

if not TYPE_CHECKING:  # a type checker would take every name for Any, misspelled ones too
    __getattr__ = module_getattr(__name__, __all__)
