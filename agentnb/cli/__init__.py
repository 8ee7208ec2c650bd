"""The command line: ``agentnb runs``, ``show``, ``table``, ``replay``, ``exec``, ``validate``, ``answer`` and
``recover``.

A command is a row of `COMMANDS`, with a function that takes the arguments and returns the text for standard output. An error is
one line on standard error. The exit code is 0 on success, 2 for wrong usage, and 1 for any other failure.
"""

from agentnb.cli.command_table import COMMANDS
from agentnb.cli.program import main

__all__ = ["COMMANDS", "main"]
