"""Labels that people give to runs by hand, in a file to which each judgement is appended."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from agentnb.core.log.outcome import BY_LABEL, Assessment
from agentnb.errors import StoreError, TraceError
from agentnb.store.bounds import MAX_HELD_BYTES
from agentnb.store.check_values import assessments_of_rows
from agentnb.store.regular_files import open_regular

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
LabelSource: TypeAlias = "str | Path | pd.DataFrame | Iterable[Label]"
"""A file of labels, a table that `labels` returned, or the labels themselves."""
LINES = frozenset({".jsonl", ".ndjson"})
"""Suffixes of JSON Lines files; files with any other suffix are CSV."""


class Label(msgspec.Struct, frozen=True):
    """A judgement of a run, or of a reminder in it."""

    run_id: str
    label: int | str | None
    """The label, or None to withdraw an earlier judgement."""
    seconds: float | None = None
    """Seconds spent looking at the run."""
    at: datetime | None = None
    """Time of the judgement, UTC."""
    who: str = ""
    word: str = ""
    """The word that was chosen; `label` may be a number that represents it. Empty in files of earlier versions."""
    reminder: str = ""
    """The reminder that is judged: its round and its position in the round, from 1, such as ``3.1``; empty for a
    judgement of the run.
    """

    @property
    def subject(self) -> str:
        """The run, and the reminder if a reminder is judged."""
        return subject_of(self.run_id, self.reminder)

    @property
    def assessment(self) -> Assessment | None:
        """The run's assessment, or None if the word is neither healthy nor failed, or if a reminder is judged."""
        outcome = None if self.reminder else BY_LABEL.get((self.word or str(self.label)).strip().casefold())
        return None if outcome is None else Assessment(outcome, "label", self.who)


def subject_of(run_id: str, reminder: str = "") -> str:
    """Return the name that labels use for a run, or for a reminder in it."""
    return f"{run_id}#{reminder}" if reminder else run_id


_COLUMNS = Label.__struct_fields__
_NEEDED = {"run_id", "label"}
FILE = "labels.csv"
"""Name of a file whose labels apply to the runs alongside it."""


def labels(path: str | Path, *, who: str | None = None) -> pd.DataFrame:
    """Return the labels in a file, one row per person and run or reminder.

    Columns: ``run_id``, ``label``, ``seconds``, ``at`` (UTC), ``who``, ``word``, ``reminder``. ``who``: only labels of
    this person. ``label`` contains integers if all labels are integers, otherwise strings. Raises `StoreError` if the
    file cannot be read, `TraceError` if it contains no labels.
    """
    import pandas as pd

    records = [record for record in read_labels(path) if who is None or record.who == who]
    values = [record.label for record in records]
    numbers = all(isinstance(value, int) for value in values)
    columns = {
        "run_id": pd.Series([record.run_id for record in records], dtype="str"),
        "label": pd.Series(values if numbers else [str(value) for value in values], dtype="int64" if numbers else "str"),
        "seconds": pd.Series([record.seconds for record in records], dtype="float64"),
        "at": pd.Series(pd.to_datetime([record.at for record in records], utc=True), dtype="datetime64[us, UTC]"),
        "who": pd.Series([record.who for record in records], dtype="str"),
        "word": pd.Series([record.word or None for record in records], dtype="str"),
        "reminder": pd.Series([record.reminder or None for record in records], dtype="str"),
    }
    return pd.DataFrame(columns)


def read_labels(path: str | Path) -> list[Label]:
    """Return each person's latest label for each run or reminder, in the order of the first label of each.

    Withdrawn labels are left out, and so is a torn last line.
    """
    path = Path(path)
    try:
        with open_regular(path, MAX_HELD_BYTES) as file:
            text = file.read().decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}", "label(runs, path) writes it") from error
    last: dict[tuple[str, str], Label] = {}
    for record in _lines(path, text) if path.suffix.lower() in LINES else _rows(path, text):
        last[record.subject, record.who] = record
    return [record for record in last.values() if record.label is not None]


def labels_of(source: LabelSource) -> list[Label]:
    """Return the labels in a source. Raises the errors of `read_labels`, and `TraceError` for any other data frame."""
    if isinstance(source, str | Path):
        return read_labels(source)
    frame: Any = source
    if not hasattr(frame, "to_dict"):
        return [*frame]
    if not {*frame.columns} >= _NEEDED:
        raise TraceError(f"The frame lacks the columns {', '.join(sorted(_NEEDED))}", "Pass the result of agentnb.labels")
    texts = [name for name in ("who", "word", "reminder") if name in frame.columns]
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    extra_fields: list[dict[str, Any]] = [{name: row[name] or "" for name in texts} for row in rows]
    return [Label(str(row["run_id"]), row["label"], **fields) for row, fields in zip(rows, extra_fields, strict=True)]


def assessments_in(folder: Path) -> dict[str, tuple[Assessment, ...]]:
    """Return the assessments of runs, by id, from the labels in a folder and, if it holds an experiment, from the experiment's
    checks.
    """
    checked = assessments_of_rows(folder)
    try:
        hand_labels = read_labels(folder / FILE)
    except (StoreError, TraceError):
        return checked
    labelled = assessments_by_run(hand_labels)
    return {run_id: (*checked.get(run_id, ()), *labelled.get(run_id, ())) for run_id in (*checked, *labelled)}


def assessments_by_run(labels: Iterable[Label]) -> dict[str, tuple[Assessment, ...]]:
    """Return the assessments given by these labels, by run id."""
    by_run: dict[str, tuple[Assessment, ...]] = {}
    for record in labels:
        if (assessment := record.assessment) is not None:
            by_run[record.run_id] = (*by_run.get(record.run_id, ()), assessment)
    return by_run


def append_label(path: str | Path, label: Label) -> None:
    """Append a judgement to a file of labels, in a single write that is forced to disk.

    Raises `StoreError` on failure, and for a label on a reminder if the file comes from an earlier version and has no
    column for it.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            cut_off, header = False, _COLUMNS
            if size:
                file.seek(0)
                header = tuple(next(csv.reader([file.readline().decode("utf-8", "replace")]), _COLUMNS))
                file.seek(-1, os.SEEK_END)
                cut_off = file.read(1) != b"\n"
            file.write((b"\n" if cut_off else b"") + _encode_label(path, label, header, first=not size))
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"The label cannot be saved in {path}: {error.strerror or error}", "Choose another file") from error


def _encode_label(path: Path, label: Label, header: tuple[str, ...], *, first: bool) -> bytes:
    """Encode a label as a line; a CSV line has these columns, since files of earlier versions have fewer."""
    if path.suffix.lower() in LINES:
        return msgspec.json.encode(label) + b"\n"
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    if first:
        writer.writerow(header)
    plain = msgspec.to_builtins(label)
    if label.reminder and "reminder" not in header:
        raise StoreError(f"{path} has labels of runs but no column for reminders", "Choose another file")
    writer.writerow(["" if plain.get(name) is None else plain[name] for name in header])
    return written.getvalue().encode("utf-8", "replace")


def _lines(path: Path, text: str) -> Iterable[Label]:
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            yield msgspec.json.decode(line, type=Label)
        except (msgspec.DecodeError, RecursionError) as error:
            if not _may_be_cut_off(line):
                raise TraceError(f"{path}, line {number}: not a label ({error})", "Choose a file written by label") from None


def _may_be_cut_off(line: str) -> bool:
    return line.startswith("{") and not line.rstrip().endswith("}")


def _rows(path: Path, text: str) -> Iterable[Label]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise TraceError(f"{path} cannot be read as CSV ({error})", "Choose a file written by label") from None
    header = rows[0] if rows else [*_COLUMNS]
    if not _NEEDED <= {*header} <= {*_COLUMNS}:
        raise TraceError(f"{path} has columns other than {', '.join(_COLUMNS)}", "Choose a file written by label")
    for row in rows[1:]:
        if len(row) != len(header):
            continue  # torn
        cells = dict.fromkeys(_COLUMNS, "") | dict(zip(header, row, strict=True))
        yield Label(
            cells["run_id"],
            _value(cells["label"]),
            _convert_cell(cells["seconds"], float),
            _convert_cell(cells["at"], datetime),
            cells["who"],
            cells["word"],
            cells["reminder"],
        )


def _convert_cell(text: str, kind: type[T]) -> T | None:
    """Return the value of a cell, or None if the cell is empty, or invalid after a person has edited it."""
    try:
        return msgspec.convert(text, kind, strict=False) if text else None
    except msgspec.ValidationError:
        return None


def _value(text: str) -> int | str | None:
    if not text:
        return None
    return int(text) if text.lstrip("-").isascii() and text.lstrip("-").isdigit() else text
