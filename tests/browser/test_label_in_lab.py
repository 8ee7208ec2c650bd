"""Judging runs by keys in a real JupyterLab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb.traces.labels import read_labels

pytestmark = pytest.mark.browser

SHOW = "import agentnb\nbench = agentnb.label(['complex-fails', 'healthy', 'simple-fail'], {!r})\nbench"


def test_keys_judge_one_run_after_the_other_and_do_nothing_to_the_notebook(lab: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    lab.open(lab.write("label.ipynb", [SHOW.format(str(path))]))
    lab.run_all()
    bench = lab.page.get_by_role("region", name="Judge runs")
    told = bench.get_by_role("status")
    told.filter(has_text="Run 1 of 3, 0 judged").wait_for()
    assert "repeated the answer" not in bench.inner_text() and "heat pumps" in bench.inner_text()
    bench.get_by_role("status").click()
    lab.page.keyboard.press("2")
    told.filter(has_text="Run 2 of 3, 1 judged").wait_for()
    lab.page.keyboard.press("n")
    told.filter(has_text="Run 3 of 3, 1 judged").wait_for()
    bench.get_by_role("button", name="1 healthy").click()
    told.filter(has_text="Run 2 of 3, 2 judged").wait_for()
    lab.page.keyboard.press("u")
    told.filter(has_text="Run 3 of 3, 1 judged").wait_for()
    lab.page.keyboard.press("x")  # it would cut the cell
    lab.page.keyboard.press("9")
    lab.page.keyboard.press("p")
    told.filter(has_text="Run 2 of 3, 1 judged").wait_for()
    assert [one.label for one in read_labels(path)] == [1]
    assert bench.count() == 1 and lab.errors() == [] and lab.complaints() == []
