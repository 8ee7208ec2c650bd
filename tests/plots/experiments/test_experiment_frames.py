"""Figures of experiments are whole, safe with any name, and unchanged on dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text as Words
from plotted_variants import compared, names, ran, results_of, rows_of, words

from agentnb import compare, plots

NAMES = ("off", "matrix", "four", "eleven")
HOSTILE = ("$x^2$", "$\\frac{1}{", "a\x1b[31mred\x00", "日本語 😀", "x" * 300)


def figures() -> Iterator[tuple[str, Figure]]:
    """Yield each figure of an experiment with four variants and three repeats."""
    results = ran(NAMES, repeats=3)
    comparisons = compare(results)
    yield "differences", plots.differences([*comparisons, compared({"x": [1]}, {"x": [0]})])
    yield "flips", plots.flips(comparisons[0])
    yield "pass_k", plots.pass_k(comparisons)
    yield "survival", plots.survival(results)
    yield "ledger", plots.ledger(results)
    yield "cost_against_success", plots.cost_against_success(results)


def long_named() -> Iterator[tuple[str, Figure]]:
    """Yield figures of a comparison with long names of variants and tasks."""
    tasks = [f"swe-bench__django-{number}" for number in range(45)]
    values = [{task: [float((place * factor) % 7 < 3)] for place, task in enumerate(tasks)} for factor in (3, 4)]
    comparison = compared(
        values[0], values[1], ("a guidance set with a very long name, version 12", "claude-opus with many tools")
    )
    for name in ("differences", "flips", "pass_k"):
        yield f"{name}, long names", getattr(plots, name)(comparison)


def png(figure: Figure) -> bytes:
    file = BytesIO()
    figure.savefig(file)
    return file.getvalue()


@pytest.mark.nightly("by day each picture is that of the docs")
@pytest.mark.slow("runs 144 runs and draws six figures")
def test_figures_are_complete_without_overlapping_text(subtests: pytest.Subtests) -> None:
    for name, figure in (*figures(), *long_named()):
        with subtests.test(name):
            figure.draw_without_rendering()
            around = [found for found in (*figure.texts, *figure.legends) if found.get_window_extent().height]
            boxes = [found.get_window_extent() for found in around] + [axes.get_tightbbox() for axes in figure.axes]
            width, height = figure.get_size_inches() * figure.dpi
            for box in boxes:
                assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
            for place, box in enumerate(boxes):
                assert not any(box.overlaps(other) for other in boxes[place + 1 :])
            for axes in figure.axes:
                texts = [text.get_window_extent() for text in axes.texts]
                assert not any(box.overlaps(other) for at, box in enumerate(texts) for other in texts[at + 1 :])
            assert "n = " in " ".join(words(figure)) and "n = " in repr(figure)


def test_variant_and_task_names_are_shortened_plain_text() -> None:
    values = {name: [1.0, 0.0] for name in (*HOSTILE, "t6")}
    comparison = compared(values, {task: [0.0, 0.0] for task in values}, (HOSTILE[4], HOSTILE[2]))
    results = results_of(*[rows_of(name, values, rounds=2, cost=0.1, loop_round=1) for name in HOSTILE])
    drawn = [plots.differences(comparison), plots.flips(comparison), plots.pass_k(comparison), plots.survival(comparison)]
    for figure in (*drawn, plots.cost_against_success(results), plots.survival(results)):
        assert png(figure).startswith(b"\x89PNG")
        assert not any(found.get_parse_math() for found in figure.findobj(Words) if found.get_text())
        assert all(text.isprintable() and len(text) <= 104 for text in words(figure))
    assert all(len(name) <= 34 for name in names(drawn[0]))


@pytest.mark.nightly("by day the light style")
@pytest.mark.slow("draws six figures twice")
def test_dark_style_of_the_user_is_ignored(subtests: pytest.Subtests) -> None:
    from matplotlib import style

    before = {name: png(figure) for name, figure in figures()}
    with style.context(["dark_background", {"font.size": 20, "text.parse_math": True}]):
        for name, figure in figures():
            with subtests.test(name):
                assert png(figure) == before[name]
