"""Commands by name. To add one, write a function and a row."""

from __future__ import annotations

from agentnb.cli.command import Command
from agentnb.cli.commands.accept import ACCEPT
from agentnb.cli.commands.answer import ANSWER
from agentnb.cli.commands.execute import EXEC
from agentnb.cli.commands.experiment import EXPERIMENT
from agentnb.cli.commands.login import LOGIN
from agentnb.cli.commands.recorded_runs import RECORDED
from agentnb.cli.commands.recover import RECOVER
from agentnb.cli.commands.schema import SCHEMA
from agentnb.cli.commands.undo import UNDO
from agentnb.cli.commands.validate import VALIDATE

COMMANDS: dict[str, Command] = {
    **RECORDED,
    "exec": EXEC,
    "validate": VALIDATE,
    "experiment": EXPERIMENT,
    "answer": ANSWER,
    "recover": RECOVER,
    "undo": UNDO,
    "accept": ACCEPT,
    "login": LOGIN,
    "schema": SCHEMA,
}
