"""The body of an ``%%experiment`` cell: YAML, or Python that ends with an `Experiment`."""

from __future__ import annotations

import ast
from typing import Any

from agentnb.display.texts.notebook_commands import NOTEBOOK
from agentnb.errors import SettingsError
from agentnb.experiments.experiment import Experiment
from agentnb.experiments.form.yaml_reader import is_yaml_experiment, read_experiment
from agentnb.guidance.sets import GuidanceSet

EXAMPLE = "Write tasks: and variants: in YAML, or Python that ends in Experiment(...)"


def experiment_of_cell(shell: Any, text: str, sets: dict[str, GuidanceSet]) -> Experiment:
    """Return the experiment that a cell declares. YAML is only parsed; Python is executed like the code of any other cell."""
    if not text.strip():
        raise SettingsError("This cell has no experiment", EXAMPLE)
    lines = f"\n{text}\n"  # with a line in place of the magic's, so that problems have the line numbers of the cell
    if is_yaml_experiment(text):
        return read_experiment(lines, shell.user_ns, sets, commands=NOTEBOOK)
    value = _execute(shell, text)
    if not isinstance(value, Experiment):
        last = "nothing" if value is None else f"a value of type {type(value).__name__}"
        raise SettingsError(f"The cell must end in an Experiment, got {last}", EXAMPLE)
    return value


def _execute(shell: Any, text: str) -> Any:
    """Execute the code in the notebook's namespace, and return the value of its last expression."""
    code = shell.transform_cell(text)
    name = shell.compile.cache(code, shell.execution_count, raw_code=text)  # so that functions of the cell have a source
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), shell.user_ns)  # the person's own code, as in any cell
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), shell.user_ns)  # likewise
