"""Writes a report: first its data and figures, then the document that refers to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentnb.errors import SettingsError
from agentnb.experiments.report.data import TASKS, write_data
from agentnb.experiments.report.document import Picture, mask_document
from agentnb.experiments.report.html_page import report_html
from agentnb.experiments.report.markdown_file import report_markdown
from agentnb.experiments.report.sections import report_of
from agentnb.experiments.report.setup import Setup
from agentnb.experiments.results.comparison import compare
from agentnb.experiments.results.experiment_results import Results
from agentnb.store.atomic_files import write_whole

PAGES, MARKDOWN = (".html", ".htm"), (".md", ".markdown")


def write_report(results: Results, setup: Setup, path: str | Path, primary: Any = None) -> Path:
    """Write a report and return its path; see `Results.report`."""
    path = Path(path).expanduser()
    ending = path.suffix.lower()
    if ending not in (*PAGES, *MARKDOWN):
        raise SettingsError(f"A report must be HTML or Markdown, not {path.name}", "End the name with .html or .md")
    folder = f"{path.stem}_data"

    def write(name: str, data: bytes, beside: str = folder) -> None:
        write_whole(path.with_name(beside) / name, [data], "The report")

    comparisons = compare(results, primary=primary) if len(results.variants) > 1 else []
    data = [*write_data(results, setup.tasks, folder, write)]
    document = mask_document(report_of(results, comparisons, setup, data, f"{folder}/{TASKS}"))
    if ending in PAGES:
        text = report_html(document)
    else:
        figures = f"{path.stem}_figures"
        for block in document.blocks:
            if isinstance(block, Picture):
                write(f"{block.name}.png", block.png, figures)
        text = report_markdown(document, figures)
    return write_whole(path, [text.encode("utf-8", "replace")], "The report")
