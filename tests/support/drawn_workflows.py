"""Workflows whose graphs are drawn in tests: from YAML as a person writes it, and the runs that they may have had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from run_builder import RunBuilder

from agentnb.core.log import work_events as w
from agentnb.core.log.events import RunFinished
from agentnb.detect.run import Run
from agentnb.workflow.files.workflow_reader import read_with_problems
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.workflow_spec import WorkflowSpec

LOOP = """
workflow:
  - {id: draft, type: agent, name: writer}
  - {id: enough, type: condition, condition: "{{ $steps.draft.output.words >= 5 }}", true: {goto: print}}
  - {id: expand, type: agent, name: editor}
  - goto: 0
  - {id: print, type: agent, name: printer}
"""
BRANCH = """
workflow:
  - {id: load, type: tool, name: load_table}
  - id: big
    type: condition
    condition: "{{ len($steps.load.output) > 1000 }}"
    true:
      - {id: each, type: map, over: "{{ $steps.load.output }}", step: {id: read, type: agent, name: reader}}
      - {id: merge, type: agent, name: merger}
    false:
      - {id: summary, type: agent, name: writer, on_error: {goto: report}}
  - {id: approve, type: human, ask: "Publish?", confirm: true}
  - {id: approved, type: condition, condition: "{{ $steps.approve.output }}", false: {goto: end}}
  - {id: report, type: agent, name: publisher}
"""
NESTED = """
workflow:
  - id: outer
    type: parallel
    steps:
      - {id: generator, type: agent, name: generator}
      - id: inner
        type: parallel
        steps:
          - {id: researcher, type: agent, name: researcher}
          - {id: summarizer, type: agent, name: summarizer}
  - {id: publisher, type: agent, name: publisher}
"""


def spec_of(text: str) -> WorkflowSpec:
    """The workflow of a text, whose agents are not declared."""
    return read_with_problems(text, Problems())


def started(step: str, kind: str = "agent", **fields: Any) -> tuple[type[Any], dict[str, Any]]:
    """A step that has begun."""
    return w.StepStarted, {"step": step, "step_kind": kind, **fields}


def finished(step: str, status: str = "completed", **fields: Any) -> tuple[type[Any], dict[str, Any]]:
    """A step that is over."""
    return w.StepFinished, {"step": step, "status": status, **fields}


def taken(step: str, to: str, count: int = 0) -> tuple[type[Any], dict[str, Any]]:
    """A way that a step took."""
    return w.BranchTaken, {"step": step, "to": to, "count": count}


ONCE_AROUND = (
    started("draft", agent="writer"),
    finished("draft", output="Dark."),
    started("enough", "condition"),
    finished("enough", output=False),
    taken("enough", "false"),
    started("expand", agent="editor"),
    finished("expand", output="More.", attempts=2),
    taken("goto_2", "draft", 1),
    started("draft", agent="writer"),
)
"""The loop of `LOOP`, gone round once; the first step has begun again."""


def workflow_run(text: str, facts: Sequence[tuple[type[Any], dict[str, Any]]], end: str = "") -> Run:
    """The run of a workflow, with what happened in it, and its end if it has one."""
    settings = {"workflow": {"text": text, "source": ""}} if text else {}
    built = RunBuilder(run_kind="workflow", model="", agent="workflow", settings=settings).extend(*facts)
    if end:
        built.add(RunFinished, status=end, stop_reason="natural", seconds=1.5)
    return built.run
