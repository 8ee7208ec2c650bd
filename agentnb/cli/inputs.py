"""The inputs of a workflow in a shell: its prompt and its tools."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from agentnb.advice import Plain
from agentnb.errors import SettingsError, UnknownTool, suggest_names, suggest_similar
from agentnb.tools.agent_tool import tool_of_variable
from agentnb.tools.builtin.builtin_names import WORDS, tools_of, tools_of_word
from agentnb.tools.mcp.mcp_server import server_tools

STDIN = "-"
"""Prompt that means standard input."""


def read_prompt(argument: str | None) -> str:
    """Return the prompt, read from standard input for ``-``; empty if missing. Raises `SettingsError` if it is blank."""
    if argument is None:
        return ""
    prompt = _standard_input() if argument == STDIN else argument
    if not prompt.strip():
        source = "Standard input is" if argument == STDIN else "The prompt is"
        raise SettingsError(f"{source} blank", "Leave the prompt out to run the workflow without one")
    return prompt.strip("\n")


def _standard_input() -> str:
    if sys.stdin is None:  # closed before the program began
        raise SettingsError("There is no standard input", 'Write the prompt: agentnb exec FILE "PROMPT"')
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    return sys.stdin.read()


def find_tools(names: Iterable[str]) -> list[Any]:
    """Return the tools with these names: ``MODULE:NAME``, a built-in group such as ``files``, or an MCP server's, ``mcp:NAME``.

    Names may be joined with commas; a list adds its items. Modules in the current folder are found, too. An agent or workflow
    without a name is named after its variable. Raises `SettingsError` if an import fails or a value is not a tool.
    """
    tools: list[Any] = []
    for name in (part.strip() for group in names for part in group.split(",")):
        if (served := server_tools(name)) is not None:
            tools += [served] if served not in tools else []
        elif ":" not in name and (of_word := tools_of_word(name)):
            tools += [tool for tool in of_word if tool not in tools]
        elif name:
            value = tool_of_variable(_import("--tools", name), name.rpartition(":")[2].rpartition(".")[2])
            several = value if isinstance(value, list | tuple) else [value]
            tools += [tool for tool in several if tool not in tools]
    for tool in tools:
        tools_of(tool)  # raises for an invalid tool
    return tools


def find_gates(names: Iterable[str]) -> list[Any]:
    """Return the gates named ``MODULE:NAME``. Raises `SettingsError` if an import fails or a value is not callable."""
    gates = []
    for name in names:
        gate = _import("--gate", name)
        if not callable(gate):
            raise SettingsError(
                f"--gate {name} is not a gate", "A gate is a function of the call and the run: def careful(call, run)"
            )
        gates.append(gate)
    return gates


def find_names(sources: Iterable[str]) -> dict[str, Any]:
    """Return the public names in Python files and modules. Raises `SettingsError` if an import fails."""
    variables: dict[str, Any] = {}
    for source in sources:
        module = load_file(Path(source)) if source.endswith(".py") else vars(_module(source, "--tools"))
        variables.update({name: value for name, value in module.items() if not name.startswith("_")})
    return variables


def load_file(path: Path) -> dict[str, Any]:
    """Execute a Python file as a module of the same name, and return its variables. Adds its folder to the module path."""
    if not path.is_file():
        raise SettingsError(f"There is no file {path}", "Give the path of a Python file")
    _add_to_path(path.parent.absolute())
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None, "a Python file has one"
    assert spec.loader is not None, "likewise"
    module = sys.modules[path.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a file may raise anything, even exit
        raise SettingsError(f"{path} cannot be executed: {type(error).__name__}: {error}") from error
    return vars(module)


def _import(option: str, name: str) -> Any:
    """Return the object named ``MODULE:NAME``."""
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        kind, words = ("tool", WORDS) if option == "--tools" else ("gate", ())
        raise UnknownTool(
            f"{option} {name}: there is no {kind} of that name",
            (*suggest_similar(name, words), Plain(f"Write MODULE:NAME, such as {option} my_tools:fetch")),
        )
    value = _module(module, option)
    for part in path.split("."):
        if not hasattr(value, part):
            names = [key for key, held in vars(value).items() if callable(held) and not key.startswith("_")]
            raise UnknownTool(f"{option} {name}: {module} has no {path}", suggest_names(part, names))
        value = getattr(value, part)
    return value


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module(name: str, option: str) -> Any:
    _add_to_path(Path.cwd())
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything, even exit
        problem = f"{option}: the module {name} cannot be imported: {type(error).__name__}: {error}"
        hint = "Modules are searched for in this folder and the installed packages"
        raise SettingsError(problem, hint if isinstance(error, ModuleNotFoundError) else "") from error
