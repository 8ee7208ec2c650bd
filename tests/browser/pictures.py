"""Makes the pictures of the README in a real JupyterLab: ``make pictures``. Look at them before they are kept.

Usage: python tests/browser/pictures.py FOLDER

The model is scripted and so are its words, but its calls are made: the tables and the figure are those of the penguins.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "support")]

from browsing import FLAGS, chromium  # noqa: E402
from pages import Lab  # noqa: E402
from pictures_made_from import STORED, made_from  # noqa: E402
from servers import serving  # noqa: E402

WIDTH = 1_000
COLOURS = 128
MOST = 150_000
"""Bytes of a picture."""

TOOLS = '''
from typing import Literal

import matplotlib.pyplot as plt
import pandas as pd

from agentnb import ask_person

Measure = Literal["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
Group = Literal["species", "island", "sex"]
penguins = pd.DataFrame()


def load_penguins(path: str) -> str:
    """Load the table of penguins."""
    global penguins
    penguins = pd.read_csv(path)
    species = ", ".join(f"{count} {name}" for name, count in penguins["species"].value_counts().items())
    return f"{len(penguins)} penguins: {species}. Columns: {', '.join(penguins.columns)}."


def compare(column: Measure, by: Group) -> pd.DataFrame:
    """Compare groups of penguins."""
    return penguins.groupby(by)[column].agg(["count", "mean", "std", "min", "max"]).round(1)


def plot(column: Measure, by: Group):
    """Draw a histogram of a measure."""
    axes = penguins.pivot(columns=by, values=column).plot.hist(bins=25, alpha=0.6, figsize=(6, 2.1))
    axes.set(xlabel=column, ylabel="penguins")
    axes.figure.tight_layout()
    plt.close(axes.figure)
    return axes.figure
'''
STORY = '''
from agentnb import ToolCall
from agentnb.core.messages import Thinking
from story import Slow, write


def update(**changes):
    """One call that changes several todos: their numbers behind an underscore."""
    todos = [{"id": int(key[1:]), "status": status} for key, status in changes.items()]
    return ToolCall("todo_operations", {"operation": "update", "todoUpdates": todos})


class Told(Slow):
    """Slow enough to be watched."""

    name = "scripted:penguins"


PLAN = [
    Thinking("The question has two parts: which species is the heaviest, and how clear that is. A mean alone does not tell."),
    "I will load the table first, compare the species by mass, and look at how far they overlap.",
    write("Load the table of penguins", "Compare the species by mass", "Draw the masses", "Check that it is not the sexes"),
]
LOAD = ["Now the table.", update(_1="in-progress"), ToolCall("load_penguins", {"path": "data/penguins.csv"})]
COMPARE = [
    "It has 344 penguins of three species.",
    update(_1="completed", _2="in-progress"),
    ToolCall("compare", {"column": "body_mass_g", "by": "species"}),
]
DRAW = [
    "**Gentoo** weigh 5.1 kg in the mean, more than a kilogram above the two others. Now how far they overlap.",
    update(_2="completed", _3="in-progress"),
    ToolCall("plot", {"column": "body_mass_g", "by": "species"}),
]
SEEN = (
    "The figure shows two groups: Adelie and Chinstrap lie on each other, Gentoo stand apart to the right and only their "
    "lightest overlap with the rest. Males may be heavier than females everywhere, so before I answer I will"
)
CHECK = [SEEN + " compare the sexes as well.", update(_3="completed", _4="in-progress")]
SEXES = [ToolCall("compare", {"column": "body_mass_g", "by": "sex"})]
ASK = [
    ToolCall(
        "ask_person",
        {
            "question": "11 penguins have no sex in the table. Shall I leave them out, or count them as a group of their own?",
            "options": ["Leave them out", "As a group of their own"],
        },
    )
]
END = [update(_4="completed")]
ANSWER = """**Gentoo are the heaviest, clearly.** They weigh 5,076 g in the mean:

| species | mean g | lightest g | heaviest g |
|---|---:|---:|---:|
| Adelie | 3,701 | 2,850 | 4,775 |
| Chinstrap | 3,733 | 2,700 | 4,800 |
| Gentoo | 5,076 | 3,950 | 6,300 |

It is not the sexes: males and females differ by 683 g, half of what sets Gentoo apart."""


OUTLINE = "Look at the masses by species, then whether the sexes explain the difference."
MASSES = "Gentoo: 5,076 g in the mean. Adelie: 3,701 g. Chinstrap: 3,733 g."
SEX = "Males and females differ by 683 g in the mean, in every species."
DRAFT = "Gentoo are the heaviest penguins."
FAULT = '{"is_good": false, "note": "It says nothing of the sexes."}'
REDRAFT = "Gentoo are the heaviest, with 5,076 g in the mean. The sexes differ by 683 g, half of what sets Gentoo apart, so"


def model(*replies, pause=0.02):
    return Told(replies, pause)
'''
CELL = """%%agent -m penguin_model -t load_penguins compare plot ask_person
Which species of penguin is the heaviest, and how clear is the difference?"""
WORKFLOW = """%%workflow -m penguin_model --prompt "Which species of penguin is the heaviest?"
agents:
  planner: {instruction: Say what to look at.}
  masses: {instruction: Report on the masses.}
  sexes: {instruction: Report on the sexes.}
  author: {instruction: Write two sentences from the reports. Mend what a check found.}
  judge:
    instruction: Check the text against the reports.
    structured_output:
      type: object
      properties: {is_good: {type: boolean}, note: {type: string}}
      required: [is_good]
workflow:
  - {id: plan, type: agent, name: planner}
  - {id: reports, type: parallel, steps: [{type: agent, name: masses}, {type: agent, name: sexes}]}
  - {id: text, type: agent, name: author}
  - {id: check, type: agent, name: judge}
  - {id: good, type: condition, condition: "{{ $steps.check.output.is_good }}", false: {goto: text}}
  - {id: publish, type: human, ask: Publish it?, confirm: true}"""
SETUP = "%load_ext agentnb\nfrom penguin_tools import ask_person, compare, load_penguins, plot\nfrom penguin_story import *"
REPLIES = {
    "running": "PLAN, LOAD, COMPARE, DRAW, [SEEN, 600.0]",
    "waiting": "PLAN, LOAD, COMPARE, DRAW, CHECK, ASK, ANSWER, pause=0",
    "done": "PLAN, LOAD, COMPARE, DRAW, CHECK, SEXES, END, ANSWER",
    "workflow": "OUTLINE, MASSES, SEX, DRAFT, FAULT, [REDRAFT, 600.0], pause=0",
}
"""What the model says for each picture."""


def main(folder: Path) -> None:
    """Make the pictures in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with _lab() as lab:
        _picture(lab, folder / "card-running.png", "running", "Light", until_it_streams)
        _picture(lab, folder / "card-waiting.png", "waiting", "Dark", until_it_asks)
        _picture(lab, folder / "card-done.png", "done", "Light", until_it_is_done)
        _picture(lab, folder / "workflow-running.png", "workflow", "Light", _until_it_writes_again)
    (folder / STORED.name).write_text(made_from() + "\n", encoding="utf-8")


def write_story(folder: Path) -> None:
    """Write the modules that the cells import."""
    for name, text in (("penguin_tools", TOOLS), ("penguin_story", STORY), ("story", (HERE / "story.py").read_text())):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


@contextmanager
def _lab() -> Iterator[Lab]:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as specs:
        with serving("jupyterlab", Path(home), Path(specs)) as (url, folder):
            write_story(folder)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
                page = browser.new_page(viewport={"width": WIDTH, "height": 2_000}, device_scale_factor=1.6)
                page.set_default_timeout(60_000)
                lab = Lab(page, url, folder)
                try:
                    yield lab
                finally:
                    lab.end()


def _picture(lab: Lab, path: Path, name: str, theme: str, wait: Callable[[Any], None]) -> None:
    setup = f"{SETUP}\npenguin_model = model({REPLIES[name]})"
    cell = WORKFLOW if name == "workflow" else CELL
    lab.open(lab.write(f"{name}.ipynb", [setup, cell, "pass"]))
    lab.theme(theme)
    lab.command_done("application:toggle-left-area")
    lab.page.add_style_tag(content=".Toastify { display: none !important }")
    lab.run(0)
    lab.start(1)
    shown = lab.cell(1)
    wait(shown)
    lab.activate(2)  # without the bar of the active cell
    shown.hover(position={"x": 5, "y": 5})
    lab.page.wait_for_timeout(700)  # pictures load, notes go
    path.write_bytes(_small(shown.screenshot()))
    print(f"{path}: {path.stat().st_size:,} bytes")
    assert path.stat().st_size < MOST, "too large for a README"
    if name != "done":
        lab.interrupt()
        lab.wait_idle()


def until_it_streams(cell: Any) -> None:
    cell.get_by_text("so before I answer I will").wait_for()


def until_it_asks(cell: Any) -> None:
    cell.get_by_role("button", name="Leave them out").wait_for()


def until_it_is_done(cell: Any) -> None:
    cell.locator(".agentnb-answer table").wait_for()


def _until_it_writes_again(cell: Any) -> None:
    cell.locator(".agentnb-graph-label", has_text="once").wait_for()
    cell.get_by_text("half of what sets Gentoo apart").first.wait_for()


def _small(picture: bytes) -> bytes:
    """The same in few colours."""
    from PIL import Image

    made = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return made.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
