"""The tool group ``notebook``."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.tools.builtin.group import BuiltinTool, ToolGroup
from agentnb.tools.builtin.notebook.inspection import inspect_variables, read_cells
from agentnb.tools.builtin.notebook.kernel import the_kernel
from agentnb.tools.builtin.notebook.running import run_python
from agentnb.tools.builtin.notebook.thinking import think


class KernelTool(BuiltinTool):
    """A tool that needs the kernel of a notebook."""

    def check_usable(self) -> None:
        """Raise `SettingsError` outside a notebook."""
        the_kernel(self.spec.name)


@dataclass(frozen=True)
class Notebook(ToolGroup):
    """The tools ``inspect_variables``, ``read_cells``, ``run_python`` and ``think``. They have no settings."""

    word = "notebook"
    tool_names = ("inspect_variables", "read_cells", "run_python", "think")

    def _make_tools(self) -> tuple[BuiltinTool, ...]:
        return (
            KernelTool(self, inspect_variables, effects=("read",)),
            KernelTool(self, read_cells, effects=("read",)),
            KernelTool(self, run_python, flag="bash", effects=("execute",)),
            BuiltinTool(self, think, effects=(), role="planning"),
        )
