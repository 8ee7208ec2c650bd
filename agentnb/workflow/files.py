"""Files of workflows: how they are read, and those that a workflow runs with it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agentnb.errors import SettingsError, nearest
from agentnb.workflow.places import Places
from agentnb.workflow.problems import Problems
from agentnb.workflow.spec import WorkflowSpec, WorkflowStep
from agentnb.workflow.step_tree import walk_all

ReadFile: TypeAlias = Callable[[str, Problems, "NestedFiles", Collection[str]], Any]
"""Reads the text of a workflow file that another names, notes what is wrong in it, and reads the files that it names. The last
argument are the names of the inputs that it is passed. Returns what the file declares.
"""
MAX_SHOWN = 300
"""Characters of a path in an error."""


class NestedFile(NamedTuple):
    """A file that a workflow runs, as it was read."""

    wrong: str
    """What is wrong with it, in a sentence; empty if nothing is."""
    declared: Any = None
    """The `WorkflowSpec` or `TaskFile`, if nothing is wrong with it."""


def path_of(name: str | Path) -> Path:
    """Return the path, with ``~`` replaced by the home folder."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        user = Path(name).parts[0]
        raise SettingsError(f"There is no user {user}, so no home folder", "Write ./~NAME for a file") from error


def file_text(path: Path) -> str:
    """Return the text of a file; raise `SettingsError` if it is missing or no text."""
    try:
        if not path.is_file():
            raise SettingsError(f"There is no file {path}", "Give the path of a YAML file, or its text")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not a text in UTF-8", "Give the path of a YAML file") from error
    except OSError as error:
        raise SettingsError(f"{_shown(path)} cannot be read: {error.strerror or error}") from error


def _shown(path: Path) -> str:
    return str(path)[:MAX_SHOWN]


def path_beside(source: str, file: str) -> Path:
    """Return the path of a file that the workflow in ``source`` names; without a source, in the current folder."""
    return Path(source or ".").parent / file


class NestedFiles:
    """Reads the files that a workflow runs, and those that these run, each once."""

    def __init__(self, read: ReadFile, source: str) -> None:
        self._read = read
        self._open = [Path(source).resolve()] if source else []
        """The files that lead to the one that is being read, which is the last."""
        self._known: dict[tuple[Path, tuple[str, ...]], NestedFile] = {}
        """The files that were read, by path and the inputs that they are passed."""

    def read(self, spec: WorkflowSpec, places: Places, problems: Problems) -> dict[str, Any]:
        """Return what the files declare, by the paths of the steps that run them.

        Notes each step whose file is missing, has problems, or leads back to a file that leads to it.
        """
        found: dict[str, Any] = {}
        for step in walk_all(spec.steps):
            if isinstance(step, WorkflowStep):
                file = self._file(path_beside(spec.source, step.file), step.inputs)
                if file.wrong:
                    where = places.names.get(step.path, f"step {step.path}")
                    problems.add(places.line(step.path, "file", step.line), f"{where}: {file.wrong}")
                else:
                    found[step.path] = file.declared
                    _check_inputs(step, file.declared, places, problems)
        return found

    def _file(self, path: Path, inputs: Collection[str]) -> NestedFile:
        try:
            found = path.resolve()
        except (OSError, RuntimeError, ValueError):  # links in a circle; no name that a file can have
            return NestedFile(f"file: There is no file {_shown(path)}")
        if found in self._open:
            names = [one.name for one in (*self._open[self._open.index(found) :], found)]
            return NestedFile(f"file: {path} runs itself, without end ({' -> '.join(names)})")
        key = (found, tuple(inputs))
        if key not in self._known:
            self._open.append(found)
            self._known[key] = self._read_file(path, inputs)
            self._open.pop()
        return self._known[key]

    def _read_file(self, path: Path, inputs: Collection[str]) -> NestedFile:
        problems = Problems(str(path))
        try:
            declared = self._read(file_text(path), problems, self, inputs)
        except SettingsError as error:
            return NestedFile(f"file: {error.what}")
        if not problems.found:
            return NestedFile("", declared)
        first = min(problems.found, key=lambda problem: problem.line)
        count = f", and {len(problems.found) - 1} more" if len(problems.found) > 1 else ""
        return NestedFile(f"file: it cannot run: {path}:{first.line}: {first.message}{count}")


def _check_inputs(step: WorkflowStep, declared: Any, places: Places, problems: Problems) -> None:
    """Note what a step passes to a workflow that does not declare it. A task file takes whatever it is passed."""
    if not isinstance(declared, WorkflowSpec):
        return
    where = places.names.get(step.path, f"step {step.path}")
    for name in step.inputs:
        if name not in declared.inputs:
            hint = nearest(name, declared.inputs) or f"Declare it in that file: inputs: {{{name}: DEFAULT}}"
            line = places.line(step.path, "inputs", step.line)
            problems.add(line, f"{where}: inputs: {step.file} has no input {name}", hint)
