"""What a kernel has from the first use of agentnb on: its session, the runs of its cells, the magics, completion."""

from __future__ import annotations

from typing import Any

from IPython.core.completer import CompletionContext, SimpleMatcherResult
from IPython.core.interactiveshell import InteractiveShell

from agentnb.notebook.card.replay_button import replay_buttons
from agentnb.notebook.cells.cell_runs import cell_runs
from agentnb.notebook.completion import matcher
from agentnb.notebook.experiments.magic import ExperimentMagics
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.workflow_magic import WorkflowMagics
from agentnb.session.session import Session


class Bench:
    """The session of a kernel, kept when the extension is loaded again: its runs continue."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._is_open = False
        self.session = Session()
        self.runs = cell_runs(shell, self.session)
        cells = {
            "%%agent": AgentMagics.agent_cell,
            "%%workflow": WorkflowMagics.workflow_cell,
            "%%plan": WorkflowMagics.plan_cell,
            "%%experiment": ExperimentMagics.experiment_cell,
        }
        self._matcher = matcher(shell, self.session, {magic: _long_options(cell) for magic, cell in cells.items()})

    def open(self, notebook: str) -> None:
        """Register the magics, in the place of those that are deferred; once. ``notebook``: its name, empty if not known."""
        if not self._is_open:
            self._is_open = True
            self.session.notebook = notebook
            self._shell.register_magics(
                *[magics(self._shell, self.session) for magics in (AgentMagics, WorkflowMagics, ExperimentMagics)]
            )

    def close(self) -> None:
        """Take the magics for unregistered, and let the buttons of replays do nothing."""
        self._is_open = False
        replay_buttons().close()

    def complete(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return the words that fit into a line of a magic."""
        return self._matcher(context)


def _long_options(cell_magic: Any) -> list[str]:
    """Return the long options of a cell magic, from the parser that `magic_arguments` gave it."""
    return [option for action in cell_magic.parser._actions for option in action.option_strings if option.startswith("--")]
