"""Warns of templates in the form of the other kind of file: they are text there, and were probably meant as templates."""

from __future__ import annotations

import re

from agentnb.core.expressions import OF_TASKS, OF_WORKFLOWS, Spelling, pieces
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import ScalarNode

OTHER_FORM = "W_OTHER_FORM"
"""The code of these warnings."""
_OTHERS = {
    OF_WORKFLOWS: (
        re.compile(r"\$\{[^{}\n]+\}"),
        "A workflow reads {{ $... }}, such as {{ $steps.ID.output }}; ${...} is for task files",
    ),
    OF_TASKS: (
        re.compile(r"\{\{[^{}\n]+\}\}"),
        "A task file reads ${...}, such as ${result}; {{ ... }} is for workflows",
    ),
}
"""By the spelling of a file: expressions in the other one, and what to say of them."""


def warn_of_other_form(node: ScalarNode, where: str, problems: Problems, own: Spelling) -> None:
    """Warn of expressions in the other spelling, outside of the file's own. Raises `ExpressionError` for one that is none."""
    pattern, hint = _OTHERS[own]
    outside = (piece for piece in pieces(node.text, own) if isinstance(piece, str)) if pattern.search(node.text) else ()
    if (found := next(filter(None, map(pattern.search, outside)), None)) is not None:
        line = node.line_of(node.text.find(found[0]))
        problems.warn(line, f"{where}: {found[0][:80]} stays as it is written", hint, code=OTHER_FORM)
