"""The program ``agentnb``: parses the command line, runs the command, and reports each error in one line."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from agentnb.advice import Plain
from agentnb.cli.command import BROKEN_PIPE, FAILED, INTERRUPTED, INVALID, Outcome
from agentnb.cli.command_table import COMMANDS
from agentnb.cli.inputs import STDIN
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.standard_streams import complain, forget_standard_output, tell, warnings_in_a_line, write_outcome
from agentnb.cli.terminal.terminal_questions import ask, is_at_terminal
from agentnb.errors import AgentnbError, SettingsError, WorkflowProblems, suggest_names
from agentnb.models.destinations.allowed_urls import with_consent


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments (by default, those of the process), and return its exit code."""
    try:
        with warnings_in_a_line():
            return write_outcome(_run_command(list(sys.argv[1:] if argv is None else argv)))
    except BrokenPipeError:  # the reader has enough, such as `head`
        forget_standard_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except WorkflowProblems as error:
        tell(error.text_for(SHELL))
        return INVALID
    except AgentnbError as error:
        complain(error.text_for(SHELL))
        return INVALID if isinstance(error, SettingsError) else FAILED
    except OSError as error:  # such as a full disk behind standard output, or a name that is too long
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        forget_standard_output()
        return FAILED


def _run_command(argv: list[str]) -> str | Outcome:
    """Run the command."""
    if not argv:
        raise SettingsError(f"Which command? Commands: {', '.join(COMMANDS)}", "agentnb --help explains them")
    if argv[0] not in COMMANDS and not argv[0].startswith("-"):
        raise SettingsError(
            f"There is no command {argv[0]}", (*suggest_names(argv[0], COMMANDS), Plain("agentnb --help explains them"))
        )
    arguments = _parser().parse_args(argv)
    do: Callable[[], str | Outcome] = partial(arguments.do, arguments)
    is_silent = getattr(arguments, "no_input", False) or getattr(arguments, "prompt", None) == STDIN
    return with_consent(do, ask if is_at_terminal() and not is_silent else None)


class _Parser(ArgumentParser):
    """Parser that reports wrong usage in one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        """Raise `SettingsError`."""
        raise SettingsError(f"{message[:1].upper()}{message[1:]}", f"{self.prog} --help explains it")


class _CommandParser(_Parser):
    """Parser that accepts arguments before, between and after options, since a prompt may come last."""

    _is_inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments of a command."""
        if self._is_inside:
            return super().parse_known_args(args, namespace)
        self._is_inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False


def _version() -> str:
    # Imported here: the import linter would count everything that the package names for type checkers.
    return str(import_module("agentnb").__version__)


def _parser() -> ArgumentParser:
    parser = _Parser(prog="agentnb", description="Runs agent workflows and shows logged runs.")
    parser.add_argument("--version", action="version", version=f"agentnb {_version()}")
    parsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_CommandParser)
    for name, command in COMMANDS.items():
        help_text = (command.do.__doc__ or "").strip()
        examples = "examples:\n" + "\n".join(f"  {line}" for line in command.examples.splitlines())
        command_parser = parsers.add_parser(
            name, help=help_text, description=help_text, epilog=examples, formatter_class=RawDescriptionHelpFormatter
        )
        for argument in command.arguments:
            command_parser.add_argument(*argument.names, **argument.how)
        command_parser.set_defaults(do=command.do)
    return parser
