"""Properties of all plots: accepted runs, the frame around the axes, and untrusted texts."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from matplotlib.figure import Figure
from matplotlib.text import Text as Words
from plotted_runs import eventful, guided, names, words
from run_builder import RunBuilder, called, guidance_of, todo

from agentnb import Run, Store, plots, save_trace
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.errors import SettingsError
from agentnb.plots.drawing.figure import describe
from agentnb.plots.drawing.plot_style import clean, distinct, short, whole_ticks

HOSTILE = (
    "$x^2$",
    "$\\frac{1}{",
    "a\x1b[31mred\x00",
    "日本語 😀",
    "\u202egpj.exe",
    "<b>bold</b>",
    "one\ntwo",
    "model",
    "x" * 300,
    "\\$",
    "_hidden",
    " ",
)
"""Possible names of tools, models and cells in a foreign trace."""


def hostile() -> Run:
    """Return a run that uses this name for everything that has one."""
    builder = RunBuilder(run_id="$\\alpha$", model="$\\beta$\x1b[0m")
    for index, name in enumerate(HOSTILE):
        builder.add(e.RoundStarted, index=index, reason="prompt").add(e.GuidanceGiven, guidance=guidance_of(name))
        call = called(name, f"c{index}")
        builder.add(e.ModelReplied, message=Message("assistant", (Text("x"), call)), usage=Usage(10, 1))
        builder.add(e.ToolStarted, call=call).add(e.TodosChanged, todos=(todo(1, title=name),), by="outside")
        builder.add(e.RoundFinished, index=index, status="success")
    return builder.run


def png(figure: Figure) -> bytes:
    file = BytesIO()
    figure.savefig(file)
    return file.getvalue()


def test_hostile_names_are_drawn_as_text_without_a_warning(subtests: pytest.Subtests) -> None:
    run = hostile()
    for name in sorted({*plots.__all__} - plots.OF_A_TABLE - plots.OF_EXPERIMENTS):
        with subtests.test(name):
            figure = getattr(plots, name)(run)
            assert png(figure).startswith(b"\x89PNG")
            assert not any(found.get_parse_math() for found in figure.findobj(Words) if found.get_text())
            assert all(text.isprintable() for text in words(figure))
    lanes = names(plots.timeline(run))
    assert {"$x^2$", "<b>bold</b>", "one two", "model (tool)", "(no name)"} <= set(lanes)
    assert max(map(len, lanes)) <= 26


def test_empty_plot_explains_that_there_is_no_data(subtests: pytest.Subtests) -> None:
    begun = RunBuilder().run
    said = {
        "cost": "No model was called.",
        "guidance": "No guidance was given.",
        "detections": "Nothing was found.",
        "similarity": "The run has fewer than two rounds to compare.",
        "survival": "There are no rounds.",
        "timeline": "The run has no rounds.",
        "todos": "The runs have no todo list.",
        "tokens": "There are no rounds.",
        "tools": "No tool was called.",
    }
    for name, sentence in said.items():
        with subtests.test(name):
            figure = getattr(plots, name)(begun)
            assert sentence in words(figure) and figure.axes, "without axes a notebook would not show it"
            if name not in plots.OF_ONE_RUN:
                assert any(text.startswith("There are no r") for text in words(getattr(plots, name)([])))
    assert "There are no runs." in words(plots.ends([])) and "There are no runs." in words(plots.outcomes([]))
    reply = RunBuilder().round("x").run
    assert "No token counts are recorded." in words(plots.tokens(reply))
    assert "Neither tokens nor cost are recorded." in words(plots.cost(reply))


def test_plots_accept_what_tables_accept(tmp_path: Path, snapshot: Snapshot) -> None:
    for number in range(2):
        save_trace(guided(f"r-{number}"), tmp_path / f"r-{number}.jsonl")
    about = "n = 2 runs: 12 pieces of guidance"
    for source in (tmp_path, str(tmp_path / "*.jsonl"), Store(tmp_path), sorted(tmp_path.iterdir())):
        assert about in words(plots.guidance(source))
    assert "Run r-0 (scripted:hand): 4 rounds, 3 tool calls" in words(plots.timeline(tmp_path / "r-0.jsonl"))
    with pytest.raises(SettingsError, check=snapshot.worded):
        plots.timeline(tmp_path)


def test_figures_are_complete_without_overlapping_text(subtests: pytest.Subtests) -> None:
    run = eventful()
    for name in sorted({*plots.__all__} - plots.OF_A_TABLE - plots.OF_EXPERIMENTS):
        with subtests.test(name):
            figure = getattr(plots, name)(run)
            figure.draw_without_rendering()
            around = [found for found in (*figure.texts, *figure.legends) if found.get_window_extent().height]
            boxes = [found.get_window_extent() for found in around] + [axes.get_tightbbox() for axes in figure.axes]
            width, height = figure.get_size_inches() * figure.dpi
            assert width == 700
            for box in boxes:
                assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
            for place, box in enumerate(boxes):
                assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_cropped_figure_keeps_title_legend_and_notes() -> None:
    """Render as the inline backend does."""
    figure = plots.tokens(eventful())
    figure.draw_without_rendering()
    kept = figure.get_tightbbox().bounds
    boxes = [found.get_window_extent() for found in (*figure.texts, *figure.legends)]
    left, bottom, width, height = (length * figure.dpi for length in kept)
    for box in boxes:
        assert box.x0 >= left - 1 and box.y0 >= bottom - 1 and box.x1 <= left + width + 1 and box.y1 <= bottom + height + 1


def test_plots_never_rely_on_colour_alone() -> None:
    legend = {}
    for figure in (plots.timeline(eventful()), plots.guidance(guided()), plots.tools(eventful())):
        for patch in (patch for found in figure.legends for patch in found.get_patches()):
            legend[patch.get_label()] = (patch.get_hatch(), patch.get_facecolor())
    plain = [label for label, (hatch, _) in legend.items() if not hatch]
    assert sorted(plain) == ["followed", "model", "succeeded", "tool"], "one plain label per plot or lane"


def test_background_is_opaque_and_user_style_changes_nothing() -> None:
    import matplotlib as mpl
    from matplotlib import style

    before = png(plots.tools(eventful()))
    with style.context(["dark_background", {"font.size": 20, "text.usetex": True, "savefig.facecolor": "black"}]):
        mine = dict(mpl.rcParams)
        figure = plots.tools(eventful())
        assert dict(mpl.rcParams) == mine
        data, about = figure._repr_png_()
    assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    assert png(figure) == before
    assert about["width"] == 700 and about["alt"].startswith("Tool calls, by tool. Run …ab12cd34")
    assert int.from_bytes(data[16:20], "big") == 1_400


def drawing(figure: Figure) -> str:
    """The SVG in a figure's HTML."""
    return b64decode(figure._repr_html_().partition("base64,")[2].partition('"')[0]).decode()


def test_html_of_a_figure_takes_colors_from_the_page_theme() -> None:
    from matplotlib import style

    svg = drawing(plots.timeline(eventful()))
    assert "prefers-color-scheme:dark" in svg and "fill: var(--ffffff,#ffffff)" in svg and "var(--222222,#222222)" in svg
    assert not re.search(r": #(222222|5a5a5a|ffffff|000000)", svg), "each colour of ground and words has another in the dark"
    with style.context({"svg.fonttype": "none"}):
        assert "<text" not in drawing(plots.timeline(eventful()))


def test_trace_names_are_escaped_in_figure_html() -> None:
    figure = plots.tools(eventful())
    describe(figure, '"><script>alert(1)</script>')
    html = figure._repr_html_()
    assert html.count("<") == 1 and "&quot;&gt;&lt;script" in html


def test_figure_describes_itself_and_survives_pickling(snapshot: Snapshot) -> None:
    figure = plots.todos(eventful())
    assert isinstance(figure, Figure)
    assert repr(figure) == snapshot
    again = pickle.loads(pickle.dumps(figure))
    assert repr(again) == repr(figure) and png(again) == png(figure)


def test_undrawable_characters_become_placeholders() -> None:
    assert clean("half \ud83d, \u202eright to left, 日, \x1b[0m, ✓") == "half �, �right to left, �, �[0m, ✓"


def test_long_names_keep_their_ends_and_stay_distinct() -> None:
    assert short("mcp__github__create_pull_request") == "mcp__github__…pull_request"
    assert len(short("mcp__github__create_pull_request")) == 26
    assert distinct(["a" * 30, "a" * 31, "b"]) == [short("a" * 30), f"{short('a' * 30)} (2)", "b"]


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [(1, 1, [1]), (1, 5, [1, 2, 3, 4, 5]), (1, 20, [1, *range(2, 21, 2)]), (1, 100, [1, *range(10, 101, 10)])],
)
def test_round_axis_has_integer_ticks(first: int, last: int, wanted: list[int]) -> None:
    assert whole_ticks(first, last) == wanted
    assert len(whole_ticks(first, last)) <= 16


WITHOUT = """
import json, sys
from agentnb import plots
loaded = [name for name in ("matplotlib", "pandas", "numpy") if name in sys.modules]
sys.modules["matplotlib"] = None  # as if it were not installed
try:
    plots.todos([])
except Exception as error:
    told = [type(error).__name__, str(error)]
del sys.modules["matplotlib"]
plots.todos([]).savefig(sys.argv[1])
print(json.dumps([loaded, told, "matplotlib.pyplot" in sys.modules]))
"""


def test_first_plot_loads_matplotlib_but_never_pyplot(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    command = [sys.executable, "-W", "error", "-c", WITHOUT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    error = "Plots need the matplotlib package. Install it: pip install 'matplotlib>=3.10'"
    assert json.loads(done.stdout) == [[], ["SettingsError", error], False]
    assert "<svg" in path.read_text(encoding="utf-8")
