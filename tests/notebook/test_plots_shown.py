"""A plot in a notebook: shown once, whatever the state of matplotlib."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot
from real_kernel import Cell, Kernel

RUN = (
    "from agentnb import Agent, plots\n"
    "run = Agent('simulated:disciplined', tools=[add]).run_sync('- `add(1, 2)`\\n- `add(3)`')\n"
    "import sys; print('matplotlib' in sys.modules)"
)


def pictures(cell: Cell) -> list[tuple[str, dict[str, Any]]]:
    """Return the pictures of a cell, each with its output type and all its forms."""
    assert cell.status == "ok", cell.error
    return [(output["type"], output["data"]) for output in cell.outputs if "image/png" in output.get("data", {})]


@pytest.mark.slow("runs cells in a kernel")
def test_plot_is_shown_once_with_and_without_pyplot(kernel: Kernel, subtests: pytest.Subtests) -> None:
    cell = kernel.run(RUN)
    assert cell.status == "ok" and cell.printed.strip() == "False", cell.error
    for when, code in {
        "without pyplot": "plots.timeline(run)",
        "as it is displayed": "display(plots.timeline(run))",
        "with pyplot": "import matplotlib.pyplot as plt\nplots.timeline(run)",
        "with the inline backend": "%matplotlib inline\nplots.timeline(run)",
    }.items():
        with subtests.test(when):
            ((kind, forms),) = pictures(kernel.run(code))
            assert kind == ("display_data" if "display(" in code else "execute_result")
            assert forms["text/plain"].startswith("Timeline of a run. Run …")
    with subtests.test("not shown"):
        assert pictures(kernel.run("figure = plots.timeline(run)")) == []
    with subtests.test("pyplot knows nothing of it"):
        assert kernel.value("plt.get_fignums()") == "[]"


@pytest.mark.slow("runs cells in a kernel")
def test_plot_has_alternative_text_and_page_width(kernel: Kernel, snapshot: Snapshot) -> None:
    code = "from agentnb import plots\nprint(plots.todos([])._repr_png_()[1])"
    assert kernel.run(code).printed == snapshot
