"""Labels that people have given to runs, from a ``labels.csv`` next to the files and from the caller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from agentnb.core.log.outcome import BY_LABEL, Assessment
from agentnb.errors import SettingsError
from agentnb.store.run_labels import Label, assessments_by_run, assessments_in, read_labels

Labels: TypeAlias = "Mapping[str, str | None] | str | Path"
"""Labels by ``run.id`` (only ``healthy`` and ``failed`` are outcomes), or a file written by `agentnb.label`."""
Assessments: TypeAlias = dict[str, tuple[Assessment, ...]]
"""Assessments from labels, by run id."""


class FolderLabels:
    """The labels in folders of traces, read once per folder."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Path | None], Assessments] = {}

    def of(self, folder: str, root: Path | None) -> Assessments:
        """Return the labels for the runs in a folder's files, from the folder and its parents up to the named ``root``.

        Labels closest to the files take precedence.
        """
        if (folder, root) not in self._known:
            path = Path(folder)
            is_inside = root is not None and root in path.parents
            around = self.of(str(path.parent), root) if is_inside else {}
            self._known[folder, root] = around | assessments_in(path)
        return self._known[folder, root]


def read_given_labels(labels: Labels | None) -> Assessments:
    """Return the assessments from these labels. Raises `SettingsError` for any other value, and the errors of `read_labels`."""
    if labels is None:
        return {}
    if isinstance(labels, str | Path):
        return assessments_by_run(read_labels(labels))
    if not isinstance(labels, Mapping):
        raise SettingsError(
            f"labels={labels!r} is neither a dict of labels nor a labels file",
            f"Write labels={{run.id: {next(iter(BY_LABEL))!r}}}, or the file that agentnb.label wrote",
        )
    return assessments_by_run(Label(str(run_id), word) for run_id, word in labels.items() if word is not None)
