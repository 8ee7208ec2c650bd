"""The stored notebooks: complete outputs of this version, readable without a kernel."""

from __future__ import annotations

import getpass
import re
import socket
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from shutil import which
from typing import Any

import nbformat
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
QUICKSTART = NOTEBOOKS / "01_quickstart.ipynb"
MOST = {
    "01_quickstart": 400_000,
    "02_guidance": 700_000,
    "03_limits_and_recovery": 700_000,
    "04_tools_and_approval": 450_000,
    "05_workflows": 400_000,
    "06_failed_trace": 500_000,
    "07_trace_tables": 1_100_000,
    "08_plans": 450_000,
    "09_experiments": 500_000,
    "10_chat": 150_000,
    "11_any_agent": 60_000,
}
"""Bytes of each file that web viewers still render; the first notebook renders at once."""
TOLD_BY_OTHERS = "07_trace_tables"
"""A notebook with recordings from other machines, including their folders."""
PLACE = re.compile(r"""(?<![\w.:/<>~*-])/(?:[\w.-]+/)+[\w.-]+|[A-Z]:\\\\""")
"""An absolute path."""
NO_FILE = "/dev/null"
"""The missing file in a diff that creates it."""
DURATION = re.compile(r'<span class="agentnb-part-of"[^>]*>[\d.:]+(?: m?s)?</span>')
"""The duration of a run, shown from 0.1 s on: on a busy machine more runs take that long."""

sys.path.insert(0, str(NOTEBOOKS))
from stored import cards, made  # noqa: E402


@pytest.fixture(scope="module", params=MOST)
def path(request: pytest.FixtureRequest) -> Path:
    return NOTEBOOKS / f"{request.param}.ipynb"


@pytest.fixture(scope="module")
def stored(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


@pytest.fixture(scope="module")
def quickstart() -> Any:
    return nbformat.read(QUICKSTART, as_version=4)


def test_each_notebook_is_stored() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("[01]*.ipynb") if ".executed" not in path.name} == set(MOST)


def agent_cells(notebook: Any) -> list[Any]:
    found = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith("%%agent")]
    return [cell for cell in found if "--dry" not in cell.source]


def texts(cell: Any) -> list[str]:
    """Return all text in the outputs of a cell, without pictures."""
    found = [output.get("text", "") for output in cell.get("outputs", ())]
    for output in cell.get("outputs", ()):
        found += [str(value) for kind, value in output.get("data", {}).items() if not kind.startswith("image/")]
    return found


class Skeleton(HTMLParser):
    """Elements and their classes, without words and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.bones: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.bones.append(f"<{tag} {dict(attrs).get('class', '')}>")

    def handle_endtag(self, tag: str) -> None:
        self.bones.append(f"</{tag}>")


def skeleton(cell: Any) -> list[Any]:
    """Return the kinds of outputs, and the structure of those in HTML."""
    found: list[Any] = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        parser = Skeleton()
        parser.feed(DURATION.sub("", data.get("text/html", "")))
        found.append((output.output_type, sorted(data), parser.bones))
    return found


def changed(stored: Any, path: Path) -> set[str]:
    """Return ids of cells whose outputs change when the notebook is rebuilt."""
    pairs = zip(stored.cells, made(path).cells, strict=True)
    return {cell.id for cell, again in pairs if skeleton(cell) != skeleton(again)}


@pytest.mark.req("R3.13")
def test_each_agent_cell_has_its_card_and_its_answer(quickstart: Any) -> None:
    assert len(agent_cells(quickstart)) >= 6
    for cell in agent_cells(quickstart):
        shown = [
            output.data
            for output in cell.outputs
            if output.output_type != "stream" and 'class="agentnb-run"' in output.data.get("text/html", "")
        ]
        assert len(shown) == 1, cell.id
        assert set(shown[0]) == {"text/html", "text/plain"}
        assert "Transcript" in shown[0]["text/html"]
        if "--max-rounds" not in cell.source and not shown[0]["text/plain"].startswith("Ended"):
            assert "agentnb-answer" in shown[0]["text/html"], cell.id
        assert not any(output.output_type == "execute_result" for output in cell.outputs), cell.id
    assert all(cell.outputs for cell in quickstart.cells if cell.source.startswith(("%agent", "%%agent")))


def test_each_run_of_a_cell_has_its_card(stored: Any) -> None:
    cells = [cell for cell in agent_cells(stored) if "--background" not in cell.source]
    assert len(cells) >= 4 or not any(cell.source.startswith("%%agent") for cell in stored.cells)
    for cell in cells:
        if [output for output in cell.outputs if output.output_type == "error"]:
            continue  # no run started: its budget was spent
        shown = [output.data for output in cell.outputs if 'class="agentnb-run"' in output.get("data", {}).get("text/html", "")]
        assert len(shown) == 1 and set(shown[0]) == {"text/html", "text/plain"}, cell.id
    assert all(cell.outputs for cell in stored.cells if cell.source.startswith(("%agent", "%%agent")))


def test_stored_notebook_needs_no_kernel(stored: Any) -> None:
    assert "widgets" not in stored.metadata
    assert not [cell.id for cell in stored.cells if "widget-view" in str(cell.get("outputs", ""))]


def test_first_run_expands_to_what_the_model_saw(quickstart: Any) -> None:
    first, *others = [card["text/html"] for card in cards(quickstart)]
    assert first.count('class="agentnb-saw"') == 6
    assert "system-reminder" in first and "You are an agent" in first
    assert not [card for card in others if "agentnb-saw" in card]


def test_stored_notebook_reveals_nothing_about_the_machine(stored: Any, path: Path) -> None:
    names = "|".join(map(re.escape, (getpass.getuser(), socket.gethostname())))
    folders = "|".join(map(re.escape, (f"{tempfile.gettempdir()}/", str(NOTEBOOKS.parent))))
    here = rf"\b({names})@|ipykernel_|{folders}"
    for cell in stored.cells:
        for text in texts(cell):
            if path.stem != TOLD_BY_OTHERS:
                assert not {*PLACE.findall(text)} - {NO_FILE} and not re.search("/home/|/Users/", text), cell.id
            assert not re.search(here, text), cell.id
        assert "execution" not in cell.metadata
    assert dict(stored.metadata.language_info) == {"name": "python"}


def test_stored_notebook_stays_small(path: Path) -> None:
    assert path.stat().st_size < MOST[path.stem]


def test_run_list_contains_only_its_own_runs(quickstart: Any) -> None:
    (history,) = [cell for cell in quickstart.cells if cell.source == "%agent history"]
    assert history.outputs[0].data["text/html"].count('class="agentnb-history-run"') == 1


@pytest.mark.nightly("by day nbval executes the notebooks")
@pytest.mark.slow("executes each notebook")
def test_stored_outputs_are_up_to_date(stored: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENTNB_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    if path.stem == "11_any_agent" and (absent := [agent for agent in ("opencode", "kimi") if which(agent) is None]):
        pytest.skip(f"{' and '.join(absent)}: not installed here; make test runs the notebook with a stand-in")
    old = changed(stored, path)
    if old:  # kernels pass on messages of a busy machine on standard error, which do not recur
        old &= changed(stored, path)
    assert old == set(), "the stored outputs are not those of this version: make outputs, and look at them"
