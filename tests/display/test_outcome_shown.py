"""The outcome beside the status: in the card's header, in the trace browser, and at steps with a substitute."""

from __future__ import annotations

import re

from run_builder import RunBuilder

from agentnb import Run, Workflow
from agentnb.core.log import events as e
from agentnb.core.log.outcome import Assessment, outcome_of
from agentnb.core.log.wire import encode
from agentnb.core.log.work_events import OutcomeGiven
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html
from agentnb.display.lists.browser import rows_html
from agentnb.display.lists.history_list import status_html
from agentnb.display.lists.run_rows import Wanted, choices, matching, row_of
from agentnb.store.summaries import summary


def scored(score: float | None = None) -> Run:
    """Return a completed run with this recorded reward."""
    story = RunBuilder().round("Your order has been exchanged.")
    if score is not None:
        story.add(OutcomeGiven, assessment=Assessment(outcome_of(score), "trace", "reward", score))
    return story.add(e.RunFinished, status="completed", stop_reason="natural").run


def marks(html: str) -> list[tuple[str, str]]:
    """Return the tone and the words of each mark."""
    matches = re.findall(r'class="agentnb-chip agentnb-(\w+)"[^>]*>(.*?)</span>([^<]*)</span>', html, re.DOTALL)
    return [(tone, words.strip()) for tone, _, words in matches]


def test_outcome_has_its_own_mark_and_failures_are_not_green() -> None:
    cases = {
        None: [("neutral", "Done, not checked")],
        0.0: [("neutral", "Done"), ("bad", "failed: reward 0")],
        1.0: [("good", "Done"), ("good", "passed: reward 1")],
        0.5: [("neutral", "Done"), ("neutral", "unknown: reward 0.5")],
    }
    for score, wanted in cases.items():
        for html in (run_html(scored(score)), compact_html(scored(score))):
            assert marks(html) == wanted, score


def test_trace_browser_shows_and_filters_outcomes() -> None:
    rows = [row_of(place, scored(score)) for place, score in enumerate((None, 0.0, 1.0, 0.0))]
    assert [row.place for row in matching(rows, Wanted(outcome="failed"))] == [1, 3]
    assert [(choice.value, choice.runs) for choice in choices(rows, Wanted())["outcome"]] == [
        ("failed", 2),
        ("unknown", 1),
        ("passed", 1),
    ]
    listed = re.sub("<[^>]+>", "", rows_html(rows)).split()
    assert [listed.count(word) for word in ("✗", "reward")] == [2, 3]


def test_run_lists_show_outcomes_and_failures_are_not_green() -> None:
    told = {}
    for score in (None, 0.0, 1.0):
        run = scored(score)
        told[score] = status_html(summary([encode(event) + b"\n" for event in run.events], "interrupted"))
    tones = {score: re.findall(r"history-status agentnb-(\w+)", html) for score, html in told.items()}
    assert tones == {None: ["neutral"], 0.0: ["neutral", "bad"], 1.0: ["good", "good"]}
    assert "✗</span> reward 0" in told[0.0]


def test_step_with_a_substitute_is_marked_everywhere() -> None:
    def weigh(crate: str) -> float:
        return {"small": 1.5}[crate]

    steps = "  - {id: scale, type: tool, name: weigh, args: {crate: large}, on_error: {continue: 0}}\n"
    workflow = Workflow.from_yaml(f"workflow:\n{steps}  - {{id: again, type: tool, name: weigh, args: {{crate: small}}}}\n")
    html = run_html(workflow.run_sync(tools=[weigh]))
    assert "1 step used a substitute" in html.partition('data-fold="rounds"')[0]
    graph, listed = html.split('data-fold="rounds"')
    for part in (graph, listed):
        words = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", part))
        assert "▲ scale" in words and "✓ again" in words and "used a substitute" in words
    assert "KeyError" in listed
