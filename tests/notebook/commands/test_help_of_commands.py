"""The help of ``%agent`` and of its commands, as IPython shows it."""

from __future__ import annotations

import pytest
from cells_in_ipython import in_notebook

from agentnb.notebook.commands import COMMANDS
from agentnb.notebook.ipython_extension import command_help
from agentnb.notebook.magics import AgentMagics


def test_help_of_the_magic_names_every_command() -> None:
    named = (AgentMagics.agent_line.__doc__ or "").replace(",", " ").replace(".", " ").split()
    assert COMMANDS.keys() <= {*named}


def test_question_mark_asks_for_the_help_of_a_command(subtests: pytest.Subtests) -> None:
    for line in ("%agent permissions?", "%agent permissions ?\n", "%agent permissions??\n"):
        with subtests.test(line):
            assert command_help([line]) == ["%agent permissions --help\n"]
    for line in ("%agent say Why?", "%agent?", "%%agent?\n", "print?", "%agent answer\n"):
        with subtests.test(line):
            assert command_help([line]) == [line]


def test_every_command_has_help() -> None:
    shown = in_notebook(*[f"%agent {name} --help" for name in COMMANDS], "%agent permissions?")
    assert all(f"%agent {name} " in shown for name in COMMANDS), shown
    assert shown.count("A rule is the name of a tool") == 2 and "Error" not in shown, shown
