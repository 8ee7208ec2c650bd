"""The options of ``%%agent`` that extend the agent, such as with plans: one row for each extension of another room."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from IPython.core.magic_arguments import argument

from agentnb.agent.extension import Extension, logged_extensions
from agentnb.detect.run import Run

F = TypeVar("F", bound=Callable[..., Any])


class ExtensionOption(NamedTuple):
    """An option without a value that extends the agent of a cell."""

    help: str
    make: Callable[[Mapping[str, Any]], Extension]
    """Returns the extension by its logged settings, which are empty for a new run."""


OPTIONS: dict[str, ExtensionOption] = {}
"""The options by the names of their extensions: ``plans`` is typed ``--plans``."""


def extension_options(magic: F) -> F:
    """Add these options to a magic."""
    for name, option in reversed(OPTIONS.items()):
        magic = argument(f"--{name}", action="store_true", help=option.help)(magic)
    return magic


def chosen_extensions(options: Namespace) -> tuple[Extension, ...]:
    """Return the extensions whose options were given."""
    return tuple([option.make({}) for name, option in OPTIONS.items() if getattr(options, name.replace("-", "_"), False)])


def extensions_again(run: Run) -> tuple[Extension, ...]:
    """Return the extensions that a run had, as far as there are options for them."""
    had = logged_extensions(run)
    return tuple([OPTIONS[name].make(logged.get("settings", {})) for name, logged in had.items() if name in OPTIONS])
