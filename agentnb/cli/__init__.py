"""The command line: ``agentnb runs``, ``show``, ``table``, ``replay``, ``exec``, ``validate``, ``answer`` and
``recover``.

A command is a function from its arguments to the text for standard output, and a row of `COMMANDS`. Text goes to standard
output, one line about an error to standard error. The exit code is 0, 2 for wrong usage, and 1 for every other failure.
"""

from agentnb.cli.command_table import COMMANDS
from agentnb.cli.program import main

__all__ = ["COMMANDS", "main"]
