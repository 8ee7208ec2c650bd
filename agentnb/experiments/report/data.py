"""The data of a report in a folder next to it: tables as CSV and Parquet, and the tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agentnb.core.key_shapes import mask_keys
from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.report.document import Block, File, Paragraph
from agentnb.experiments.results.experiment_results import Results

if TYPE_CHECKING:
    import pandas as pd

TASKS = "tasks.json"
"""The file that holds the tasks."""

Write = Callable[[str, bytes], None]
"""Writes a file in the folder, given its name and content."""


def write_data(results: Results, tasks: Sequence[ExperimentTask], folder: str, write: Write) -> Iterator[Block]:
    """Write the data of an experiment, and yield the report's entry for each file. ``folder``: the folder's name."""
    tables = {"runs": (results.table(), "one row per run that counts")}
    attempts = results.attempts
    if len(attempts) > len(tables["runs"][0]):
        tables["attempts"] = (attempts, "one row per attempt, including replaced and lost attempts")
    has_parquet = find_spec("pyarrow") is not None
    for name, (frame, content) in tables.items():
        masked = _mask_frame(frame)
        write(f"{name}.csv", masked.to_csv(index=False, lineterminator="\n").encode())
        yield File(f"{folder}/{name}.csv", content)
        if has_parquet:
            write(f"{name}.parquet", masked.to_parquet(None, index=False, engine="pyarrow"))
            yield File(f"{folder}/{name}.parquet", "the same with types, as Parquet")
    write(TASKS, mask_keys(json.dumps([_row_of(task) for task in tasks], indent=1, ensure_ascii=False, default=repr)).encode())
    yield File(f"{folder}/{TASKS}", "the tasks with all their columns")
    if not has_parquet:
        yield Paragraph("There are no Parquet files: the pyarrow package is not installed (pip install 'agentnb[scale]').")


def _mask_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Mask keys, and text that looks like a key, in the frame."""
    texts = [name for name, kind in frame.dtypes.items() if str(kind) in ("str", "object", "string")]
    masked = {name: frame[name].map(lambda value: mask_keys(value) if isinstance(value, str) else value) for name in texts}
    return frame.assign(**masked)


def _row_of(task: ExperimentTask) -> Mapping[str, Any]:
    return {"id": task.id, **task.row}
