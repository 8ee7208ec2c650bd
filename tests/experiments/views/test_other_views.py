"""Results, designs, pilots and progress as text and as HTML."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

from asserted_sentences import Snapshot
from made_results import results_of

from agentnb.experiments.design import Design
from agentnb.experiments.pilot import Pilot
from agentnb.experiments.running.control import OVER, Progress
from agentnb.experiments.statistics.power import Components
from agentnb.experiments.views.design_view import design_html, design_text, pilot_html, pilot_text
from agentnb.experiments.views.numbers import format_time
from agentnb.experiments.views.progress_view import STATES, lost_html, progress_html, progress_parts, progress_text
from agentnb.experiments.views.results_view import results_html, results_text

EVIL = "<img src=x>"
DESIGN = Design(30, ("off", EVIL), ("a:b",), 2, 120, 1.25, 90.0, 0.31, "pilot", ("a:b",), 30)
PILOT = Pilot(20, 5, Components(0.0, 0.5), 0.4, 0.01, 2.5, (("r1", EVIL), ("r2", EVIL)))
PROGRESS = Progress("c0ac", 80, 33, 8, (("max_rounds", 3), (EVIL, 1)), 0.31, 0.8, 1.0, 12.0, 33)


def words_of(html: str) -> list[str]:
    return unescape(re.sub("<[^>]*>", " ", html)).split()


def agree(html: str, text: str) -> None:
    """Return True if both have the same words, in any layout."""
    assert "<img" not in html
    missing = {word.strip("():,") for word in text.split()} - {word.strip("():,") for word in words_of(html)}
    assert missing - {"Note", "·"} == set()


def test_results_view_shows_variants_means_reasons_and_notes(snapshot: Snapshot, subtests: Any) -> None:
    arms = {"off": [1, 0, None, 1], EVIL: [1, 1, 1, None]}
    cases = {
        "all runs": results_of(arms, notes=[EVIL]),
        "covered": results_of(arms, missing=3, is_covered=True),
        "scores": results_of({"off": [0, 1]}, primary="rounds"),
    }
    for name, results in cases.items():
        with subtests.test(name):
            text = results_text(results)
            assert text == snapshot(name)
            agree(results_html(results), text.replace("did not complete:", ""))


def test_hidden_results_show_no_means() -> None:
    results = results_of({"off": [1, 0, 1, 1], "on": [1, 1, 1, 1]}, missing=3, is_covered=True)
    assert "mean" not in results_text(results) + results_html(results)


def test_next_command_names_the_variable_with_the_results() -> None:
    for results in (results_of({"off": [0, 1]}), results_of({"off": [0, 1], "on": [1, 1]})):
        for shown in (results_text(results, "found"), results_html(results, "found")):
            assert "found" in shown and "results" not in shown.partition("primary")[2]


def test_design_states_knowns_and_how_to_learn_the_rest(snapshot: Snapshot, subtests: Any) -> None:
    unknown = replace(DESIGN, cost=None, seconds=None, minimum_effect=None, assumption="unknown", unseeded=())
    no_effect = replace(DESIGN, minimum_effect=None, assumption="any_rate")
    cases = {
        "by a pilot": DESIGN,
        "by a pilot of few tasks": replace(DESIGN, pilot_tasks=5),
        "by a pilot of more tasks": replace(DESIGN, pilot_tasks=20),
        "a range of only some rates": replace(DESIGN, assumption="any_rate", least_effect=0.2, hopeless_rates=(0.45, 0.5)),
        "unknown": unknown,
        "few tasks": replace(no_effect, tasks=3, clusters=3),
        "a pilot without spread": replace(no_effect, assumption="pilot_spread"),
        "a range": replace(DESIGN, assumption="any_rate", least_effect=0.2),
        "clusters": replace(DESIGN, assumption="pass_rate", clusters=12),
        "no possible effect": no_effect,
        "a budget": replace(DESIGN, budget=5.0, set_aside=0.25),
        "a budget before a pilot": replace(DESIGN, budget=5.0),
        "some runs made": replace(unknown, made=30),
        "all runs made": replace(unknown, made=120),
    }
    for name, design in cases.items():
        with subtests.test(name):
            assert design_text(design) == snapshot(name)
            agree(design_html(design), design_text(design))


def test_pilot_view_does_not_show_variant_means(snapshot: Snapshot) -> None:
    assert pilot_text(PILOT) == snapshot
    agree(pilot_html(PILOT), pilot_text(PILOT))


def test_progress_has_the_same_rows_in_every_state(snapshot: Snapshot, subtests: Any) -> None:
    for state in STATES:
        with subtests.test(state):
            progress = replace(PROGRESS, state=state)
            html = progress_html(progress)
            assert " ".join(words_of(html)) == snapshot(state)
            assert "<button" not in html and "<img" not in html
            assert ('value="33"' in html and 'max="80"' in html) and progress.is_over == (state in OVER)
    assert progress_text(PROGRESS) == snapshot("as text")


def test_live_progress_box_has_buttons_until_the_end(snapshot: Snapshot, subtests: Any) -> None:
    for state in STATES:
        with subtests.test(state):
            parts = progress_parts(replace(PROGRESS, state=state), "found")
            assert " | ".join(" ".join(words_of(html)) for html in parts.values()) == snapshot(state)
            assert "<img" not in "".join(parts.values())
            assert ("data-do" in parts["controls"]) == (state in ("running", "paused"))


def test_progress_box_of_a_lost_kernel_is_not_shown_running() -> None:
    text = " ".join(words_of(lost_html(PROGRESS)))
    assert "Interrupted" in text and "Running" not in text and "under way" not in text and "The kernel ended" in text


def test_progress_before_the_first_run_shows_no_rate(snapshot: Snapshot) -> None:
    assert " ".join(words_of(progress_html(Progress("c0ac", 80, cost=None)))) == snapshot


def test_durations_are_worded_by_their_size() -> None:
    told = {None: "unknown", 0.01: "0.01 s", 12: "12 s", 185: "3 min 5 s", 7_800: "2 h 10 min"}
    assert {seconds: format_time(seconds) for seconds in told} == told
