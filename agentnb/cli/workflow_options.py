"""Options shared by the commands that run workflows."""

from __future__ import annotations

from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from functools import partial

from agentnb.cli.command import argument, file, text_of
from agentnb.errors import SettingsError
from agentnb.models.destinations.destination import read_destination
from agentnb.policies.run_limits import LIMITS
from agentnb.session.option_defaults import APPROVE_HELP, RULE_HELP, approval_mode, argument_type


def _destination(text: str) -> str:
    try:
        return str(read_destination(text))
    except SettingsError as error:
        raise ArgumentTypeError(f"{error.what}. {error.hint}") from None


_repeatable = partial(argument, action="append", default=[])

FILE = argument(
    "file",
    metavar="FILE",
    type=file,
    help="a YAML file with workflow: or agents:, a task file, with stage:, or a plan in YAML or JSON, with steps:; or planner",
)
INPUTS = argument("-i", "--inputs", metavar="JSON|FILE", type=text_of, help="inputs by name: JSON, or a JSON or YAML file")
MODEL = argument("-m", "--model", metavar="MODEL", type=text_of, help="the default model of agents: provider:model")
TOOLS = _repeatable(
    "-t",
    "--tools",
    metavar="MODULE:NAME",
    type=text_of,
    help="tools that agents, steps and plans name, separated by commas: functions (of modules in this folder, too), built-in "
    "tools and groups, such as files, and MCP servers, such as mcp:clock",
)
GATES = _repeatable(
    "--gate",
    metavar="MODULE:NAME",
    type=text_of,
    help="a function gate(call, run) that allows or denies an agent's call, or asks; repeatable",
)
ALLOW_URL = _repeatable(
    "--allow-url",
    metavar="URL[&key=NAME]",
    dest="allow_urls",
    type=_destination,
    help="an address that models from the file or log may use, besides their provider's server and this machine, with the "
    "variable that holds its key, such as 'https://models.example.org&key=MY_KEY'; repeatable",
)
MCP = _repeatable(
    "--mcp",
    metavar="FILE",
    type=text_of,
    help="a file of MCP servers, yours or another program's; its tools can be named, such as -t mcp:clock. You confirm "
    "the file before its servers start, the first time and after each change; repeatable",
)
STRICT = argument("--strict", action="store_true", help="treat warnings as errors")
TRUST_LOG = argument(
    "--trust-log",
    action=BooleanOptionalAction,
    default=None,
    help="whether to accept approvals, answers and settings of a log that your agentnb did not write; by default you are asked",
)
NO_INPUT = argument(
    "--no-input",
    action="store_true",
    help="do not ask at the terminal: exit with code 4 if an answer is needed",
)
RESUME_OPTIONS = (TOOLS, MCP, GATES, MODEL, TRUST_LOG, ALLOW_URL, NO_INPUT)
"""Options of the commands that resume a run."""
BUDGET = argument(
    "--budget",
    metavar="USD",
    type=argument_type(LIMITS["budget"].read),
    help="budget for the run, such as 0.5, instead of the file's",
)
UNPRICED = argument(
    "--unpriced", action="store_true", help="run even if the price of a model is unknown; its calls count as $0"
)
RULES = _repeatable("--rule", metavar="RULE=VERDICT", dest="rules", type=text_of, help=RULE_HELP)
APPROVE = argument("--approve", metavar="MODE", type=argument_type(approval_mode), help=APPROVE_HELP)


def options_again(args: Namespace) -> list[str]:
    """Return the options that give a command the same tools, server files, gates, model and allowed URLs."""
    model = [args.model] if args.model else []
    options = {"--tools": args.tools, "--mcp": args.mcp, "--gate": args.gate, "-m": model, "--allow-url": args.allow_urls}
    return [word for option, values in options.items() for value in values for word in (option, value)]
