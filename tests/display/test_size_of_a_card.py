"""The part of a run that a notebook stores; the card says what is cut."""

from __future__ import annotations

import re

from hostile import visible_text
from run_builder import RunBuilder, called, guidance_of

from agentnb.core.log import events as e
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.run_page import page_html
from agentnb.display.card.transcript import size

MOST = 500_000
"""Bytes of HTML for a run of sixty rounds."""


def run_of_rounds(count: int, result: str) -> Run:
    built = RunBuilder()
    for n in range(count):
        calls = [called("look", f"c{n}-{place}", where=f"place {n}") for place in range(3)]
        built.round(f"Part {n}. " + "Some words. " * 30, *calls, text=result, guidance=[guidance_of()])
    built.round("Done.")
    return built.add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).run


def test_sixty_rounds_fit_in_a_notebook_whatever_tools_return() -> None:
    for result in ("short", "word " * 200, "x <y> & " * 2_000):
        html = run_html(run_of_rounds(60, result))
        assert size(html) <= MOST
        assert html.count("data-round=") == 61


def test_omitted_rounds_become_lines_and_the_card_names_the_command() -> None:
    run = run_of_rounds(60, "x <y> & " * 2_000)
    shown = visible_text(run_html(run))
    cut = re.search(r"(\d+) rounds cut to a line\. The log has all rounds: %agent load (\S+), then save_trace", shown)
    assert cut is not None and int(cut[1]) > 10 and run.id.endswith(cut[2])
    assert shown.count("look ✓") == 3 * int(cut[1])
    assert "cut to a line" not in visible_text(page_html(run))


def test_short_run_is_not_truncated() -> None:
    assert "cut to a line" not in visible_text(run_html(run_of_rounds(20, "short")))
