"""Converts a saved failure to a test that loads the trace and checks what is expected of a healthy run."""

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
"""Expectations of a healthy run; checked only where the trace records the values."""
FORMS = ("cell", "pytest")
MAX_ASKED = 80
"""Maximum characters of the prompt shown in a comment."""
MAX_NAME = 40
"""Maximum characters of a run id in a test name."""


def to_test(run: Run | str | Path, *expectations: str, path: str | Path = "", form: Literal["cell", "pytest"] = "cell") -> str:
    """Return a test of a trace, ready to paste: code that loads it and checks expectations, in a cell or a pytest
    function.

    ``run``: a run, or the path of a trace. ``path``: path of the saved run, if it is neither a run in this notebook's
    store nor a trace of another product. The default ``expectations`` are those of `HEALTHY` that the run breaks.
    Raises `SettingsError` if the run's file is unknown, or if the run breaks none of them.
    """
    if form not in FORMS:
        raise SettingsError(f"{form!r} is not a kind of test", NameOne(known=tuple(FORMS), lead="Choose one of"))
    if not isinstance(run, Run):
        path, run = run, _only_run(run)
    file, alone = (str(path), _is_alone(run, path)) if path else _origin_of(run)
    if expectations:
        check_expectations(expectations)
    texts = expectations or _find_broken(run)
    calls = [f"    {_quote(text)}," for text in texts]
    load = (
        f"run = load_trace({_quote(file)})"
        if alone
        else f"run = next(run for run in load_traces({_quote(file)}) if run.id == {_quote(run.id)})"
    )
    body = [load, "expect(", "    run,", *calls, ")"]
    uses = f"from agentnb import expect, {'load_trace' if alone else 'load_traces'}"
    comments = _about(run, texts)
    if form == "cell":
        return "\n".join([*comments, uses, "", *body]) + "\n"
    return (
        "\n".join([uses, "", "", f"def test_{_name(run)}() -> None:", *[f"    {line}" for line in [*comments, *body]]]) + "\n"
    )


def _only_run(path: str | Path) -> Run:
    runs = load_traces(path)
    if len(runs) != 1:
        raise SettingsError(f"{path} contains {len(runs):,} runs", f"Choose one: to_test(load_traces({str(path)!r})[0])")
    return runs[0]


def _is_alone(run: Run, path: str | Path) -> bool:
    """True if the file contains only this run. Raises `SettingsError` if it does not contain the run."""
    ids = [loaded.id for loaded in load_traces(path)]
    if run.id not in ids:
        raise SettingsError(f"{path} does not contain run {run.id}", f"Save it first: save_trace(run, {str(path)!r})")
    return len(ids) == 1


def _origin_of(run: Run) -> tuple[str, bool]:
    """Return the path of a run's log or source file, and whether the file contains only this run."""
    file = run.origin.file if run.origin is not None else (FOLDER / f"{run.id}.jsonl").as_posix()
    if not file or not (Path(file).exists() or find(file)):
        how = 'save_trace(run, "failure.jsonl"), then to_test(run, path="failure.jsonl")'
        raise SettingsError(f"The file of run {run.id} is unknown", f"Save the run: {how}")
    return file, _is_alone(run, file)


def _find_broken(run: Run) -> Sequence[str]:
    """Return the expectations of `HEALTHY` that the run breaks; values that were not recorded do not count."""
    recorded = [text for text in HEALTHY if text != COMPLETED or run.status != "unknown"]
    broken = [outcome.expectation for outcome in outcomes_of(run, recorded) if not outcome.holds and outcome.has_value]
    if not broken:
        raise SettingsError(
            f"The run {run.id} meets all expectations for a healthy run", 'Give your own: to_test(run, "rounds <= 8", ...)'
        )
    return broken


def _about(run: Run, texts: Sequence[str]) -> list[str]:
    """Return comments that show the prompt and the broken expectations."""
    wrong = [outcome for outcome in outcomes_of(run, texts) if not outcome.holds]
    asked = shorten(one_line(mask_keys(run.prompt)), MAX_ASKED, placeholder=" …")
    lines = [*([f"# {asked}"] if asked else []), *[f"# {one_line(mask_keys(outcome.sentence))}" for outcome in wrong]]
    return [*lines, "# The test fails while the file holds this failure: save a new run there."] if wrong else lines


def _quote(text: str) -> str:
    """Return the text as a Python literal in the style of formatters, with double quotes where possible."""
    return repr(text) if set(text) & {'"', "\\"} or not text.isprintable() else f'"{text}"'


def _name(run: Run) -> str:
    """Return the name of the test: the run id as a Python identifier."""
    return "run_" + "".join(char if char.isascii() and char.isalnum() else "_" for char in run.id[:MAX_NAME]).lower()
