"""Guides: functions of the run so far that choose the ephemeral guidance for a round from the current set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from agentnb.core.guidance import Guidance
from agentnb.core.run.rounds import PLAN_DECLINED, PLAN_EXECUTED
from agentnb.core.todos import has_open
from agentnb.detect.guidance_rules import ALREADY_SAID, FAILURE_LOOP, INTERVENTION, TODO_LIST, TOOL_FAILED, WORKFLOW
from agentnb.detect.judgements import MATRIX_CELLS
from agentnb.detect.run import Run
from agentnb.detect.tool_failures import LOOP_FROM
from agentnb.guidance.parts import LEVELS, NOTE, PLANNING, STRONGER, TOOL_FAILED_AGAIN
from agentnb.guidance.template import failed_rounds, failed_tools, render

Guide: TypeAlias = Callable[[Run], "Guidance | None"]
"""Called at the start of a round; the texts from all guides are combined, in order, into one reminder."""

IGNORED_A_LEVEL = 2
"""Number of times in a row that guidance must be ignored before it is escalated by one level."""


HALF_SAID = frozenset({"reply_cut", "pause_turn"})
"""Reasons for a round in which the model continues a truncated reply, which should not be interrupted."""
WITHOUT_CELL = HALF_SAID | {"invalid_output", PLAN_EXECUTED, PLAN_DECLINED}
"""`HALF_SAID`, plus the reasons for a round in which the model resends a refused answer or reports on its draft: text alone is
correct there, and rewording is not a repeat.
"""


def cell_of(run: Run) -> str:
    """Return the run's cell, which depends on two facts: open todos, and tool use in the previous round."""
    used = "tools" if run.last_round_had_tool_results else "text"
    return f"todos_{used}" if run.todos and has_open(run.todos) else used


@dataclass(frozen=True, slots=True)
class FourCells:
    """The matrix: the text of the current cell.

    Omitted for agents without tools, and in the first round, where a model that has done nothing yet should not be reproached
    for using no tools.
    """

    def __call__(self, run: Run) -> Guidance | None:
        """Return the cell's text at its current level, or None if the model must finish or correct its last reply."""
        current = run.last_round
        if not current.index or not run.tools or current.reason in WITHOUT_CELL:
            return None
        cell = cell_of(run)
        text = run.guidance_in_force.texts.get(cell)
        if not text:
            return None
        level = min(1 + run.judged.ignored.get(MATRIX_CELLS, 0) // IGNORED_A_LEVEL, len(LEVELS))
        if level > 1:
            text = f"{run.guidance_in_force.text(STRONGER[level - 2])}\n\n{text}".strip()
        return _guidance_for(cell, text, level, current.reason, run)


@dataclass(frozen=True, slots=True)
class TodoNews:
    """Shows the model a todo list that was changed from outside or set before the run, if it has not been sent yet."""

    def __call__(self, run: Run) -> Guidance | None:
        """Return the current list, or None if the model has seen it."""
        if not run.has_unseen_todos:
            return None
        text = run.guidance_in_force.text(TODO_LIST)
        trigger = "changed by others" if run.last_round.index else "there at the start"
        return _guidance_for(TODO_LIST, text, 1, trigger, run) if text else None


@dataclass(frozen=True, slots=True)
class AlreadySaid:
    """Tells the model that its latest answer repeats an earlier one."""

    def __call__(self, run: Run) -> Guidance | None:
        """Return guidance if the previous round repeats one of the most recent answers."""
        said_before = run.judged.said_before
        if said_before is None:
            return None
        text = run.guidance_in_force.text(ALREADY_SAID)
        return _guidance_for(ALREADY_SAID, text, 1, f"repeats rounds[{said_before}]", run) if text else None


@dataclass(frozen=True, slots=True)
class FailedTools:
    """Gives advice after a round with a failed tool: in full the first time, then briefly, and emphatically in a
    failure loop.
    """

    loop_from: int = LOOP_FROM
    """A tool that fails in this many consecutive rounds is in a failure loop."""

    def __call__(self, run: Run) -> Guidance | None:
        """Return the text of `tool_failed`, `tool_failed_again` or `failure_loop`, or None for an agent without tools."""
        failures = run.judged.failures
        if not failures.tools or not run.tools:
            return None
        if looping := failures.looping(self.loop_from):
            circumstance = f"in {failed_rounds(run, looping)} rounds in a row"
            return self._words(FAILURE_LOOP, FAILURE_LOOP, len(LEVELS), circumstance, run, looping)
        if failures.rounds > 1:
            return self._words(TOOL_FAILED, TOOL_FAILED_AGAIN, 1, "again", run)
        return self._words(TOOL_FAILED, TOOL_FAILED, 1, "for the first time", run)

    def _words(self, cell: str, part: str, level: int, how: str, run: Run, about: tuple[str, ...] = ()) -> Guidance | None:
        text = run.guidance_in_force.text(part)
        trigger = f"{failed_tools(run, about or run.judged.failures.tools)} failed {how}"
        return _guidance_for(cell, text, level, trigger, run, about) if text else None


def intervention(run: Run, trigger: str, level: int) -> tuple[Guidance, ...]:
    """Return the guidance for an intervention at this level; empty if the set has no text for it."""
    level = min(level, len(LEVELS))
    text = run.guidance_in_force.text(LEVELS[level - 1] if has_open(run.todos) else PLANNING)
    return (_guidance_for(INTERVENTION, text, level, trigger, run),) if text else ()


def workflow_reminder(run: Run) -> tuple[Guidance, ...]:
    """Return the guidance that continues a run in workflow mode; empty if the set has no text for it."""
    text = run.guidance_in_force.text(WORKFLOW)
    return (_guidance_for(WORKFLOW, text, 1, "workflow_mode", run),) if text else ()


def where_it_stands(run: Run) -> str:
    """Return the status line sent with every request: the round number and the maximum."""
    return render(run.guidance_in_force.texts.get(NOTE, ""), run)


def _guidance_for(cell: str, text: str, level: int, trigger: str, run: Run, about: tuple[str, ...] = ()) -> Guidance:
    used = run.guidance_in_force
    return Guidance(used.set, cell, render(text, run, about), level, trigger, used.version, about=about)
