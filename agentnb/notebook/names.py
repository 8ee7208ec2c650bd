"""Names that people type in magics, looked up in the notebook."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL
from agentnb.errors import SettingsError, UnknownModel, UnknownTool, near
from agentnb.models.model import Model
from agentnb.models.registry import is_model


def find_tools(names: Iterable[str], variables: Mapping[str, Any]) -> list[Any]:
    """The functions of these names; a name of a list stands for what is in it. `UnknownTool` for what is not there."""
    found: list[Any] = []
    for name in names:
        if name not in variables:
            raise UnknownTool(
                f"There is no tool {name!r} in this notebook", near(name, tool_names(variables)) or "Define the function first"
            )
        value = variables[name]
        found += [one for one in (value if isinstance(value, list | tuple) else [value]) if one not in found]
    return found


def find_model(name: str, variables: Mapping[str, Any]) -> str | Model:
    """The model object, or the model's name, that is in the variable of this name; or the name itself."""
    value = variables.get(name)
    if isinstance(value, str) and ":" in value:
        return value
    if is_model(value):
        return value  # type: ignore[return-value]  # just looked
    if name.isidentifier() and ":" not in name:
        models = [known for known, one in variables.items() if is_model(one) and not known.startswith("_")]
        what = "is no model" if name in variables else "is not there, and is no model"
        hint = f"{_models_here(name, models)} A name of a model has the form provider:NAME; %agent models shows the providers"
        raise UnknownModel(f"The variable {name} {what}", hint.strip())
    return name


def _models_here(name: str, models: list[str]) -> str:
    """Which of them may be meant; where none is alike, those there are: a bare "There is model." would not say of what."""
    if not models or get_close_matches(name, models, cutoff=0.5):
        return near(name, models)
    return f"Variables that hold a model: {', '.join(models[:8])}{' and more' if len(models) > 8 else ''}."


def tool_names(variables: Mapping[str, Any]) -> list[str]:
    """Functions that the person wrote, and lists of them, by name."""
    return [name for name, value in variables.items() if not name.startswith("_") and _may_be_tool(value)]


def check_variable(name: str) -> str:
    """A name that a run can be put in; `SettingsError` for what is none."""
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
        raise SettingsError(f"-o {name}: that is no name for a variable", "Use letters, digits and _")
    return name


def tools_before(before: Run, agent: Agent) -> str:
    """A line for the person, if a run is gone on with by an agent without the tools that it had; else empty."""
    names = [tool.name for tool in before.tools if tool.name != TODO_TOOL]
    if not names or len(agent.toolbox):
        return ""
    return f"The run before had tools, and this cell names none. To give them again: -t {' '.join(names)}"


def _may_be_tool(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(_may_be_tool(item) for item in value)
    written_here = inspect.isfunction(value) and getattr(value, "__module__", "") == "__main__"
    return written_here or hasattr(value, "__agentnb_tool__")
