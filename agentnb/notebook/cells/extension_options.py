"""The options of ``%%agent`` that extend the agent, such as plans, with one row for each extension."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from IPython.core.magic_arguments import argument

from agentnb.agent.detection import NAME as DETECTION
from agentnb.agent.detection import detection
from agentnb.agent.extension import Extension, logged_extensions
from agentnb.chat.logged_context import context_again
from agentnb.chat.plans.known_drafts import EXTENSION as PLANS
from agentnb.chat.plans.plans_extension import plans_of
from agentnb.detect.run import Run
from agentnb.rerun.expect import EXTENSION as EXPECT
from agentnb.rerun.expect import expectations_extension

F = TypeVar("F", bound=Callable[..., Any])


class ExtensionOption(NamedTuple):
    """An option that adds an extension to a cell's agent."""

    help: str
    make: Callable[[Mapping[str, Any]], Extension]
    """Returns the extension for its settings: those in a log or, for a new run, those from ``settings``."""
    metavar: str = ""
    """Placeholder for its values; empty for a flag. Several values may be given, and the option may be repeated."""
    settings: Callable[[list[str]], Mapping[str, Any]] = lambda values: {}
    """Returns the settings for the typed values, without their quotes."""


OPTIONS: dict[str, ExtensionOption] = {
    DETECTION: ExtensionOption(
        "run these detectors and act on their findings: default, openhands, gemini, ... (docs/detect.md)",
        lambda settings: detection(settings["preset"]),
        "NAME",
        lambda presets: {"preset": presets[0] if len(presets) == 1 else presets},
    ),
    PLANS: ExtensionOption(
        "let the model make plans: run at once, drafted for you, or reviewed (docs/chat.md)",
        plans_of,
    ),
    EXPECT: ExtensionOption(
        'conditions for the finished run, such as "loops == 0" "todos_closed"; if one fails, the cell raises; repeatable',
        lambda settings: expectations_extension(settings["texts"]),
        "TEXT",
        lambda texts: {"texts": texts},
    ),
}
"""Options by the name of their extension: ``plans`` is typed as ``--plans``."""


def extension_options(magic: F) -> F:
    """Add all of these options to a magic."""
    for name in reversed(OPTIONS):
        magic = extension_option(name)(magic)
    return magic


def extension_option(name: str) -> Callable[[F], F]:
    """Return a decorator that adds an extension's option to a magic."""
    option = OPTIONS[name]
    arguments: dict[str, Any] = {"action": "store_true"}
    if option.metavar:
        arguments = {"action": "append", "nargs": "+", "metavar": option.metavar, "default": []}
    added: Callable[[F], F] = argument(f"--{name}", help=option.help, **arguments)
    return added


def chosen_extensions(options: Namespace) -> tuple[Extension, ...]:
    """Return the extensions whose options were typed."""
    typed = ((option, getattr(options, name.replace("-", "_"), None)) for name, option in OPTIONS.items())
    return tuple([option.make(option.settings(_texts(values))) for option, values in typed if values])


def _texts(values: Any) -> list[str]:
    """Return the values of all options with the same name; empty for a flag."""
    return [_unquote(value) for group in values for value in group] if isinstance(values, list) else []


def _unquote(text: str) -> str:
    """Return the text without its enclosing quotation marks; inner ones are kept."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def extensions_again(run: Run) -> tuple[Extension, ...]:
    """Return the extensions of an earlier run that have an option."""
    logged_settings = logged_extensions(run)
    return (
        *context_again(run),
        *[OPTIONS[name].make(logged.get("settings", {})) for name, logged in logged_settings.items() if name in OPTIONS],
    )
