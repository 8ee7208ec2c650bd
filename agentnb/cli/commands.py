"""The commands by name. A new one is a function and a row."""

from __future__ import annotations

from agentnb.cli.command import Command
from agentnb.cli.recorded import RECORDED

COMMANDS: dict[str, Command] = {**RECORDED}
