"""Warns of templates in the form of the other kind of file: they are text there, and were probably meant as templates."""

from __future__ import annotations

import re

from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import ScalarNode
from agentnb.workflow.templates.references import pieces

OTHER_FORM = "W_OTHER_FORM"
"""The code of these warnings."""
IN_WORKFLOWS = "A workflow reads {{ $... }}, such as {{ $steps.ID.output }}; ${...} is for task files"
IN_TASK_FILES = "A task file reads ${...}, such as ${result}; {{ ... }} is for workflows"
_OF_TASK_FILES = re.compile(r"\$\{[^{}\n]+\}")
_OF_WORKFLOWS = re.compile(r"\{\{[^{}\n]+\}\}")


def warn_in_workflow(node: ScalarNode, where: str, problems: Problems) -> None:
    """Warn of ``${...}`` in a text of a workflow, outside of its templates. Raises `ExpressionError` if one cannot be read."""
    if "${" in node.text:
        outside = (piece for piece in pieces(node.text) if isinstance(piece, str))
        found = next((match for piece in outside if (match := _OF_TASK_FILES.search(piece))), None)
        _warn(found, node, where, problems, IN_WORKFLOWS)


def warn_in_task_file(node: ScalarNode, where: str, problems: Problems) -> None:
    """Warn of ``{{ ... }}`` in a text of a task file."""
    found = _OF_WORKFLOWS.search(node.text)
    _warn(found, node, where, problems, IN_TASK_FILES)


def _warn(found: re.Match[str] | None, node: ScalarNode, where: str, problems: Problems, hint: str) -> None:
    if found is not None:
        line = node.line_of(node.text.find(found[0]))
        problems.warn(line, f"{where}: {found[0][:80]} stays as it is written", hint, code=OTHER_FORM)
