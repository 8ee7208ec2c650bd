"""Files of workflows: how they are read, and whether those that a workflow names can be run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeAlias

from agentnb.errors import SettingsError
from agentnb.workflow.places import Places
from agentnb.workflow.problems import Problems
from agentnb.workflow.spec import Step, WorkflowSpec, WorkflowStep
from agentnb.workflow.step_tree import StepTree

ReadFile: TypeAlias = Callable[[str, Problems, "FileChecks", Collection[str]], object]
"""Reads the text of a workflow file that another names, notes what is wrong in it, and checks the files that it names. The last
argument are the names of the inputs that it is passed.
"""


def file_text(path: Path) -> str:
    """Return the text of a file; raise `SettingsError` if it is missing or no text."""
    if not path.is_file():
        raise SettingsError(f"There is no file {path}", "Give the path of a YAML file, or its text")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not a text in UTF-8", "Give the path of a YAML file") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error


def path_beside(source: str, file: str) -> Path:
    """Return the path of a file that the workflow in ``source`` names; without a source, in the current folder."""
    return Path(source or ".").parent / file


class FileChecks:
    """Checks the files that a workflow names, and those that these name, each once."""

    def __init__(self, read: ReadFile, source: str) -> None:
        self._read = read
        self._open = [Path(source).resolve()] if source else []
        """The files that lead to the one that is being read, which is the last."""
        self._checked: dict[tuple[Path, tuple[str, ...]], str] = {}
        """What is wrong with each file that was read, by its path and the inputs that it is passed; empty if nothing is."""

    def check(self, spec: WorkflowSpec, places: Places, problems: Problems) -> None:
        """Note each step whose file is missing, has problems, or leads back to a file that leads to it."""
        for located in StepTree(spec.steps).all:
            step: Step = located.step
            if isinstance(step, WorkflowStep) and (wrong := self._wrong(path_beside(spec.source, step.file), step.inputs)):
                where = places.names.get(step.path, f"step {step.path}")
                problems.add(places.line(step.path, "file", step.line), f"{where}: {wrong}")

    def _wrong(self, path: Path, inputs: Collection[str]) -> str:
        """Return what is wrong with a file, in a sentence; empty if nothing is."""
        found = path.resolve()
        if found in self._open:
            names = [one.name for one in (*self._open[self._open.index(found) :], found)]
            return f"file: {path} runs itself, without end ({' -> '.join(names)})"
        key = (found, tuple(inputs))
        if key not in self._checked:
            self._open.append(found)
            self._checked[key] = self._read_wrong(path, inputs)
            self._open.pop()
        return self._checked[key]

    def _read_wrong(self, path: Path, inputs: Collection[str]) -> str:
        problems = Problems(str(path))
        try:
            self._read(file_text(path), problems, self, inputs)
        except SettingsError as error:
            return f"file: {error.what}"
        if not problems.found:
            return ""
        first = min(problems.found, key=lambda problem: problem.line)
        count = f", and {len(problems.found) - 1} more" if len(problems.found) > 1 else ""
        return f"file: it cannot run: {path}:{first.line}: {first.message}{count}"
