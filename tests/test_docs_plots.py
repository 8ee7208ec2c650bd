"""docs/plots.md is current: its cells run, and its pictures show the current plots."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

import pytest
from PIL import Image
from run_builder import RunBuilder

from agentnb import plots, save_trace

sys.path.insert(0, str(Path(__file__).resolve().parent / "plots"))

from plot_pictures import figures

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "plots.md").read_text(encoding="utf-8")
IMAGES = ROOT / "docs" / "images" / "plots"


def test_page_and_folder_have_a_picture_for_each_plot() -> None:
    assert sorted(re.findall(r"\]\(images/plots/(\w+)\.png\)", TEXT)) == sorted(plots.__all__)
    assert sorted(path.stem for path in IMAGES.iterdir()) == sorted(plots.__all__)
    captions = re.findall(r"^`(\w+)` !\[.*\]\(images/plots/(\w+)\.png\)", TEXT, re.MULTILINE)
    assert captions == [(name, name) for name, _ in captions] and len(captions) == len(plots.__all__)


@pytest.mark.nightly("by day plots are drawn of other runs, and every plot has its picture")
@pytest.mark.slow("runs twelve simulated runs")
def test_pictures_are_current() -> None:
    for name, figure in figures():
        with Image.open(IMAGES / f"{name}.png") as picture:
            assert unescape(picture.info["Description"]) == repr(figure), "run make pictures and look at them"
            width, height = figure.get_size_inches() * 200
            assert picture.size == (round(width), round(height))
            assert (IMAGES / f"{name}.png").stat().st_size < 60_000


def test_cell_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunBuilder().round("Done.").run
    (tmp_path / ".agentnb" / "runs").mkdir(parents=True)
    save_trace(run, tmp_path / ".agentnb" / "runs" / "r-1.jsonl")
    (cell,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    exec(cell, {"run": run})
    assert (tmp_path / "tokens.png").read_bytes().startswith(b"\x89PNG")
