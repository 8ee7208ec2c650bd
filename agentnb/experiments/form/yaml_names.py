"""The names that an experiment in YAML may use: variables of a notebook or tools file, and guidance sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentnb.advice import Advised
from agentnb.agent.agent import Agent
from agentnb.errors import SettingsError, suggest_names
from agentnb.experiments.planning.experiment_checks import MEASURES, SHIPPED
from agentnb.experiments.planning.variants import is_policy
from agentnb.guidance.sets import BUILT_IN, GuidanceSet, find_set
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.model import Model
from agentnb.models.registry import is_model
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Names:
    """The names in scope for the text. Nothing is executed: a name is looked up, or reported as a problem."""

    variables: Mapping[str, Any]
    problems: Problems
    sets: Mapping[str, GuidanceSet] = field(default_factory=dict)
    """Guidance sets written with ``%%guidance``, by name."""
    folder: str | None = None
    """Folder of the file, or None for a cell, whose text was written by the user."""
    is_file: bool = False

    def variable(self, name: Any, line: int, what: str, fits: Callable[[Any], bool], *, hint: Advised = "") -> Any:
        """Return the variable with this name, or report that it is missing. ``what``: its kind, such as ``tool``."""
        if isinstance(name, str) and name in self.variables:
            return self.variables[name]
        self.problems.add(line, f"There is no {what} {name!r}", suggest_names(str(name), self._public(fits)) or hint)
        return None

    def model(self, name: Any) -> str | Model | Any:
        """Return the model object in the variable with this name, or the name itself, marked if it comes from a file."""
        value = self.variables.get(name) if isinstance(name, str) and ":" not in name else None
        if value is not None and (is_model(value) or (isinstance(value, str) and ":" in value)):
            return value
        return FileModelName(name, self.folder) if self.is_file and isinstance(name, str) else name

    def guidance(self, name: Any, line: int) -> GuidanceSet | None:
        """Return the guidance set with this name: from a variable, from ``%%guidance``, or built in."""
        value = self.variables.get(name) if isinstance(name, str) else None
        if isinstance(value, GuidanceSet):
            return value
        try:
            return find_set(name, self.sets)
        except SettingsError as error:
            self.problems.add(line, error.what, error.advice)
            return None

    def arm(self, name: Any, line: int) -> Any:
        """Resolve a variant: the name of a guidance set, or a variable that holds a set, policy, settings, Agent or
        Workflow.
        """
        value = self.variables.get(name) if isinstance(name, str) else None
        if is_arm(value):
            return value
        if isinstance(name, str) and (name in self.sets or name in BUILT_IN):
            return find_set(name, self.sets)
        advice = suggest_names(str(name), [*BUILT_IN, *self.sets, *self._public(is_arm)])
        self.problems.add(line, f"There is no variant or guidance set {name!r}", advice)
        return None

    def check(self, name: Any, line: int) -> Any:
        """Return the function with this name. The name of a built-in check, a measure or an expectation is returned as text."""
        if isinstance(name, str) and name not in SHIPPED and name not in MEASURES and name in self.variables:
            value = self.variables[name]
            if callable(value):
                return value
            self.problems.add(line, f"{name} is a {type(value).__name__}, not a check", "A check is a function of the run")
            return None
        if isinstance(name, str) and name.isidentifier() and name not in SHIPPED and name not in MEASURES:
            names = [*SHIPPED, *MEASURES, *self._public(callable)]
            self.problems.add(line, f"There is no check {name!r}", suggest_names(name, names))
            return None
        return name

    def _public(self, fits: Callable[[Any], bool]) -> list[str]:
        """Return the names of public variables whose values fit."""
        return [name for name, value in self.variables.items() if not name.startswith("_") and fits(value)]


def is_arm(value: Any) -> bool:
    """True if a value can be a variant."""
    return isinstance(value, GuidanceSet | Agent | Workflow | Mapping) or (is_policy(value) and not isinstance(value, type))


def is_frame(value: Any) -> bool:
    """True if a value can serve as the tasks: a data frame, rows, or functions."""
    return hasattr(value, "to_dict") or (isinstance(value, list | tuple) and bool(value))
