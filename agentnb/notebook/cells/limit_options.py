"""Cell options that limit a run: its tools, its spending, its requests, and its unattended actions."""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from collections.abc import Callable
from typing import Any, TypeVar

from IPython.core.magic_arguments import argument

from agentnb.policies.run_limits import LIMITS
from agentnb.session.option_defaults import APPROVE_HELP, RULE_HELP, Reader, approval_mode, argument_type, on_limit

F = TypeVar("F", bound=Callable[..., Any])


def _with_none(read: Reader) -> Reader:
    """Adapt a reader to the parser so that ``none`` cancels the session's default limit."""
    word = argument_type(read)
    return lambda text: None if text.lower() == "none" else word(text)


OPTIONS: dict[str, dict[str, Any]] = {
    **{
        limit.option: {
            "metavar": limit.metavar,
            "type": int if limit.is_required else _with_none(limit.read),
            "help": limit.help,
        }
        for limit in LIMITS.values()
    },
    "--unpriced": {
        "action": "store_true",
        "help": "run even if the model's price is unknown; its calls count as $0",
    },
    "--on-limit": {
        "metavar": "WHAT",
        "type": argument_type(on_limit),
        "help": "at a limit: stop (default), final_answer (one more reply, without tools), or raise an error",
    },
    "--history": {
        "metavar": "NAME",
        "help": "how much of a long conversation is sent: auto (default), documented, full, or a variable that holds a History",
    },
    "--no-instructions": {
        "dest": "instructions",
        "action": "store_false",
        "help": "leave out the repository's CLAUDE.md, AGENT.md or AGENTS.md",
    },
}
"""Parser arguments for each option. Options that are not typed come from `%agent defaults`, under the same names."""


def run_options(magic: F) -> F:
    """Add all of these options to a magic."""
    for option in reversed(OPTIONS):
        magic = run_option(option)(magic)
    return magic


def run_option(option: str) -> Callable[[F], F]:
    """Return a decorator that adds one of these options to a magic."""
    added: Callable[[F], F] = argument(option, default=SUPPRESS, **OPTIONS[option])
    return added


def approve_option(magic: F) -> F:
    """Add the options ``--approve`` and ``--rule`` to a magic."""
    rule = _repeatable("--rule", "RULE=VERDICT", "rules", RULE_HELP)
    added: F = argument("--approve", metavar="MODE", type=argument_type(approval_mode), help=APPROVE_HELP)(rule(magic))
    return added


def tools_option(description: str | None = None) -> Callable[[F], F]:
    """Return a decorator that adds the option ``--tools`` to a magic."""
    added: Callable[[F], F] = argument("-t", "--tools", metavar="TOOL", action="append", nargs="+", help=description)
    return added


def allow_url_option(magic: F) -> F:
    """Add the option ``--allow-url`` to a magic."""
    description = (
        "an address that models from a file or log may use, besides their provider's server and this machine, with the "
        "variable that holds its key: https://models.example.org&key=MY_KEY; repeatable"
    )
    added: F = _repeatable("--allow-url", "URL", "allow_urls", description)(magic)
    return added


def _repeatable(option: str, metavar: str, name: str, help_text: str) -> Callable[[Any], Any]:
    """Return a decorator that adds a repeatable option. Its text may be quoted."""
    arguments = {"metavar": metavar, "action": "append", "default": [], "dest": name, "help": help_text}
    return argument(option, type=lambda text: text.strip("\"'"), **arguments)


def typed_settings(options: Namespace) -> dict[str, Any]:
    """Return the typed options as settings of an agent; the history remains a name."""
    names = [arguments.get("dest", option[2:].replace("-", "_")) for option, arguments in OPTIONS.items()]
    return {name: getattr(options, name) for name in names if hasattr(options, name)}
