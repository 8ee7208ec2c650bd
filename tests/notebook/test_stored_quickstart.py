"""The stored quickstart: people without a kernel read it, so its outputs must be there, whole, and of this version."""

from __future__ import annotations

import getpass
import re
import socket
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
QUICKSTART = NOTEBOOKS / "01_quickstart.ipynb"
MOST = 400_000
"""Bytes of the file: what a page that shows notebooks still shows at once."""
PLACE = re.compile(r"""(?<![\w.:/<>~*-])/(?:[\w.-]+/)+[\w.-]+|[A-Z]:\\\\""")
"""An absolute path."""

sys.path.insert(0, str(NOTEBOOKS))
from stored import cards, made  # noqa: E402


@pytest.fixture(scope="module")
def stored() -> Any:
    return nbformat.read(QUICKSTART, as_version=4)


def agent_cells(notebook: Any) -> list[Any]:
    found = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith("%%agent")]
    return [cell for cell in found if "--dry" not in cell.source]


def texts(cell: Any) -> list[str]:
    """All that stands in the outputs of a cell, but for pictures."""
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
    """Kinds of outputs, and of those in HTML the structure."""
    found: list[Any] = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        parser = Skeleton()
        parser.feed(data.get("text/html", ""))
        found.append((output.output_type, sorted(data), parser.bones))
    return found


def changed(stored: Any) -> set[str]:
    """Ids of the cells whose outputs are others when the notebook is made again."""
    pairs = zip(stored.cells, made(QUICKSTART).cells, strict=True)
    return {cell.id for cell, again in pairs if skeleton(cell) != skeleton(again)}


@pytest.mark.req("R3.13")
def test_each_agent_cell_has_its_card_and_its_answer(stored: Any) -> None:
    assert len(agent_cells(stored)) >= 6
    for cell in agent_cells(stored):
        shown = [output.data for output in cell.outputs if 'class="agentnb-run"' in output.data.get("text/html", "")]
        assert len(shown) == 1, cell.id
        assert set(shown[0]) == {"text/html", "text/plain"}
        assert "What it did" in shown[0]["text/html"]
        if "--max-rounds" not in cell.source and not shown[0]["text/plain"].startswith("Stopped"):
            assert any(output.output_type == "execute_result" for output in cell.outputs), cell.id
    assert all(cell.outputs for cell in stored.cells if cell.source.startswith(("%agent", "%%agent")))


def test_there_is_nothing_in_it_that_needs_a_kernel(stored: Any) -> None:
    assert "widgets" not in stored.metadata
    assert not [cell.id for cell in stored.cells if "widget-view" in str(cell.get("outputs", ""))]


def test_the_first_run_opens_to_what_the_model_saw(stored: Any) -> None:
    first, *others = [card["text/html"] for card in cards(stored)]
    assert first.count('class="agentnb-saw"') == 6
    assert "system-reminder" in first and "You are an agent" in first
    assert not [card for card in others if "agentnb-saw" in card]


def test_it_tells_nothing_of_the_machine_on_which_it_was_run(stored: Any) -> None:
    names = rf"\b({re.escape(getpass.getuser())}|{re.escape(socket.gethostname())})@|/home/|/Users/|ipykernel_"
    for cell in stored.cells:
        for text in texts(cell):
            assert not PLACE.findall(text), cell.id
            assert not re.search(names, text), cell.id
        assert "execution" not in cell.metadata
    assert dict(stored.metadata.language_info) == {"name": "python"}


def test_it_is_small_and_its_list_of_runs_is_its_own(stored: Any) -> None:
    assert QUICKSTART.stat().st_size < MOST
    (history,) = [cell for cell in stored.cells if cell.source == "%agent history"]
    assert history.outputs[0].data["text/html"].count('class="agentnb-history-run"') == 1


@pytest.mark.slow("executes the quickstart")
def test_its_outputs_are_those_of_this_version(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENTNB_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    old = changed(stored)
    if old:  # a kernel passes on whatever a busy machine writes to its standard error: that is not there a second time
        old &= changed(stored)
    assert old == set(), "the stored outputs are not those of this version: make outputs, and look at them"
