"""The options that the commands for workflows share."""

from __future__ import annotations

from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace

from agentnb.cli.command import argument, file, text_of
from agentnb.errors import SettingsError
from agentnb.models.destination import read_destination
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


def _destination(text: str) -> str:
    try:
        return str(read_destination(text))
    except SettingsError as error:
        raise ArgumentTypeError(f"{error.what}. {error.hint}") from None


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
GATES = argument(
    "--gate",
    metavar="MODULE:NAME",
    action="append",
    default=[],
    type=text_of,
    help="a function gate(call, run) that allows or denies a call of an agent, or asks; repeatable",
)
ALLOW_URL = argument(
    "--allow-url",
    metavar="URL[&key=NAME]",
    action="append",
    default=[],
    dest="allow_urls",
    type=_destination,
    help="where models may be that the file or the log names, besides their provider's own server and this machine, and the "
    "variable whose key goes there, such as 'https://models.example.org&key=MY_KEY'; repeatable",
)
STRICT = argument("--strict", action="store_true", help="warnings are problems too")
TRUST_LOG = argument(
    "--trust-log",
    action=BooleanOptionalAction,
    default=None,
    help="whether a log that your agentnb did not write counts: what it says was approved, allowed and set; else you are asked",
)
BUDGET = argument("--budget", metavar="USD", type=_budget, help="what the run may cost, such as 0.5, instead of the file's")
APPROVE = argument("--approve", metavar="MODE", type=_mode, help=APPROVE_HELP)


def options_again(given: Namespace) -> list[str]:
    """Return the options of a command with the same tools, gates, model and allowed URLs."""
    named = {"--tools": given.tools, "--gate": given.gate, "-m": [given.model] if given.model else []}
    named["--allow-url"] = given.allow_urls
    return [word for option, values in named.items() for value in values for word in (option, value)]
