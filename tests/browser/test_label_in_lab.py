"""Judging runs by keys in a real JupyterLab."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from agentnb.store.run_labels import read_labels

pytestmark = pytest.mark.browser

SHOW = "import agentnb\nbench = agentnb.label(['complex-fails', 'healthy', 'simple-fail'], {!r})\nbench"


def test_keys_judge_runs_without_affecting_the_notebook(lab: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    lab.open(lab.write("label.ipynb", [SHOW.format(str(path))]))
    lab.run_all()
    bench = lab.page.get_by_role("region", name="Judge runs")
    status = bench.get_by_role("status")
    status.filter(has_text="Run 1 of 3, 0 judged").wait_for()
    wait_until(lambda: "repeated the answer" not in bench.inner_text() and "heat pumps" in bench.inner_text())
    bench.get_by_role("status").click()
    lab.page.keyboard.press("2")
    status.filter(has_text="Run 2 of 3, 1 judged").wait_for()
    lab.page.keyboard.press("n")
    status.filter(has_text="Run 3 of 3, 1 judged").wait_for()
    bench.get_by_role("button", name="1 healthy").click()
    status.filter(has_text="Run 2 of 3, 2 judged").wait_for()
    lab.page.keyboard.press("u")
    status.filter(has_text="Run 3 of 3, 1 judged").wait_for()
    lab.page.keyboard.press("x")  # it would cut the cell
    lab.page.keyboard.press("9")
    lab.page.keyboard.press("p")
    status.filter(has_text="Run 2 of 3, 1 judged").wait_for()
    assert [label.label for label in read_labels(path)] == [1]
    wait_until(lambda: bench.count() == 1 and lab.errors() == [] and lab.complaints() == [])


SAMPLE = """
import agentnb
from run_builder import RunBuilder
cells = [(arm, number) for arm in ("secret_old", "secret_new") for number in range(6)]
runs = [RunBuilder(f"Task {{n}}", run_id=f"{{arm}}-{{n}}", tags=(f"variant:{{arm}}",)).round("Done.").run for arm, n in cells]
bench = agentnb.label(runs, {!r}, sample=2, who="ada")
bench
"""


def test_sample_of_an_experiment_reveals_no_variant_on_page(lab: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    support = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1] / 'support')!r})"
    lab.open(lab.write("sample.ipynb", [support, SAMPLE.format(str(path))]))
    lab.run_all()
    bench = lab.page.get_by_role("region", name="Judge runs")
    status = bench.get_by_role("status")
    for count in range(4):
        status.filter(has_text=f"{count} judged").wait_for()
        bench.filter(has_text="Task").filter(has_not_text="secret").wait_for()
        bench.get_by_role("button", name="1 healthy").click()
    status.filter(has_text="All 4 runs have been judged").wait_for()
    judged = read_labels(path)
    assert sorted(one.run_id[:10] for one in judged) == ["secret_new"] * 2 + ["secret_old"] * 2
    assert {one.who for one in judged} == {"ada"}


@pytest.mark.nightly("by day test_panel_in_lab ends the kernel of a panel")
def test_notebook_shows_the_labels_path_without_its_kernel(lab: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    lab.open(lab.write("gone.ipynb", [SHOW.format(str(path))]))
    lab.run_all()
    bench = lab.page.get_by_role("region", name="Judge runs")
    bench.get_by_role("status").filter(has_text="Run 1 of 3, 0 judged").wait_for()
    bench.get_by_role("button", name="2 failed").click()
    bench.get_by_role("status").filter(has_text="Run 2 of 3, 1 judged").wait_for()
    expected = f"3 runs to judge by hand. Judgements are in {path}: agentnb.labels({str(path)!r}) reads them."
    lab.save()
    (output,) = lab.stored("gone.ipynb")["cells"][0]["outputs"]
    assert expected in "".join(output["data"]["text/plain"]), "also in a notebook that is saved while it is used"
    os.kill(int(lab.value("__import__('os').getpid()")), signal.SIGKILL)
    lab.page.locator(".jp-Dialog button", has_text="Ok").click()
    bench.wait_for(state="detached")
    wait_until(
        lambda: expected in lab.output(0).inner_text() and "Run this cell again to continue." in lab.output(0).inner_text()
    )
    lab.wait_idle()
    lab.save()
    (output,) = lab.stored("gone.ipynb")["cells"][0]["outputs"]
    assert (output["output_type"], set(output["data"])) == ("execute_result", {"text/html", "text/plain"})
    assert [label.label for label in read_labels(path)] == [1] and lab.complaints() == []
