"""Reads an experiment from YAML. The keys are the keywords of `Experiment`; names are looked up, never executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentnb.advice import PYTHON, Commands
from agentnb.agent.agent import Agent
from agentnb.errors import ExperimentProblems, SettingsError, suggest_names
from agentnb.experiments.experiment import Experiment
from agentnb.experiments.form.yaml_names import Names, is_frame
from agentnb.experiments.planning.experiment_checks import within
from agentnb.experiments.planning.experiment_tasks import TRACES
from agentnb.experiments.planning.variants import VARIANT_SETTINGS
from agentnb.guidance.sets import GuidanceSet
from agentnb.tools.builtin.builtin_names import tools_of_word
from agentnb.tools.mcp.mcp_server import is_word
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node, ScalarNode, plain, read_mapping, read_yaml

KEYS = tuple([field.name for field in fields(Experiment) if not field.name.startswith("_")])
"""The keys that an experiment in YAML may have."""
NEEDED = ("tasks", "variants")
VARIABLES = ("output", "history", "detect", "policy", "extensions")
"""Agent settings whose text may name a variable."""
LISTS = ("tools", "gates")
"""Agent settings that list functions by name."""
DEFINE_IT = "Define it in an earlier cell, or give a file with it: --tools FILE"
_TOP_KEY = re.compile(rf"^({'|'.join(KEYS)})[ \t]*:", re.MULTILINE)


def is_yaml_experiment(text: str) -> bool:
    """True if a text is meant to be an experiment in YAML, that is, a mapping with one of the keys."""
    node = read_yaml(text, Problems())
    if isinstance(node, MappingNode):
        return any(key in node.entries for key in KEYS)
    return node is None and _TOP_KEY.search(text) is not None


def read_experiment(
    text: str,
    variables: Mapping[str, Any],
    sets: Mapping[str, GuidanceSet] | None = None,
    *,
    path: Path | None = None,
    commands: Commands = PYTHON,
) -> Experiment:
    """Parse an experiment. Raises `ExperimentProblems` with every problem and its line.

    ``variables``: values for its names; ``sets``: guidance sets by name. ``path``: the file that the text is from; model names
    in a file may choose only addresses and keys that the user has allowed. ``commands``: the surface whose commands the
    messages suggest.
    """
    problems = Problems("" if path is None else str(path))
    folder = None if path is None else str(path.parent)
    names = Names(variables, problems, sets or {}, folder, path is not None)
    node = read_mapping(text, problems, "An experiment", "Write the keys tasks: and variants:")
    values: dict[str, Any] = {}
    if node is not None:
        _check_keys(node, problems)
        values = {key: _READERS.get(key, _plain)(entry.value, names) for key, entry in node.entries.items() if key in KEYS}
    if problems.found:
        raise ExperimentProblems.of(
            [problem.text_for(commands) for problem in sorted(problems.found, key=lambda problem: problem.line)]
        )
    return Experiment(**values, _source=text.strip())


def _check_keys(node: MappingNode, problems: Problems) -> None:
    for key, entry in node.entries.items():
        if key not in KEYS:
            problems.add(entry.line, f"An experiment has no key {key!r}", suggest_names(key, KEYS))
    for key in NEEDED:
        if key not in node.entries:
            problems.add(node.line, f"The key {key!r} is missing", "An experiment needs tasks: and variants:")


def _plain(node: Node, names: Names) -> Any:
    return plain(node)


def _tasks(node: Node, names: Names) -> Any:
    if isinstance(node, ScalarNode):
        return names.variable(node.value, node.line, "data frame or list of tasks", is_frame, hint=DEFINE_IT)
    if isinstance(node, MappingNode):
        if TRACES not in node.entries:
            names.problems.add(node.line, "Tasks are rows, or a mapping with traces:", 'For example: - {id: a, prompt: "..."}')
        return plain(node)
    return [_task(item, names) for item in node.items]


def _task(node: Node, names: Names) -> Any:
    if isinstance(node, ScalarNode):
        return names.variable(node.value, node.line, "function that makes a task", callable, hint=DEFINE_IT)
    return plain(node)


def _variants(node: Node, names: Names) -> Any:
    if isinstance(node, MappingNode):
        return {key: _variant(entry.value, names) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return {_name(item): _variant(item, names) for item in node.items}
    return names.variable(node.value, node.line, "mapping of variants", lambda value: isinstance(value, Mapping))


def _name(node: Node) -> str:
    return str(node.value) if isinstance(node, ScalarNode) else f"line {node.line}"


def _variant(node: Node, names: Names) -> Any:
    return _settings(node, names) if isinstance(node, MappingNode) else names.arm(plain(node), node.line)


def _agent(node: Node, names: Names) -> Any:
    if isinstance(node, MappingNode):
        return _settings(node, names)
    return names.variable(plain(node), node.line, "agent", lambda value: isinstance(value, Agent))


def _settings(node: MappingNode, names: Names) -> dict[str, Any]:
    """Return the settings of an agent, resolving the names of tools, gates, guidance sets and models."""
    settings: dict[str, Any] = {}
    for key, entry in node.entries.items():
        if key not in VARIANT_SETTINGS:
            names.problems.add(entry.line, f"An agent has no setting {key!r}", suggest_names(key, VARIANT_SETTINGS))
        else:
            settings[key] = _setting(key, entry.value, names)
    return settings


def _setting(key: str, node: Node, names: Names) -> Any:
    if key in LISTS:
        return _functions(key, node, names)
    value = plain(node)
    if key == "model":
        return names.model(value)
    if key == "guidance":
        return names.guidance(value, node.line)
    return names.variables[value] if key in VARIABLES and isinstance(value, str) and value in names.variables else value


def _functions(key: str, node: Node, names: Names) -> list[Any]:
    """Resolve functions by name. A variable that holds a list contributes all its items."""
    functions: list[Any] = []
    for item in _items(node):
        name = plain(item)
        is_named = key == "tools" and name not in names.variables and (tools_of_word(str(name)) or is_word(str(name)))
        value = name if is_named else names.variable(name, item.line, key.removesuffix("s"), callable, hint=DEFINE_IT)
        functions += value if isinstance(value, list | tuple) else [value]
    return functions


def _models(node: Node, names: Names) -> Any:
    models = [names.model(plain(item)) for item in _items(node)]
    return models or None


def _check(node: Node, names: Names) -> Any:
    if not isinstance(node, MappingNode):
        return names.check(plain(node), node.line)
    limits = plain(node).get("within")
    if set(node.entries) == {"within"} and isinstance(limits, dict):
        try:
            return within(**limits)
        except (SettingsError, TypeError):
            pass
    names.problems.add(
        node.line, "A check is a name, an expectation, or within", "For example: {within: {cost: 0.05, rounds: 8}}"
    )
    return None


def _approve(node: Node, names: Names) -> Any:
    value = plain(node)
    return names.variables[value] if isinstance(value, str) and callable(names.variables.get(value)) else value


def _items(node: Node) -> tuple[Node, ...]:
    if isinstance(node, ListNode):
        return node.items
    return () if isinstance(node, ScalarNode) and node.value is None else (node,)


_READERS: dict[str, Callable[[Node, Names], Any]] = {
    "tasks": _tasks,
    "variants": _variants,
    "agent": _agent,
    "models": _models,
    "primary": _check,
    "checks": lambda node, names: [_check(item, names) for item in _items(node)],
    "approve": _approve,
}
