"""The files of the workflows that a workflow runs as its steps: each is read once for a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.workflow.reading import read_workflow
from agentnb.workflow.spec import Step, WorkflowSpec, WorkflowStep
from agentnb.workflow.step_tree import walk


class NestedFiles:
    """Reads them, relative to the file that names them."""

    def __init__(self, agents: Collection[str] = ()) -> None:
        """``agents``: names of agents that are passed in Python."""
        self._agents = tuple(agents)
        self._read: dict[Path, WorkflowSpec] = {}

    def spec_of(self, step: WorkflowStep, source: str, before: Run | None = None) -> WorkflowSpec:
        """Return the workflow of a step of the file ``source``. ``before``: its run that is resumed, whose log has it.

        Raises `SettingsError` for a file that is missing, and `WorkflowProblems` for what is wrong in it.
        """
        logged = before.settings.get("workflow") if before is not None else None
        if isinstance(logged, dict) and isinstance(logged.get("text"), str):
            return read_workflow(logged["text"], str(logged.get("source") or ""), agents=self._agents)
        path = _path(step, source)
        if path not in self._read:
            if not path.is_file():
                raise SettingsError(
                    f"step {step.id}: there is no file {path}", "Files are looked for beside the file that names them"
                )
            self._read[path] = read_workflow(path.read_text(encoding="utf-8"), str(path), agents=self._agents)
        return self._read[path]

    def unread(self, steps: Iterable[Step], source: str) -> Iterator[WorkflowStep]:
        """Yield the steps that run files which were not read yet; so a circle of files comes to an end."""
        for top in steps:
            for step in walk(top):
                if isinstance(step, WorkflowStep) and _path(step, source) not in self._read:
                    yield step


def _path(step: WorkflowStep, source: str) -> Path:
    return Path(source or ".").parent / Path(step.file).expanduser()
