"""Executes a notebook without a key and without a network, and prints what its runs did: ``make demo``.

Usage: python notebooks/demo.py NOTEBOOK EXECUTED
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.sign import NotebookNotary
from tqdm import tqdm

from agentnb import Store
from agentnb.display.card.text import run_text
from agentnb.store.store import RunSummary

KEYS = ("AGENTNB_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")


def main(source: Path, executed: Path) -> int:
    """Execute ``source``, write it with its outputs to ``executed``; 1 if a cell failed."""
    without_keys()
    store = Store(source.resolve().parent / ".agentnb" / "runs")
    before = set(store.ids()) if store.folder.is_dir() else set()
    notebook = nbformat.read(source, as_version=4)
    _put_aside(executed, notebook)
    failure = execute(notebook, source.resolve().parent)
    nbformat.write(notebook, executed)
    NotebookNotary().sign(notebook)  # it was run here: JupyterLab need not distrust its outputs
    runs = [one for one in store.summaries()[::-1] if one.id not in before]
    _report(store, runs)
    print(f"\nThe executed notebook: {executed}\nThe run logs:          {_relative(store.folder)}")
    if failure:
        print(f"\nA cell failed:\n{failure}", file=sys.stderr)
        return 1
    print("Open it in JupyterLab: make lab")
    return 0


def without_keys() -> None:
    """The demonstration needs none and must not use any."""
    for name in KEYS:
        os.environ.pop(name, None)


def _put_aside(executed: Path, notebook: nbformat.NotebookNode) -> None:
    """Keep an executed notebook in which somebody has written cells of their own."""
    if not executed.exists():
        return
    own = [cell.source for cell in nbformat.read(executed, as_version=4).cells]
    if own == [cell.source for cell in notebook.cells]:
        return
    number = 1
    while (kept := executed.with_suffix(f".{number}.ipynb")).exists():
        number += 1
    executed.rename(kept)
    print(f"You have changed {executed}: your version is now {kept}")


def execute(notebook: nbformat.NotebookNode, folder: Path) -> str:
    """Run all cells, with a bar that moves; the error of the one that failed, if one did."""
    with tqdm(total=len(notebook.cells), desc="Executing the notebook", unit="cell", file=sys.stdout) as bar:
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            timeout=120,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(folder)}},
            on_cell_complete=lambda cell, cell_index: bar.update(cell_index + 1 - bar.n),
        )
        try:
            client.execute()
        except CellExecutionError as error:
            return str(error)
    return ""


def _report(store: Store, runs: list[RunSummary]) -> None:
    print(f"\nIts cells made {len(runs)} runs. The first:\n")
    if runs:
        print(run_text(store.load(runs[0].id)))
    print()
    for one in runs:
        first_line = one.prompt.strip().splitlines()[0]
        print(f"  {one.id}  {one.status:<10} {one.rounds:>2} rounds  {first_line[:70]}")


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
