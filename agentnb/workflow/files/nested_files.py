"""File access of workflows, including nested files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from agentnb.errors import SettingsError, suggest_similar
from agentnb.runtime.runs.launch import MAX_LEVELS
from agentnb.workflow.defaults import MAX_NESTED_RUNS
from agentnb.workflow.form.fields import SourceMap
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.step_tree import walk_all
from agentnb.workflow.form.workflow_spec import WorkflowSpec, WorkflowStep
from agentnb.workflow.tasks.task_file import top_keys

ReadFile: TypeAlias = Callable[[str, Problems, "NestedFiles", Collection[str]], Any]
"""Parses the text of a nested workflow file, including its own nested files, and reports problems. The last argument contains
the names of its inputs. Returns the parsed file.
"""
MAX_SHOWN = 300
"""Maximum characters of a path shown in an error."""
MAX_BYTES = 4_000_000
"""Maximum size of a file."""
MAX_NESTED_CHARACTERS = 2_000_000
"""Maximum total characters of all nested files of a workflow, at any depth."""


def path_of(name: str | Path) -> Path:
    """Return the path with ``~`` expanded."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        user = Path(name).parts[0]
        raise SettingsError(f"There is no user {user!r} with a home folder", "For a file, write ./~NAME") from error


def file_text(path: Path) -> str:
    """Return the text of a file. Raises `SettingsError` if it is missing, too large or not text.

    Opens only regular files, because a pipe or device could block forever, and reads at most their declared size.
    """
    try:
        if not path.is_file():
            raise SettingsError(f"There is no file {path}", "Use the path of a YAML file, or its text")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise SettingsError(f"{_shorten(path)} is {size:,} bytes long; the maximum is {MAX_BYTES:,}")
        with path.open("rb") as file:
            data = file.read(size) if size else b""
        return data.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text", "Use the path of a YAML file") from error
    except OSError as error:
        raise SettingsError(f"{_shorten(path)} cannot be read: {error.strerror or error}") from error


def _shorten(path: Path) -> str:
    return str(path)[:MAX_SHOWN]


def path_beside(source: str, file: str) -> Path:
    """Resolve a file name relative to the workflow ``source``, or to the current folder if there is no source."""
    return Path(source or ".").parent / file


class NestedFiles:
    """Loads nested files, at any depth, each only once."""

    def __init__(self, read: ReadFile, source: str, texts: Mapping[str, str] | None = None) -> None:
        """``texts``: the logged files of a run, by path; they were checked when the run began."""
        self._read = read
        self._texts = texts
        self._open = [self._identity(Path(source))]
        """Chain of open files; the last is the one being read."""
        self._known: dict[tuple[Path, tuple[str, ...]], Any] = {}
        """Parsed files, or their errors, by path and input names."""
        self._left = MAX_NESTED_CHARACTERS

    def read(self, spec: WorkflowSpec, places: SourceMap, problems: Problems) -> WorkflowSpec:
        """Return the workflow with its nested files, parsed, and their texts.

        Reports each step whose file is missing, has problems, or contains itself.
        """
        nested, files, runs = dict[str, Any](), dict[str, str](), 0
        for step in walk_all(spec.steps):
            if not isinstance(step, WorkflowStep):
                continue
            path = path_beside(spec.source, step.file)
            declared = self._file(path, step.inputs)
            runs += 1 + getattr(declared, "runs", 0)
            if not isinstance(declared, SettingsError) and runs > MAX_NESTED_RUNS:
                declared = SettingsError(
                    f"with this step, the workflow runs more than {MAX_NESTED_RUNS:,} files, nested ones included"
                )
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
        """Return the parsed file, or its error."""
        try:
            identity = self._identity(path)
        except (OSError, RuntimeError, ValueError):  # circular links, or an invalid file name
            return SettingsError(f"There is no file {_shorten(path)}")
        if identity in self._open:
            names = [ancestor.name for ancestor in (*self._open[self._open.index(identity) :], identity)]
            return SettingsError(f"{path} runs itself endlessly ({' -> '.join(names)})")
        if len(self._open) >= MAX_LEVELS:
            return SettingsError(f"{_shorten(path)} is nested deeper than {MAX_LEVELS} files")
        key = (identity, tuple(inputs))
        if key not in self._known:
            self._open.append(identity)
            try:
                self._known[key] = self._load(path, inputs)
            except SettingsError as error:
                self._known[key] = error
            self._open.pop()
        return self._known[key]

    def _load(self, path: Path, inputs: Collection[str]) -> Any:
        problems, text = Problems(str(path)), self._text(path)
        self._left -= len(text)
        if self._left < 0:
            raise SettingsError(f"the files it runs have more than {MAX_NESTED_CHARACTERS:,} characters")
        if not top_keys(text):  # quote nothing: it could be any file of this machine
            raise SettingsError(f"{_shorten(path)} is not a workflow: it has none of workflow:, agents: and stage:")
        declared = self._read(text, problems, self, inputs)
        if problems.found and self._texts is None:
            first = min(problems.found, key=lambda problem: problem.line)
            count = f", and {len(problems.found) - 1} more" if len(problems.found) > 1 else ""
            raise SettingsError(f"it is invalid: {path}:{first.line}: {first.message}{count}")
        return declared

    def _text(self, path: Path) -> str:
        if self._texts is None:
            return file_text(path)
        if (text := self._texts.get(_key(path))) is None:
            raise SettingsError(f"The log of the run does not contain the text of {_shorten(path)}")
        return text


def _key(path: Path) -> str:
    """Return the log key for a file's text; it does not depend on this machine's folders and links."""
    return Path(os.path.normpath(path)).as_posix()


def _check_inputs(step: WorkflowStep, declared: Any, places: SourceMap, problems: Problems) -> None:
    """Report inputs that a step passes to a workflow that does not declare them; a task file accepts any input."""
    if not isinstance(declared, WorkflowSpec):
        return
    where = places.names.get(step.path, f"step {step.path}")
    for name in step.inputs:
        if name not in declared.inputs:
            hint = suggest_similar(name, declared.inputs) or f"Declare it in that file: inputs: {{{name}: DEFAULT}}"
            line = places.line(step.path, "inputs", step.line)
            problems.add(line, f"{where}: inputs: {step.file} has no input {name}", hint)
