"""Files of workflows: how they are read, and those that a workflow runs with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from agentnb.errors import SettingsError, nearest
from agentnb.runtime.runs.launch import MAX_LEVELS
from agentnb.workflow.defaults import MAX_NESTED_RUNS
from agentnb.workflow.form.fields import SourceMap
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.spec import WorkflowSpec, WorkflowStep
from agentnb.workflow.form.step_tree import walk_all
from agentnb.workflow.tasks.task_file import top_keys

ReadFile: TypeAlias = Callable[[str, Problems, "NestedFiles", Collection[str]], Any]
"""Reads the text of a workflow file that another names, notes what is wrong in it, and reads the files that it names. The last
argument are the names of the inputs that it is passed. Returns what the file declares.
"""
MAX_SHOWN = 300
"""Characters of a path in an error."""
MAX_BYTES = 4_000_000
"""Maximum size of a file."""
MAX_NESTED_CHARACTERS = 2_000_000
"""Maximum characters of all files that a workflow runs, those within others too."""


def path_of(name: str | Path) -> Path:
    """Return the path, with ``~`` replaced by the home folder."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        user = Path(name).parts[0]
        raise SettingsError(f"There is no user {user}, so no home folder", "Write ./~NAME for a file") from error


def file_text(path: Path) -> str:
    """Return the text of a file; raise `SettingsError` if it is missing, too large or no text.

    Only regular files are opened, as a pipe or a device may wait for ever, and of these only as many bytes as they declare.
    """
    try:
        if not path.is_file():
            raise SettingsError(f"There is no file {path}", "Give the path of a YAML file, or its text")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise SettingsError(f"{_shown(path)} has {size:,} bytes; at most {MAX_BYTES:,} are read")
        with path.open("rb") as file:
            data = file.read(size) if size else b""
        return data.decode().replace("\r\n", "\n").replace("\r", "\n")
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

    def __init__(self, read: ReadFile, source: str, texts: Mapping[str, str] | None = None) -> None:
        """``texts``: of the files of a run, by path, as its log has them. They were checked when the run began."""
        self._read = read
        self._texts = texts
        self._open = [self._identity(Path(source))]
        """The files that lead to the one that is being read, which is the last."""
        self._known: dict[tuple[Path, tuple[str, ...]], Any] = {}
        """What the files that were read declare, or what is wrong, by path and the inputs that they are passed."""
        self._left = MAX_NESTED_CHARACTERS

    def read(self, spec: WorkflowSpec, places: SourceMap, problems: Problems) -> WorkflowSpec:
        """Return the workflow with the declarations in the files that its steps run, and the texts of these and their files.

        Notes each step whose file is missing, has problems, or leads back to a file that leads to it.
        """
        nested, files, runs = dict[str, Any](), dict[str, str](), 0
        for step in walk_all(spec.steps):
            if not isinstance(step, WorkflowStep):
                continue
            path = path_beside(spec.source, step.file)
            declared = self._file(path, step.inputs)
            runs += 1 + getattr(declared, "runs", 0)
            if not isinstance(declared, SettingsError) and runs > MAX_NESTED_RUNS:
                declared = SettingsError(f"with this step it runs more than {MAX_NESTED_RUNS:,} files, nested ones included")
            if isinstance(declared, SettingsError):
                where = places.names.get(step.path, f"step {step.path}")
                problems.add(places.line(step.path, "file", step.line), f"{where}: file: {declared.what}")
                if runs > MAX_NESTED_RUNS:
                    break
                continue
            nested[step.path] = declared
            files |= {_key(path): declared.text, **getattr(declared, "files", {})}
            _check_inputs(step, declared, places, problems)
        return replace(spec, nested=nested, files=files, runs=runs)

    def _identity(self, path: Path) -> Path:
        return path.resolve() if self._texts is None else Path(_key(path))

    def _file(self, path: Path, inputs: Collection[str]) -> Any:
        """Return what a file declares, or the error that says what is wrong with it."""
        try:
            identity = self._identity(path)
        except (OSError, RuntimeError, ValueError):  # links in a circle; no name that a file can have
            return SettingsError(f"There is no file {_shown(path)}")
        if identity in self._open:
            names = [ancestor.name for ancestor in (*self._open[self._open.index(identity) :], identity)]
            return SettingsError(f"{path} runs itself, without end ({' -> '.join(names)})")
        if len(self._open) >= MAX_LEVELS:
            return SettingsError(f"{_shown(path)} is nested deeper than {MAX_LEVELS} files")
        key = (identity, tuple(inputs))
        if key not in self._known:
            self._open.append(identity)
            try:
                self._known[key] = self._declared(path, inputs)
            except SettingsError as error:
                self._known[key] = error
            self._open.pop()
        return self._known[key]

    def _declared(self, path: Path, inputs: Collection[str]) -> Any:
        problems, text = Problems(str(path)), self._text(path)
        self._left -= len(text)
        if self._left < 0:
            raise SettingsError(f"the files it runs have more than {MAX_NESTED_CHARACTERS:,} characters")
        if not top_keys(text):  # nothing of it is quoted: it may be any file of this machine
            raise SettingsError(f"{_shown(path)} is not a workflow: it has no workflow:, agents: or stage:")
        declared = self._read(text, problems, self, inputs)
        if problems.found and self._texts is None:
            first = min(problems.found, key=lambda problem: problem.line)
            count = f", and {len(problems.found) - 1} more" if len(problems.found) > 1 else ""
            raise SettingsError(f"it cannot run: {path}:{first.line}: {first.message}{count}")
        return declared

    def _text(self, path: Path) -> str:
        if self._texts is None:
            return file_text(path)
        if (text := self._texts.get(_key(path))) is None:
            raise SettingsError(f"The log of the run has no text of {_shown(path)}")
        return text


def _key(path: Path) -> str:
    """Return the path under which a log has the text of a file. It depends on no folder and no link of this machine."""
    return Path(os.path.normpath(path)).as_posix()


def _check_inputs(step: WorkflowStep, declared: Any, places: SourceMap, problems: Problems) -> None:
    """Note what a step passes to a workflow that does not declare it. A task file takes whatever it is passed."""
    if not isinstance(declared, WorkflowSpec):
        return
    where = places.names.get(step.path, f"step {step.path}")
    for name in step.inputs:
        if name not in declared.inputs:
            hint = nearest(name, declared.inputs) or f"Declare it in that file: inputs: {{{name}: DEFAULT}}"
            line = places.line(step.path, "inputs", step.line)
            problems.add(line, f"{where}: inputs: {step.file} has no input {name}", hint)
