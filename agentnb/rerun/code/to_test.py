"""A saved failure as a test: code that loads the trace and expects what a healthy run keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Literal

from agentnb.advice import NameOne
from agentnb.core.key_shapes import mask_keys
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.examples import find
from agentnb.interchange.files import load_traces
from agentnb.rerun.code.to_code import one_line
from agentnb.rerun.expect import check_expectations, outcomes_of
from agentnb.store.store import FOLDER

COMPLETED = 'status == "completed"'
HEALTHY = (
    COMPLETED,
    "todos_closed",
    "loops == 0",
    "findings.stall == 0",
    "max_consecutive_assistant <= 1",
    "tool_errors == 0",
    "calls_blocked == 0",
    "todo_violations == 0",
)
"""What a healthy run keeps, as far as its trace records it."""
FORMS = ("cell", "pytest")
MAX_ASKED = 80
"""Characters of what a run was asked, in a comment."""
MAX_NAME = 40
"""Characters of a run's id in the name of a test."""


def to_test(run: Run | str | Path, *expectations: str, path: str | Path = "", form: Literal["cell", "pytest"] = "cell") -> str:
    """Return code that loads a trace and expects something of it, ready to paste: a cell, or a function for pytest.

    ``run``: a run, or the path of a trace. ``path``: where the run is saved, if neither this notebook stored it nor a trace of
    another product holds it. Without ``expectations``, those of `HEALTHY` that the run breaks. Raises `SettingsError` if the
    run is in no known file, or if it breaks none of these.
    """
    if form not in FORMS:
        raise SettingsError(f"There is no form {form!r} of a test", NameOne(known=tuple(FORMS), lead="Choose one of"))
    if not isinstance(run, Run):
        path, run = run, _only_run(run)
    file, alone = (str(path), _is_alone(run, path)) if path else _origin_of(run)
    if expectations:
        check_expectations(expectations)
    texts = expectations or _broken(run)
    calls = [f"    {_quoted(text)}," for text in texts]
    load = (
        f"run = load_trace({_quoted(file)})"
        if alone
        else f"run = next(run for run in load_traces({_quoted(file)}) if run.id == {_quoted(run.id)})"
    )
    body = [load, "expect(", "    run,", *calls, ")"]
    uses = f"from agentnb import expect, {'load_trace' if alone else 'load_traces'}"
    comments = _about(run, texts)
    if form == "cell":
        return "\n".join([*comments, uses, "", *body]) + "\n"
    return "\n".join([uses, "", "", f"def test_{_name(run)}() -> None:", *[f"    {line}" for line in [*comments, *body]]]) + "\n"


def _only_run(path: str | Path) -> Run:
    runs = load_traces(path)
    if len(runs) != 1:
        raise SettingsError(f"{path} holds {len(runs):,} runs", f"Choose one: to_test(load_traces({str(path)!r})[0])")
    return runs[0]


def _is_alone(run: Run, path: str | Path) -> bool:
    """Return whether the file holds this run and no other; raise `SettingsError` if it does not hold it."""
    ids = [loaded.id for loaded in load_traces(path)]
    if run.id not in ids:
        raise SettingsError(f"{path} does not hold the run {run.id}", f"Save it first: save_trace(run, {str(path)!r})")
    return len(ids) == 1


def _origin_of(run: Run) -> tuple[str, bool]:
    """Return the file of a run: its log here, or what it was read from; and whether that holds no other run."""
    file = run.origin.file if run.origin is not None else (FOLDER / f"{run.id}.jsonl").as_posix()
    if not file or not (Path(file).exists() or find(file)):
        how = 'save_trace(run, "failure.jsonl"), then to_test(run, path="failure.jsonl")'
        raise SettingsError(f"The run {run.id} is in no file that it knows of", f"Save it: {how}")
    return file, _is_alone(run, file)


def _broken(run: Run) -> Sequence[str]:
    """Return what a healthy run keeps and this one breaks; what its trace does not record is not broken."""
    recorded = [text for text in HEALTHY if text != COMPLETED or run.status != "unknown"]
    broken = [outcome.expectation for outcome in outcomes_of(run, recorded) if not outcome.holds and outcome.has_value]
    if not broken:
        raise SettingsError(
            f"The run {run.id} keeps all that a healthy run does", 'Say what it breaks: to_test(run, "rounds <= 8", ...)'
        )
    return broken


def _about(run: Run, texts: Sequence[str]) -> list[str]:
    """Return comments: what the run was asked, and what is wrong with it."""
    wrong = [outcome for outcome in outcomes_of(run, texts) if not outcome.holds]
    asked = shorten(one_line(mask_keys(run.prompt)), MAX_ASKED, placeholder=" …")
    lines = [*([f"# {asked}"] if asked else []), *[f"# {one_line(mask_keys(outcome.sentence))}" for outcome in wrong]]
    return [*lines, "# It fails while the file holds this failure: save a new run there."] if wrong else lines


def _quoted(text: str) -> str:
    """Return a text as formatters write it: between double quotation marks, unless it has some."""
    return repr(text) if set(text) & {'"', "\\"} or not text.isprintable() else f'"{text}"'


def _name(run: Run) -> str:
    """Return the name of its test: the run's id as far as a name of Python can hold it."""
    return "run_" + "".join(char if char.isascii() and char.isalnum() else "_" for char in run.id[:MAX_NAME]).lower()
