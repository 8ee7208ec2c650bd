"""The result of a workflow that names it: ``output:``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from snapshots import Snapshots
from workflow_examples import played

from agentnb import Run, Store, Workflow, expect, recover
from agentnb.core.log.work_events import ResultGiven
from agentnb.display.card.html import run_html
from agentnb.display.card.text import run_text
from agentnb.errors import WorkflowProblems

STEPS = """
agents:
  writer: {instruction: Write.}
  judge: {instruction: Judge.}
workflow:
  - {id: draft, type: agent, name: writer}
  - {id: check, type: agent, name: judge}
  - id: fine
    type: condition
    condition: "{{ $steps.check.output.ok }}"
    false: {id: mended, type: agent, name: writer}
  - id: both
    type: parallel
    steps:
      - {id: left, type: tool, name: half}
      - {id: right, type: tool, name: half}
  - {id: last, type: agent, name: judge}
"""
FINE = {"draft": ["A draft"], "check": ['{"ok": true, "note": "good"}'], "last": ["The end"], "mended": ["Mended"]}


async def half() -> list[int]:
    """Return a half."""
    return [1, 2]


def named(output: str, replies: dict[str, Any] = FINE, **settings: Any) -> Run:
    return played(Workflow.from_yaml(f"output: {output}\n{STEPS}", tools=[half], **settings), "", replies)


def problems(output: str, **given: Any) -> list[tuple[int, str]]:
    with pytest.raises(WorkflowProblems) as caught:
        Workflow.from_yaml(f"output: {output}\n{STEPS}", tools=[half], **given)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_result_is_the_output_expression_or_the_last_output(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, str]] = {
        "draft": ("A draft", "A draft"),
        '"{{ $steps.draft.output }}"': ("A draft", "A draft"),
        '"{{ $steps.check.output.ok }}"': (True, "true"),
        '"Draft: {{ $steps.draft.output }}"': ("Draft: A draft", "Draft: A draft"),
        "fine": (True, "true"),
        "both": ({"left": [1, 2], "right": [1, 2]}, "[1,2]\n\n[1,2]"),
        '"{{ $steps.both.outputs.left.output }}"': ([1, 2], "[1,2]"),
        "[mended, draft]": ("A draft", "A draft"),
        '["{{ $steps.mended.output }}", "{{ $steps.last.output }}"]': ("The end", "The end"),
        "null": (None, "The end"),
    }
    for output, (value, text) in cases.items():
        with subtests.test(output):
            run = named(output)
            assert (run.status, run.output, run.text, list(run.warnings)) == ("completed", value, text, [])
            again = Run.from_events(run.events)
            assert (again.output, again.text) == (value, text)
    expect(named('"{{ $steps.check.output.ok }}"'), "output == true", 'text == "true"')


def test_card_shows_the_result_once_as_the_answer() -> None:
    run = named("draft")
    assert run_text(run).splitlines()[1] == "A draft" and run_text(run).count("A draft") == 1
    assert "<p>A draft</p>" in run_html(run) and "result:" not in run_html(run)


def test_step_without_output_has_no_result_and_warns(subtests: pytest.Subtests) -> None:
    for output, expected in {
        "mended": "output: the step mended has no output. The result is the output of the last step",
        '"{{ $steps.mended.output }}"': "{{ $steps.mended.output }}: $steps has no output for mended",
    }.items():
        with subtests.test(output):
            run = named(output)
            assert (run.status, run.text, run.output) == ("completed", "The end", None)
            (warning,) = run.warnings
            assert expected in warning
    mended = named("mended", {**FINE, "check": ['{"ok": false}']})
    assert (mended.text, list(mended.warnings)) == ("Mended", [])


def test_unreadable_result_fails_the_run_and_keeps_step_outputs() -> None:
    run = named('"{{ $steps.check.output.score }}"')
    assert (run.status, run.stop_reason, run.text) == ("failed", "step_failed", "The end")
    assert run.error is not None and "output: {{ $steps.check.output.score }}" in run.error.message
    assert "has no score" in run.error.message and run.steps["draft"]["output"] == "A draft"


def test_names_in_the_output_key_are_checked_before_running(subtests: pytest.Subtests) -> None:
    for output, expected in {
        "drafts": "workflow: output: there is no step drafts",
        "[draft, lost]": "workflow: output: there is no step lost",
        "left": "workflow: output: left is in the parallel block both",
        '"{{ $steps.drafts.output }}"': "workflow: output: {{ $steps.drafts.output }}: there is no step drafts",
        '"{{ $steps.draft }}"': "$steps.draft is a step, not a value",
        '"{{ $item }}"': "$item is not available here",
        '"{{ $steps.draft.output"': "is not closed",
        "{a: draft}": "output must be a string or a list of strings, not a mapping",
        "[]": "workflow: output is empty",
        '" "': "workflow: output is empty",
    }.items():
        with subtests.test(output):
            ((line, message),) = problems(output)
            assert line == 1 and expected in message
    assert "free text" in problems('"{{ $steps.draft.output.title }}"', strict=True)[0][1]


def test_output_and_loop_limit_are_accepted_once_at_either_level() -> None:
    steps = "steps: [{id: a, type: tool, name: half}, {id: b, type: tool, name: half}]"
    for text in (
        f"output: a\nmax_loop_iterations: 7\nworkflow: {{{steps}}}",
        f"workflow: {{{steps}, output: a, max_loop_iterations: 7}}",
    ):
        spec = Workflow.from_yaml(text + "\n").spec
        assert (spec.output, spec.max_loop_iterations) == (("a",), 7)
    with pytest.raises(WorkflowProblems, match="output is already set for the whole file"):
        Workflow.from_yaml(f"output: a\nworkflow: {{{steps}, output: b}}\n")


def test_output_of_a_workflow_step_is_the_nested_result(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(f'output: "{{{{ $steps.both.outputs.left.output }}}}"\n{STEPS}')
    outer = tmp_path / "outer.yaml"
    outer.write_text(
        "workflow:\n  - {id: inner, type: workflow, file: inner.yaml}\n"
        '  - {id: sum, type: tool, name: add, args: {numbers: "{{ $steps.inner.output }}"}}\n'
    )

    async def add(numbers: list[int]) -> int:
        """Add."""
        return sum(numbers)

    run = played(Workflow.from_yaml(outer, tools=[half, add]), "", FINE)
    assert (run.steps["inner"]["output"], run.text) == ([1, 2], "3")


def test_recovered_run_has_the_same_result_and_logs_it_once(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "whole")
    text = 'output: ["{{ $steps.none.output }}", "{{ $steps.a.output }}"]\n' + (
        "workflow:\n  - {id: a, type: tool, name: half}\n  - {id: b, type: tool, name: other}\n"
        "  - {type: condition, condition: false, true: {id: none, type: tool, name: half}}\n"
    )

    async def other() -> str:
        """Return another."""
        return "other"

    whole = asyncio.run(Workflow.from_yaml(text, tools=[half, other]).run(store=store, show=False))
    assert (whole.output, whole.text) == ([1, 2], "[1,2]")
    for folder in store.kept[:-1]:
        run = asyncio.run(recover(whole.id, tools=[half, other], store=Store(folder)))
        assert (run.output, run.text, run.status) == ([1, 2], "[1,2]", "completed"), folder.name
        assert sum(isinstance(event, ResultGiven) for event in run.events) == 1
