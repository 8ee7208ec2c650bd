"""The options that the commands for workflows share."""

from __future__ import annotations

from argparse import ArgumentTypeError

from agentnb.cli.command import argument, file, text_of
from agentnb.policies.limits import LIMITS
from agentnb.session.defaults import APPROVE_HELP, approval_mode


def _budget(text: str) -> float:
    try:
        return float(LIMITS["budget"].read(text))
    except ValueError as error:
        raise ArgumentTypeError(f"{error}, got {text!r}") from None


def _mode(text: str) -> str:
    try:
        return approval_mode(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{error}, got {text!r}") from None


FILE = argument("file", metavar="FILE", type=file, help="a YAML file with workflow: in it, or a task file, with stage:")
INPUTS = argument("-i", "--inputs", metavar="JSON|FILE", type=text_of, help="inputs by name: JSON, or a JSON or YAML file")
MODEL = argument("-m", "--model", metavar="MODEL", type=text_of, help="the model of agents that name none: provider:model")
TOOLS = argument(
    "-t",
    "--tools",
    metavar="MODULE:NAME",
    action="append",
    default=[],
    type=text_of,
    help="functions that agents and tool steps name, joined with commas; modules are searched for in this folder too",
)
STRICT = argument("--strict", action="store_true", help="warnings are problems too")
BUDGET = argument("--budget", metavar="USD", type=_budget, help="what the run may cost, such as 0.5, instead of the file's")
APPROVE = argument("--approve", metavar="MODE", type=_mode, help=APPROVE_HELP)


def options_again(tools: list[str], model: str | None) -> list[str]:
    """Return the options of a command with these tools and this model."""
    return [*(word for name in tools for word in ("--tools", name)), *(["-m", model] if model else [])]
