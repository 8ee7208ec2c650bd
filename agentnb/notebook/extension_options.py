"""The options of ``%%agent`` that extend the agent, such as with plans: one row for each extension of another room."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from IPython.core.magic_arguments import argument

from agentnb.agent.detection import NAME as DETECTION
from agentnb.agent.detection import detection
from agentnb.agent.extension import Extension, logged_extensions
from agentnb.detect.run import Run

F = TypeVar("F", bound=Callable[..., Any])


class ExtensionOption(NamedTuple):
    """An option that extends the agent of a cell."""

    help: str
    make: Callable[[Mapping[str, Any]], Extension]
    """Returns the extension by its logged settings, which for a new run hold only the value, if it has one."""
    value: str = ""
    """The setting that is the value of the option; empty for an option without a value."""


OPTIONS: dict[str, ExtensionOption] = {
    DETECTION: ExtensionOption(
        "Look on with these detectors and act on what they find: default, openhands, gemini, ... (docs/detect.md)",
        lambda logged: detection(logged["preset"]),
        "preset",
    ),
}
"""The options by the names of their extensions: ``plans`` is typed ``--plans``."""


def extension_options(magic: F) -> F:
    """Add these options to a magic."""
    for name, option in reversed(OPTIONS.items()):
        how: dict[str, Any] = {"metavar": "NAME"} if option.value else {"action": "store_true"}
        magic = argument(f"--{name}", help=option.help, **how)(magic)
    return magic


def chosen_extensions(options: Namespace) -> tuple[Extension, ...]:
    """Return the extensions whose options were given."""
    chosen = {name: getattr(options, name.replace("-", "_"), None) for name in OPTIONS}
    return tuple([OPTIONS[name].make(_as_logged(OPTIONS[name], value)) for name, value in chosen.items() if value])


def _as_logged(option: ExtensionOption, value: Any) -> dict[str, Any]:
    return {option.value: value} if option.value else {}


def extensions_again(run: Run) -> tuple[Extension, ...]:
    """Return the extensions that a run had, as far as there are options for them."""
    had = logged_extensions(run)
    return tuple([OPTIONS[name].make(logged.get("settings", {})) for name, logged in had.items() if name in OPTIONS])
