"""Properties of every format: it claims its own samples only, and reads them alike each time, from archives too."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest
from formats_page import PAGE, page

from agentnb import Run, load_traces
from agentnb.core.log.wire import encode
from agentnb.interchange.archives import trace_file
from agentnb.interchange.formats import FORMATS

FILES = Path(__file__).parent / "files"
SAMPLES = {
    path.name: sorted(one for one in path.iterdir() if not one.name.startswith("."))
    for path in FILES.iterdir()
    if path.is_dir()
}
del SAMPLES["licences"]
WITHOUT_SAMPLES = {"agentnb", "page", "parquet"}
"""Our own forms, written by their tests."""


def contents(run: Run) -> list[bytes]:
    """Return all fields of the run except its source and the ids derived from it."""
    lines = [encode(event).replace(run.id.encode(), b"ID") for event in run.events]
    return [lines[0].partition(b'"origin"')[0], *lines[1:]] if run.parent_id is None and run.forked_from is None else []


def test_every_format_has_samples_and_each_sample_a_format() -> None:
    names = {format_.NAME for format_ in FORMATS}
    assert set(SAMPLES) <= names and names - set(SAMPLES) <= WITHOUT_SAMPLES
    assert all(SAMPLES.values()) and all(format_.TITLE for format_ in FORMATS)


def test_no_format_claims_files_of_another(subtests: pytest.Subtests) -> None:
    for name, paths in SAMPLES.items():
        for path in paths:
            with subtests.test(f"{name}/{path.name}"):
                assert [format_.NAME for format_ in FORMATS if not format_.sniff(trace_file(path))] == [name]


def test_samples_read_identically_plain_compressed_or_archived(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, paths in SAMPLES.items():
        for path in paths:
            with subtests.test(f"{name}/{path.name}"):
                runs = load_traces(path)
                assert runs and not runs.problems and [run.id for run in load_traces(path)] == [run.id for run in runs]
                assert len({run.id for run in runs}) == len(runs)
                assert {run.origin.format for run in runs if run.origin} == {name}
                (tmp_path / "packed.gz").write_bytes(gzip.compress(path.read_bytes()))
                with zipfile.ZipFile(tmp_path / "archive.zip", "w", zipfile.ZIP_DEFLATED) as names:
                    names.writestr(f"inside/{path.name}", path.read_bytes())
                if path.suffix != ".eval":  # already a zip: nested archives are not read
                    archived = load_traces(tmp_path / "archive.zip")
                    assert [contents(run) for run in archived] == [contents(run) for run in runs]
                packed = load_traces(tmp_path / "packed.gz")
                assert [contents(run) for run in packed] == [contents(run) for run in runs]


def test_documentation_page_lists_every_format() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/interchange/formats/formats_page.py"
