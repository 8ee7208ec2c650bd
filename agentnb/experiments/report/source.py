"""Code that reproduces an experiment: its YAML cell, or a call to `Experiment` with the functions that it uses."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from agentnb.agent.agent import Agent
from agentnb.agent.agent_settings import AgentSettings
from agentnb.experiments.report.document import Block, Code, Paragraph
from agentnb.experiments.report.setup import Setup
from agentnb.guidance.sets import BUILT_IN, GuidanceSet
from agentnb.models.registry import is_model
from agentnb.workflow.workflow import Workflow

IMPORTS = """from __future__ import annotations

import json
from pathlib import Path

from agentnb import Agent, Experiment, GuidanceSet, Judge, RandomGuidance, within
"""
IMPORTED = frozenset(re.findall(r"\w+", IMPORTS))
LEFT_OUT = ("tasks", "folder", "executor", "places")
"""Arguments left out because they concern the data or the machine."""


class _Names(NamedTuple):
    """The names that the code refers to: those whose definitions are known, and the others."""

    defined: dict[str, str]
    missing: dict[str, None]


def code_of(setup: Setup, tasks: str) -> Iterator[Block]:
    """Yield the code that reproduces the experiment, and the names to define first. ``tasks``: path of the file that holds the
    tasks.
    """
    names = _Names({}, {})
    are_rows = all(task.make is None and task.run is None for task in setup.tasks)
    rows = f"json.loads(Path({tasks!r}).read_text('utf-8'))" if are_rows else _literal(setup.settings["tasks"], names)
    call = _call(rows, setup.settings, names)
    definitions = "\n\n".join(names.defined.values())
    if setup.source:
        yield Paragraph(
            f"The cell that defined the experiment. Its names are variables of the notebook; its tasks are in {tasks}:"
        )
        yield Code(f"%%experiment\n{setup.source}", "yaml")
        if definitions:
            yield Paragraph("Definitions that the experiment refers to:")
            yield Code(definitions, "python")
        return
    yield Code("\n\n".join(filter(None, (IMPORTS, definitions, call))), "python")
    if names.missing:
        yield Paragraph(f"Define first, as in the notebook or module of the experiment: {', '.join(names.missing)}.")


def _call(tasks: str, settings: Mapping[str, Any], names: _Names) -> str:
    arguments = [f"    {tasks},"]
    arguments += [
        f"    {name}={_literal(value, names)},"
        for name, value in settings.items()
        if name not in LEFT_OUT and value is not None and value != ()
    ]
    return "\n".join(["exp = Experiment(", *arguments, ")"])


def _literal(value: Any, names: _Names) -> str:
    """Return the value as code, which is a name unless the value is plain data."""
    match value:
        case None | bool() | int() | float() | str():
            return repr(value)
        case Mapping():
            return "{" + ", ".join(f"{_literal(key, names)}: {_literal(item, names)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(_literal(item, names) for item in value) + "]"
        case GuidanceSet():
            own = {name: value.parts[name] for name in value.own_parts()}
            return repr(value.name) if value.name in BUILT_IN else f"GuidanceSet({value.name!r}, {own!r})"
        case Agent():
            changed = [
                field for field in fields(AgentSettings) if field.init and not _is_default(getattr(value, field.name), field)
            ]
            return f"Agent({', '.join(f'{field.name}={_literal(getattr(value, field.name), names)}' for field in changed)})"
    return _name(value, names)


def _is_default(value: Any, field: Any) -> bool:
    default = field.default if not callable(field.default_factory) else field.default_factory()
    return value is default or value == default


def _name(value: Any, names: _Names) -> str:
    """Return the name of a function, tool, model, policy or workflow, and record its definition if known."""
    if is_model(value):
        names.missing[f"the model {value.name}"] = None
        return repr(value.name)
    function = (
        inspect.unwrap(getattr(value, "function", value)) if callable(value) or hasattr(value, "function") else type(value)
    )
    name = str(getattr(function, "__name__", type(value).__name__))
    module = str(getattr(function, "__module__", ""))
    if is_dataclass(value) and module.partition(".")[0] == "agentnb" and not isinstance(value, Workflow):
        arguments = [
            f"{field.name}={_literal(getattr(value, field.name), names)}"
            for field in fields(value)
            if field.init and field.repr
        ]
        return f"{type(value).__name__}({', '.join(arguments)})"
    try:
        text = textwrap.dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError):
        names.missing[name] = None
    else:
        names.defined[name] = text
        if inspect.isfunction(function):
            _define_variables(function, names)
    return name if function is value or hasattr(value, "function") else f"{name}()"


def _define_variables(function: Any, names: _Names) -> None:
    """Record the plain values that a function refers to by name; its other references count as missing."""
    variables = inspect.getclosurevars(function)
    for name, value in {**variables.globals, **variables.nonlocals}.items():
        if isinstance(value, int | float | str):
            names.defined[name] = f"{name} = {value!r}"
        elif name not in names.defined and name not in IMPORTED:
            names.missing[name] = None
