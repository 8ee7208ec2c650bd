"""Figures that a tool opens and returns are closed; those of the person stay open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.function import FunctionTool
from agentnb.tools.tool import ToolContext


@pytest.fixture(autouse=True)
def own_pyplot() -> Iterator[None]:
    plt.switch_backend("agg")
    plt.close("all")
    yield
    plt.close("all")


def called(function: Callable[..., Any]) -> Any:
    """Return the value of the tool, which has a picture."""
    context = ToolContext(run_id="r", call_id="c", work_dir=Path(), run_plain=call_in_thread)
    outcome = asyncio.run(FunctionTool(function).run({}, context))
    assert outcome.ok
    return outcome.value


def test_figure_opened_and_returned_by_a_tool_is_closed(subtests: pytest.Subtests) -> None:
    def figure() -> Any:
        return plt.figure()

    def axes() -> Any:
        return plt.subplots()[1]

    def several() -> Any:
        return ["two figures", plt.figure(), plt.figure()]

    def after_all_were_closed() -> Any:
        plt.close("all")
        return plt.figure()

    async def awaited() -> Any:
        return plt.figure()

    for function in (figure, axes, several, awaited, after_all_were_closed):
        with subtests.test(function.__name__):
            called(function)
            assert not plt.get_fignums()


def test_user_figures_and_unreturned_figures_stay_open() -> None:
    mine = plt.figure("mine")

    def returns_mine() -> Any:
        return mine

    def opens_and_returns_another() -> Any:
        plt.figure("of the tool")
        return plt.figure("returned")

    called(returns_mine)
    assert plt.get_figlabels() == ["mine"]
    called(opens_and_returns_another)
    assert plt.get_figlabels() == ["mine", "of the tool"]


def test_figure_in_a_window_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_a_window() -> Any:
        figure = plt.figure("window")
        monkeypatch.setattr(type(figure.canvas), "required_interactive_framework", "qt")
        return figure

    called(in_a_window)
    assert plt.get_figlabels() == ["window"]
