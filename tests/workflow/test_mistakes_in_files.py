"""Errors for common mistakes in files name the cause."""

from __future__ import annotations

import pytest

from agentnb import Workflow
from agentnb.errors import WorkflowProblems

MAP = "workflow:\n  - id: a\n    type: map\n    over: OVER\n    step: {type: tool, name: work}\n"
UNENDED = "This is not YAML: while parsing a block collection, expected <block end>, but found"
DEEP = "workflow:\n  - id: a\n    type: tool\n    name: work\n    args:\n      a: 1\n        b: 2\n"


def test_yaml_error_message_explains_the_cause(subtests: pytest.Subtests) -> None:
    for text, expected in {
        DEEP: "line 7: This is not YAML: mapping values are not allowed here. Line 7 is indented deeper than line 6",
        "workflow:\n  - id: a\n   type: tool\n": f"line 3: {UNENDED} '<block mapping start>'. Indent line 3 like the keys",
        "workflow:\n  - id: a\n  type: tool\n": f"line 3: {UNENDED} '?'. Indent line 3 like the keys",
        "workflow:\n  - id: 'a' b\n": f"line 2: {UNENDED.replace('collection', 'mapping')} '<scalar>'. Put a string that",
        "workflow:\n  - id: a: b\n": "line 2: This is not YAML: mapping values are not allowed here. Put a string that",
        MAP.replace("OVER", "\"{{ ['A1'] }}\""): (
            "line 4: workflow step[0]: over: write a list without braces. Write over: ['A1']"
        ),
    }.items():
        with subtests.test(expected), pytest.raises(WorkflowProblems) as raised:
            Workflow.from_yaml(text)
        assert str(raised.value).startswith(expected) and len(raised.value.problems) == 1
