"""The commands by name. A new one is a function and a row."""

from __future__ import annotations

from agentnb.cli.answer import ANSWER
from agentnb.cli.command import Command
from agentnb.cli.execute import EXEC
from agentnb.cli.recorded import RECORDED
from agentnb.cli.recover import RECOVER
from agentnb.cli.schema import SCHEMA
from agentnb.cli.validate import VALIDATE

COMMANDS: dict[str, Command] = {
    **RECORDED,
    "exec": EXEC,
    "validate": VALIDATE,
    "answer": ANSWER,
    "recover": RECOVER,
    "schema": SCHEMA,
}
