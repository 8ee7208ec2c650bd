"""Results of tools as text for a model."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from asserted_sentences import Snapshot
from matplotlib.figure import Figure

from agentnb import tables
from agentnb.agent.agent import Agent
from agentnb.core.messages import Image, Text, ToolCall
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.store.store import Store
from agentnb.tools.function import FunctionTool
from agentnb.tools.rendering import as_text, success
from agentnb.tools.tool import ToolContext, ToolOutcome, failure


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.5


SHOWN = [
    ("žluťoučký\n", "žluťoučký\n"),
    ("", ""),
    (None, "(no value)"),
    (3, "3"),
    (-2.5, "-2.5"),
    (True, "true"),
    (10**30, "1" + "0" * 30),
    ([1, "a", None], '[1,"a",null]'),
    ((1, 2), "[1,2]"),
    ({"a": {"b": [1]}}, '{"a":{"b":[1]}}'),
    ({1: 2}, '{"1":2}'),
    (Point(1), '{"x":1,"y":0.5}'),
    ([Point(1)], '[{"x":1,"y":0.5}]'),
    (Colour.RED, '"red"'),
    (date(2026, 1, 2), '"2026-01-02"'),
    (b"abc", "3 bytes"),
    (bytearray(2), "2 bytes"),
    (np.int64(3), "3"),
    (np.float64(2.5), "2.5"),
    (np.bool_(True), "true"),
    (np.array(4), "4"),
    (np.array([1, 2]), "[1 2]"),
    ({"mean": np.float32(0.5), "all": np.array([1, 2])}, '{"mean":0.5,"all":[1,2]}'),
]


@pytest.mark.req("R2.3")
def test_plain_values_are_shown_as_data(subtests: pytest.Subtests) -> None:
    for value, words in SHOWN:
        with subtests.test(value=value):
            assert as_text(value) == words


@pytest.mark.req("R2.3")
def test_nan_and_infinity_are_not_shown_as_null(subtests: pytest.Subtests) -> None:
    cases = [math.nan, math.inf, -math.inf, np.float64("nan"), {"mean": math.inf}]
    for value in cases:
        with subtests.test(value=value):
            assert "null" not in as_text(value)


@pytest.mark.req("R2.3")
def test_table_is_shown_with_its_size() -> None:
    words = as_text(pd.DataFrame({"name": ["a", "b"], "mass": [1.5, 2.5]}))
    assert words.startswith("DataFrame, 2 x 2\n")
    assert all(word in words for word in ("name", "mass", "1.5", "2.5"))
    assert as_text(pd.Series([1, 2], index=["a", "b"])) == "Series, 2, int64\na    1\nb    2"


@pytest.mark.req("R2.3")
def test_figures_and_axes_are_described_by_size() -> None:
    figure = Figure(figsize=(4, 3), dpi=100)
    axes = figure.subplots()
    assert as_text(figure) == "a figure of 400 x 300 pixels"
    assert as_text(axes) == "a figure of 400 x 300 pixels"


class Plain:
    def __repr__(self) -> str:
        return "<plain>"


class Anything:
    """Has every attribute."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self

    def __repr__(self) -> str:
        return "<anything>"


class FailsToShow:
    def __repr__(self) -> str:
        raise ValueError("no words")


class ShowsNoText:
    def __repr__(self) -> str:
        return 3  # type: ignore[return-value]


class FailsAsAList(Plain):
    def tolist(self) -> Any:
        raise ValueError("no list")


@pytest.mark.req("R2.3")
def test_object_is_shown_by_its_repr(subtests: pytest.Subtests) -> None:
    cases = {
        "plain": (Plain(), "<plain>"),
        "anything": (Anything(), "<anything>"),
        "fails as a list": (FailsAsAList(), "<plain>"),
        "in a list": ([Plain()], "<plain>"),
    }
    for name, (value, words) in cases.items():
        with subtests.test(name):
            assert as_text(value).strip('[]"') == words


@pytest.mark.req("R2.3", "R2.10")
def test_object_whose_repr_fails_does_not_end_the_run(subtests: pytest.Subtests) -> None:
    cases = {"fails": FailsToShow(), "no text": ShowsNoText(), "in a list": [FailsToShow()]}
    for name, value in cases.items():
        with subtests.test(name):
            run = agent_that_gets(value).run_sync("go")
            assert (run.status, len(run.rounds[0].results)) == ("completed", 1)


def agent_that_gets(value: Any) -> Agent:
    """Return an agent whose one tool returns this value."""

    def get() -> Any:
        return value

    return Agent(ScriptedModel([ToolCall("get"), "Done."]), tools=[get])


@pytest.mark.req("R2.3")
def test_recursive_data_is_shown() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    assert as_text(circle) == "[1, [...]]"
    ring: dict[str, Any] = {}
    ring["me"] = ring
    assert as_text(ring) == "{'me': {...}}"


@pytest.mark.req("R2.3")
def test_surrogates_do_not_break_the_log(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases = {
        "text": "a\ud800b",
        "value": {"a": "\ud800"},
        "key": {"\ud800": 1},
        "list": ["\udfff"],
        "table": pd.DataFrame({"a": ["\ud800"]}, dtype="object"),  # no other type of pandas takes one
        "parts": [Text("\ud800"), Image("image/png", b"png")],
        "part": Text("\ud800"),
        "outcome": ToolOutcome(True, (Text("\ud800"),)),
        "failure": failure("odd", "\ud800"),
    }
    for name, value in cases.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            run = agent_that_gets(value).run_sync("go", store=store)
            run.rounds[0].results[0].text.encode()
            assert store.load(run.id) == run


def test_text_of_an_outcome_is_encodable(subtests: pytest.Subtests) -> None:
    cases = {"text": "\ud800", "part": Text("\ud800"), "parts": [Text("\ud800"), Image("image/png", b"png")]}
    for name, value in cases.items():
        with subtests.test(name):
            success(value).text.encode()


@pytest.mark.req("KX.6")
def test_outcomes_and_message_parts_are_returned_unchanged() -> None:
    own, picture = failure("empty", "There are no rows."), Image("image/png", b"png")
    assert success(own) is own
    assert success(picture).parts == (Text("a picture (image/png, 3 bytes)"), picture)
    assert success(Text("a")).parts == (Text("a"),)


@pytest.mark.req("KX.6")
def test_outcome_keeps_the_value_beside_its_text() -> None:
    table = pd.DataFrame({"a": [1]})
    outcome = success(table)
    assert outcome.value is table
    assert (outcome.ok, outcome.error_code) == (True, None)


@pytest.mark.req("KX.6")
def test_every_failure_has_an_error_code() -> None:
    async def main() -> ToolOutcome:
        return await FunctionTool(wants_a_number).run({"x": "no"}, ToolContext("r", "c", Path(), call_in_thread))

    outcome = asyncio.run(main())
    result = outcome.as_result("toolu_1", "wants_a_number")
    assert (result.is_error, result.error_code) == (True, "invalid_arguments")
    assert (failure("timeout", "x").ok, failure("timeout", "x").error_code) == (False, "timeout")


def wants_a_number(x: int) -> int:
    return x


# Several things at once


def drawn(width: float = 4.0) -> Figure:
    figure = Figure(figsize=(width, 3), dpi=100)
    figure.subplots().plot([1, 2])
    return figure


def kinds(value: Any) -> list[str]:
    """Return the texts of the parts, or the media types of pictures."""
    return [part.text if isinstance(part, Text) else part.media_type for part in success(value).parts]


def test_texts_and_pictures_of_a_list_keep_their_order() -> None:
    table = pd.DataFrame({"a": [1]})
    part_kinds = kinds(["First", 1, drawn(), table, {"n": 3}, drawn(2.0), "Last"])
    middle = as_text(table) + '\n{"n":3}\na figure of 200 x 300 pixels'
    assert part_kinds == ["First\n1\na figure of 400 x 300 pixels", "image/png", middle, "image/png", "Last"]


def test_repeated_figure_is_shown_once() -> None:
    figure = drawn()
    assert kinds((figure, figure.axes[0], figure.axes[0].lines[0])) == ["a figure of 400 x 300 pixels", "image/png"]
    assert kinds(list(figure.axes[0].lines) * 2) == ["a figure of 400 x 300 pixels", "image/png"]


def test_list_without_a_picture_is_shown_as_data() -> None:
    assert kinds(["a", 1]) == ['["a",1]'] and kinds([]) == ["[]"] and kinds([b"abc"]) == [as_text([b"abc"])]


def test_picture_inside_other_data_is_described() -> None:
    assert kinds({"figure": drawn()}) == [as_text({"figure": 0}).replace("0", '"<Figure size 400x300 with 1 Axes>"')]
    assert len(kinds([[drawn()]])) == 1


def test_first_pictures_are_shown_and_all_are_described() -> None:
    figures = [Figure(figsize=(1.0 + number / 100, 1)) for number in range(25)]
    outcome = success(figures)
    assert sum(isinstance(part, Image) for part in outcome.parts) == 20
    assert outcome.text.count("a figure of") == 25
    assert len(success([1] * 200 + figures).parts) == 1


def test_message_parts_from_a_tool_are_kept_and_pictures_described() -> None:
    parts = [Text("The masses:"), Image("image/png", b"one"), Image("image/webp", b"two")]
    assert success(parts).parts == (
        Text("The masses:\na picture (image/png, 3 bytes)"),
        Image("image/png", b"one"),
        Text("a picture (image/webp, 3 bytes)"),
        Image("image/webp", b"two"),
    )


def test_figure_returned_by_a_tool_is_logged(tmp_path: Path) -> None:
    def plot() -> Any:
        """Draw."""
        return drawn()

    store = Store(tmp_path / "runs")
    run = Agent(ScriptedModel([ToolCall("plot"), "Done."]), tools=[plot]).run_sync("go", store=store)
    assert store.load(run.id) == run
    words, picture = run.rounds[0].results[0].parts
    assert words == Text("a figure of 400 x 300 pixels")
    assert isinstance(picture, Image) and picture.data.startswith(b"\x89PNG") and picture.media_type == "image/png"
    assert tables.tool_calls(run).result[0] == "a figure of 400 x 300 pixels"
    assert tables.messages(run).text[2] == "a figure of 400 x 300 pixels"


def test_unusual_table_does_not_fail_the_tool(snapshot: Snapshot) -> None:
    class Odd(pd.DataFrame):
        def to_string(self, *args: Any, **how: Any) -> str:
            raise ValueError("no")

    assert as_text(Odd({"a": [1]})) == snapshot


def test_rendering_imports_no_library() -> None:
    code = (
        "import sys\n"
        "from agentnb.tools.rendering import success\n"
        "class Own: pass\n"
        "png = b'\\x89PNG\\r\\n\\x1a\\n' + bytes(4) + b'IHDR' + bytes(16) + b'IEND'\n"
        "for value in ('a', 1, None, [1, 'a'], {'a': 1}, b'abc', png, Own(), [Own(), png], object):\n"
        "    success(value)\n"
        "print([name for name in ('numpy', 'pandas', 'polars', 'matplotlib', 'PIL', 'IPython') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
