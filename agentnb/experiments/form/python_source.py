"""Finds the experiment that Python code defines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.errors import SettingsError
from agentnb.experiments.experiment import Experiment


def experiment_in(variables: Mapping[str, Any], name: str = "") -> Experiment:
    """Return the experiment among a module's variables, selected by ``name`` if there are several. Raises `SettingsError`."""
    experiments = {key: value for key, value in variables.items() if isinstance(value, Experiment) and not key.startswith("_")}
    if name:
        if name not in experiments:
            hint = f"It has {', '.join(experiments)}" if experiments else "It has no experiment"
            raise SettingsError(f"There is no experiment {name!r}", hint)
        return experiments[name]
    distinct = {id(value): key for key, value in experiments.items()}
    if len(distinct) > 1:
        raise SettingsError(f"The file has several experiments: {', '.join(experiments)}", "Name one: --name NAME")
    if not experiments:
        raise SettingsError("The file has no experiment", "Assign one to a variable: exp = Experiment(...)")
    return next(iter(experiments.values()))
