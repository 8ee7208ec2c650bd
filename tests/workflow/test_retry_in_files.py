"""``retry`` and ``timeout`` of a step in files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentnb import Workflow
from agentnb.display.card.text import run_text
from agentnb.errors import WorkflowProblems
from agentnb.workflow.files.workflow_schema import workflow_schema

STEP = "workflow:\n  - {id: a, type: tool, name: work, KEYS}\n"


def fails_twice() -> Callable[[], str]:
    calls: list[int] = []

    def work() -> str:
        """Fail twice."""
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("not yet")
        return "done"

    return work


def test_max_retries_excludes_the_first_attempt(subtests: pytest.Subtests) -> None:
    for key in ("max_retries", "max_attempts"):
        with subtests.test(key):
            text = STEP.replace("KEYS", f"retry: {{{key}: 2, initial_delay_seconds: 0}}")
            run = Workflow.from_yaml(text, tools=[fails_twice()]).run_sync(show=False)
            assert (run.text, run.step_records["a"].attempts) == ("done", 3)
            assert "3 attempts, 2 retries" in run_text(run)


def test_invalid_retries_and_timeouts_are_refused_with_an_example(subtests: pytest.Subtests) -> None:
    for keys, expected in {
        "retry: 3": 'retry must be a mapping, not "3". Write retry: {max_retries: 2}',
        "timeout: 5m": 'timeout must be a number above 0, not "5m". Write seconds, such as timeout: 300',
        "retry: {max_retries: 1, max_attempts: 1}": "max_retries and max_attempts mean the same: the attempts after the first",
        "retry: {max_retry: 1}": 'unknown key "max_retry". Did you mean max_retries?',
    }.items():
        with subtests.test(keys), pytest.raises(WorkflowProblems) as raised:
            Workflow.from_yaml(STEP.replace("KEYS", keys))
        assert expected in str(raised.value)


def test_schema_of_files_has_max_retries() -> None:
    schema = workflow_schema()
    assert {"max_retries", "max_attempts"} <= set(schema["$defs"]["retry"]["properties"])
