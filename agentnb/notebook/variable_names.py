"""Looks up names typed in magics among the notebook's variables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeGuard, get_origin

from IPython.core.getipython import get_ipython
from msgspec.structs import replace

from agentnb.advice import Advised, NameOne, Plain, as_advice
from agentnb.agent.agent import Agent
from agentnb.agent.output import Output
from agentnb.context import history_settings
from agentnb.core.questions import ASK_PERSON
from agentnb.detect.run import Run
from agentnb.display.texts.notebook_commands import is_variable
from agentnb.errors import InvalidTool, SettingsError, UnknownModel, UnknownTool, suggest_names
from agentnb.models.model import Model
from agentnb.models.registry import is_model, why_no_model
from agentnb.notebook.lookup.dotted_names import find_dotted, is_dotted, proposed_names, public_variables, typed_names
from agentnb.runtime.runs.gate_names import name_of_gate, names_of_gates
from agentnb.tools.agent_tool import AgentTool, offer_of, tool_of_variable
from agentnb.tools.builtin.builtin_names import Groups, near_tools, tools_of, tools_of_word
from agentnb.tools.builtin.group import ToolGroup
from agentnb.tools.function import as_tool
from agentnb.tools.mcp.logged import servers_of_log
from agentnb.tools.mcp.mcp_server import MCPServer, server_tools, servers_among
from agentnb.tools.tool import Tool
from agentnb.workflow.files.text_inputs import EXAMPLE as INPUTS_EXAMPLE
from agentnb.workflow.files.text_inputs import read_inputs

BUILT_IN = {kind.__name__: kind for kind in (int, float, str, bool, list, dict)}
"""Types that ``--output`` takes by name, without a variable."""


def words_of(groups: Iterable[Iterable[str]] | None) -> list[str]:
    """Return the names after ``-t``. The option may be repeated, and names may be separated by spaces or commas."""
    return [part for group in groups or [] for word in group for part in re.split(r"[,\s]+", unquote(word)) if part]


def unquote(name: str | None) -> str:
    """Return the name without the quotation marks that a shell would have removed."""
    return (name or "").strip("\"'")


def names_of(variables: Mapping[str, Any], fits: Callable[[Any], bool]) -> list[str]:
    """Return the names of public notebook variables whose values satisfy ``fits``."""
    return [name for name, value in public_variables(variables) if fits(value)]


def is_kind(kind: type[Any]) -> Callable[[Any], bool]:
    """Return a predicate for instances of this class."""
    return lambda value: isinstance(value, kind)


def _unusable(
    option: str, name: str, variables: Mapping[str, Any], candidates: list[str], hint: str, held: str = ""
) -> SettingsError:
    """Return the error for a variable that the option cannot use. ``held``: describes its content."""
    kind = held or f"a {type(variables.get(name)).__name__}"
    problem = f"The variable {name} holds {kind}" if name in variables else f"There is no variable {name!r}"
    return SettingsError(
        f"{option} {name}: {problem}", (*suggest_names(name, [other for other in candidates if other != name]), Plain(hint))
    )


def find_tools(names: Iterable[str], variables: Mapping[str, Any], groups: Groups | None = None) -> list[Any]:
    """Return functions, agents, workflows, MCP servers and built-in tools by name; a list is replaced by its items.

    A variable that holds a tool takes precedence over the name of a built-in group. ``groups``: groups with the session's
    settings. An agent or workflow without its own name gets the name of its variable. A dotted name refers to a method of an
    object, or to a function in a module. Raises `UnknownTool` if a name is undefined.
    """
    tools: list[Any] = []
    for name in dict.fromkeys(names):
        tools += [tool for tool in _tools_called(name, variables, groups) if tool not in tools]
    return tools


def tools_for_file(names: Iterable[str], variables: Mapping[str, Any], groups: Groups) -> list[Any]:
    """Return the tools available to a workflow: those with these names, and groups with the session's settings."""
    tools = find_tools(names, variables, groups)
    own_names = {tool.spec.name for value in tools for tool in tools_of(value)}
    return [*tools, *[tool for group in groups.values() for tool in group.tools if tool.spec.name not in own_names]]


def _tools_called(name: str, variables: Mapping[str, Any], groups: Groups | None) -> Sequence[Any]:
    if (served := server_tools(name)) is not None:
        return [served]
    is_path = is_dotted(name) and (name.partition(".")[0] in variables or not tools_of_word(name))
    value = find_dotted(name, variables) if is_path else tool_of_variable(variables.get(name), name)
    if not _holds_tools(value) and not is_path and (of_word := tools_of_word(name, groups)):
        return of_word
    if name not in variables and not is_path:
        raise UnknownTool(f"There is no tool {name!r} in this notebook", _instead_of(name, variables))
    if not callable(value) and not isinstance(value, list | tuple | ToolGroup | MCPServer):
        as_tool(value, name)  # raises with the type
    return value if isinstance(value, list | tuple) else [value]


def _holds_tools(value: Any) -> bool:
    """True if a variable holds a tool or a list of tools."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_holds_tools, value))
    return isinstance(value, MCPServer) or bool(_tools_in(value))


def _instead_of(name: str, variables: Mapping[str, Any]) -> Advised:
    """Return advice for an undefined tool name."""
    if proposed := proposed_names(name, variables):
        return f"Name it with its variable: -t {' or '.join(proposed)}"
    return near_tools(name, tool_names(variables), Plain("Define the function first"))


def find_gates(names: Iterable[str], variables: Mapping[str, Any]) -> list[Callable[..., Any]]:
    """Return the functions with these names, as gates. Raises `SettingsError` if a value is not a function."""
    gates: list[Callable[..., Any]] = []
    for name in names:
        value = variables.get(name)
        if not callable(value):
            hint = f"A gate is a function of the call and the run: def {name}(call, run)"
            raise _unusable("--gate", name, variables, gate_names(variables), hint)
        gates.append(value)
    return gates


def gates_again(run: Run, given: Iterable[Callable[..., Any]], variables: Mapping[str, Any]) -> list[Callable[..., Any]]:
    """Return a run's gates in order: for each name, the gate passed in, or else one in a variable of this notebook.

    Missing gates are omitted. A lambda cannot be found because it has no name.
    """
    others, gates = list(given), []
    for name in names_of_gates(run):
        candidates = [*others, *(_gates_called(name, variables) if name.isidentifier() else ())]
        gate = next((candidate for candidate in candidates if name_of_gate(candidate) == name), None)
        if gate is not None:
            gates.append(gate)
            if gate in others:
                others.remove(gate)
    return [*gates, *others]


def _gates_called(name: str, variables: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
    values = (variables.get(name), *(value for _, value in public_variables(variables)))
    return (value for value in values if callable(value) and not isinstance(value, type))


def find_model(name: str, variables: Mapping[str, Any]) -> str | Model:
    """Return the model object or model name in the variable with this name; otherwise the name itself."""
    value = variables.get(name)
    if isinstance(value, str) and ":" in value:
        return value
    if is_model(value):
        return value  # type: ignore[return-value]  # checked above
    if name.isidentifier() and ":" not in name:
        problem = f"is of type {type(variables[name]).__name__}, not a model" if name in variables else "is not defined"
        lacks = why_no_model(variables[name], name) if _is_nearly_a_model(name, variables) else ""
        models = _models_here(name, names_of(variables, is_model))
        names = "Model names have the form provider:NAME; %agent models lists the providers"
        raise UnknownModel(f"The variable {name} {problem}", (*as_advice(lacks), *models, Plain(names)))
    return name


def _is_nearly_a_model(name: str, variables: Mapping[str, Any]) -> bool:
    """True if the variable was probably meant as a model: an object or class defined in the notebook."""
    value = variables.get(name)
    kind = value if isinstance(value, type) else type(value)
    return name in variables and (kind.__module__ == "__main__" or hasattr(value, "stream"))


def find_history(name: str | history_settings.History, variables: Mapping[str, Any]) -> history_settings.History:
    """Return the `History` in the variable with this name, or the built-in one with this name."""
    value = variables.get(name) if isinstance(name, str) else name
    if isinstance(value, history_settings.History):
        return value
    if name in history_settings.NAMED:
        return history_settings.find_history(name)
    advice = suggest_names(str(name), [*history_settings.NAMED, *names_of(variables, is_kind(history_settings.History))])
    raise SettingsError(f"There is no history {name!r}", (*advice, Plain(f"Or make one: {name} = agentnb.History(...)")))


def find_output(name: str, variables: Mapping[str, Any]) -> Any:
    """Return the type, JSON Schema or `Output` in the variable with this name, or the built-in type with it. Raises
    `SettingsError` for anything else.
    """
    value = variables.get(name, BUILT_IN.get(name))
    if isinstance(value, type | dict | Output) or get_origin(value) is not None:
        return value
    types = ", ".join(BUILT_IN)
    hint = f"Name a variable that holds a dataclass, another type, or a dict with a JSON Schema; or {types}"
    raise _unusable("--output", name, variables, output_names(variables), hint)


def find_inputs(given: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workflow's inputs by name, from a variable, JSON text, or a JSON or YAML file.

    Raises `SettingsError` if they are unusable.
    """
    name = unquote(given)
    if not name.isidentifier():
        return read_inputs(name or None)
    value = variables.get(name)
    if _holds_inputs(value):
        return dict(value)
    hint = f"Name a variable that holds a dict, or a file, or write JSON. {INPUTS_EXAMPLE}"
    raise _unusable("--inputs", name, variables, input_names(variables), hint, "a value that is not a dict of inputs")


def input_names(variables: Mapping[str, Any]) -> list[str]:
    """Return the names of variables that hold nonempty dicts of inputs."""
    return names_of(variables, lambda value: _holds_inputs(value) and bool(value))


def _holds_inputs(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def output_names(variables: Mapping[str, Any]) -> list[str]:
    """Return the names of the person's own types, JSON Schemas and outputs."""
    return names_of(variables, _is_likely_output)


def _is_likely_output(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("type"), str) or "$ref" in value
    written_here = isinstance(value, type) and value.__module__ == "__main__"
    return written_here or isinstance(value, Output)


def tools_again(names: Iterable[str], given: Iterable[Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tools with these names: those passed in, and those found in any variable or list of this notebook.

    An agent or workflow without its own name gets the name of its variable, as with ``-t``. Missing tools are omitted.
    """
    tools: dict[str, Any] = {tool.spec.name: tool for value in given for tool in tools_of(value)}
    tools |= {item.word: item for item in servers_among(given)}
    for name in names:
        candidates = (tool for value in _may_be_called(name, variables) for tool in _tools_in(value))
        match = next((tool for tool in candidates if tool.spec.name == name), None)
        if match is not None:
            tools.setdefault(name, match)
    return tools


def servers_again(run: Run, variables: Mapping[str, Any]) -> list[MCPServer]:
    """Return a run's MCP servers, if variables here hold them with the same name and the same command or address."""
    logged = servers_of_log(run.settings)
    values = [server for _, value in public_variables(variables) for server in _flat(value)]
    servers = [
        server
        for server in values
        if isinstance(server, MCPServer) and server.name in logged and server.target == logged[server.name].target
    ]
    return [server for index, server in enumerate(servers) if server.name not in [before.name for before in servers[:index]]]


def _may_be_called(name: str, variables: Mapping[str, Any]) -> Iterator[Any]:
    snapshot = dict(variables)
    tools = (tool_of_variable(snapshot.get(item), item) for item in (name, *tool_names(snapshot)))
    values = [*tools, *(tools_of_word(name) if name == ASK_PERSON else ())]
    return (item for value in values for item in _flat(value))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _tools_in(value: Any) -> tuple[Tool, ...]:
    """Return the tools in a value; empty for text and unusable values."""
    with suppress(InvalidTool):
        return () if isinstance(value, str) else tools_of(value)
    return ()


def _models_here(name: str, models: list[str]) -> tuple[NameOne, ...]:
    """Return advice to name an available model; a bare "Available: model." would be unclear."""
    return tuple([replace(advice, lead="Variables that hold a model:") for advice in suggest_names(name, models)])


def tool_names(variables: Mapping[str, Any]) -> list[str]:
    """Return the names of the person's functions, agents, workflows and MCP servers, and of lists of these."""
    return names_of(variables, _may_be_tool)


def gate_names(variables: Mapping[str, Any]) -> list[str]:
    """Return the names of the person's functions."""
    return [name for name in tool_names(variables) if callable(variables[name])]


def find_agents(variables: Mapping[str, Any]) -> dict[str, Agent]:
    """Return the agents in variables of this notebook, by variable name."""
    return {name: variables[name] for name in names_of(variables, is_kind(Agent))}


def run_names(variables: Mapping[str, Any]) -> list[str]:
    """Return the names of variables that hold a run."""
    return names_of(variables, is_kind(Run))


def check_variable(name: str) -> str:
    """Return the name if a run can be assigned to a variable with this name. Raises `SettingsError` otherwise."""
    if not is_variable(name):
        raise SettingsError(f"-o {name}: {name!r} is not a valid variable name", "Use letters, digits and _")
    return name


def tools_before(before: Run, agent: Agent) -> str:
    """Return a hint if the run to continue had tools but the agent has none, or ""."""
    names = before.tool_words
    if not names or not agent.toolbox.is_empty:
        return ""
    typed = typed_names(before.invocation.tools, names) if before.invocation is not None else {}
    names = [typed.get(name, name) for name in names]
    return f"The continued run had tools; this cell names none. To use them again: -t {' '.join(names)}"


def _may_be_tool(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(_may_be_tool(item) for item in value)
    written_here = inspect.isfunction(value) and getattr(value, "__module__", "") == "__main__"
    is_tool = isinstance(value, AgentTool | ToolGroup | MCPServer) or hasattr(value, "__agentnb_tool__")
    return written_here or is_tool or offer_of(value) is not None


def variable_holding(shown: object, usual: str) -> str:
    """Return a notebook variable that holds the value, the usual one if several do, or else a word to replace."""
    variables: dict[str, Any] = getattr(get_ipython(), "user_ns", {})
    names = [name for name, value in public_variables(variables) if value is shown]
    return usual if usual in names else next(iter(names), usual.upper())
