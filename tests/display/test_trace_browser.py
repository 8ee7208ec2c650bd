"""The trace browser without a page: rows, search, filters, the opened run and the saved form."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb import Run, ToolCall, load_trace
from agentnb.core.log.events import Origin
from agentnb.core.usage import Usage
from agentnb.display.defaults import RUNS_IN_A_PAGE
from agentnb.display.lists.browser import (
    MAX_EXPANDABLE_RUNS,
    browser_text,
    opened_html,
    page_words,
    problem_lines,
    rows_html,
    runs_title,
    saved_frame,
    saved_html,
)
from agentnb.display.lists.run_rows import NO_FINDING, Wanted, choices, matching, row_of, words_of
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.trace_file import Problem

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m</div>"


def run_with_calls(prompt: str, *tools: str, ends: bool = True, origin: Origin | None = None) -> Run:
    """Return a run of another product that calls these tools; the last call fails."""
    writer = RunWriter(origin or Origin("by_hand", "made.json"), model="m")
    writer.say(prompt)
    for place, tool in enumerate(tools):
        writer.reply(f"I use {tool}.", [ToolCall(tool, {"deep": ["Argument"]})], usage=Usage(100, 20, cost=0.01))
        writer.result("", "Resulting", is_error=place == len(tools) - 1)
    writer.reply("Answering.", usage=Usage(100, 20, cost=0.01))
    return writer.finish() if ends else writer.finish(None)


RUNS = [run_with_calls("Unos", "dig", "look"), run_with_calls("Two", "dig", ends=False), load_trace("complex-fails")]
ROWS = [row_of(place, run) for place, run in enumerate(RUNS)]


def test_row_counts_calls_and_rounds_of_a_run() -> None:
    row = ROWS[0]
    assert (row.rounds, row.calls, row.failed, row.format, row.tools) == (3, 2, 1, "by_hand", {"dig", "look"})
    assert ROWS[2].findings == ("already_said",) * 4 and ROWS[2].format == "sam"
    task = row_of(0, run_with_calls("P", origin=Origin("by_hand", "f", "3", "t7", "2")))
    assert "by_hand · task t7 · trial 2" in rows_html([task])
    assert "3 rounds · 2 calls · 1 failed" in rows_html(ROWS) and "$0.03" in rows_html(ROWS)


def test_search_covers_prompts_texts_tools_arguments_and_results(subtests: pytest.Subtests) -> None:
    for words, places in {
        "unos": [0],
        "TWO": [1],
        "look": [0],
        "argument": [0, 1],
        "resulting dig": [0, 1],
        "made.json": [0, 1],
        "answering two": [1],
        '"i use look"': [0],
        '"look use i"': [],
        "nearly that of": [2],
        "": [0, 1, 2],
    }.items():
        with subtests.test(words):
            assert [row.place for row in matching(ROWS, Wanted(find=words))] == places


def test_filters_combine_and_count_matches_of_each_choice() -> None:
    offered = choices(ROWS, Wanted(status="completed"))
    states = [("Done", 1), ("Interrupted", 1), ("End not recorded", 1)]
    assert [(one.label, one.runs) for one in offered["status"]] == states
    assert {one.value: one.runs for one in offered["finding"]} == {NO_FINDING: 1}
    offered = choices(ROWS, Wanted(status="unknown"))
    assert {one.value: one.runs for one in offered["finding"]} == {"already_said": 1}
    assert {one.value: one.runs for one in offered["format"]} == {"sam": 1}
    for name in Wanted._fields[1:]:
        for one in choices(ROWS, Wanted())[name]:
            assert len(matching(ROWS, Wanted(**{name: one.value}))) == one.runs
    assert matching(ROWS, Wanted(tool="dig", status="interrupted")) == [ROWS[1]]


@given(st.text(max_size=40))
@examples(60)
def test_search_never_fails_and_only_narrows_the_list(text: str) -> None:
    matched = matching(ROWS, Wanted(find=text))
    assert [row for row in ROWS if row in matched] == matched
    assert all(word == word.casefold() or word.casefold() for word in words_of(text))


def test_list_title_states_which_runs_are_shown() -> None:
    assert page_words(100, 100, 341, 2_000) == "101 to 200 of 341 runs, of 2,000"
    assert page_words(0, 3, 3, 3) == "3 runs" and page_words(0, 1, 1, 9) == "1 run, of 9"
    assert runs_title(["sam"]) == "1 run of sam" and runs_title("aab") == "3 runs: 2 a, 1 b"


def test_findings_and_rounds_link_to_each_other() -> None:
    html = opened_html(RUNS[2], "runs[2]")
    ids = re.findall(r'id="([^"]+)"', html)
    assert len(ids) == len({*ids})
    links = re.findall(r'class="agentnb-to-(round|finding)"[^>]* href="#([^"]+)"', html)
    assert {kind for kind, _ in links} == {"round", "finding"} and {unquote(where) for _, where in links} <= {*ids}
    assert html.count("agentnb-to-finding") == 4 and "4 findings" in html and "more" not in html.split("Transcript")[0]


def test_saved_browser_shows_first_rows_and_open_run_without_scripts() -> None:
    many = [row_of(place, RUNS[0]) for place in range(RUNS_IN_A_PAGE)]
    html = saved_html(saved_frame(many, 340, "340 runs of by_hand", "k" * 8), opened_html(RUNS[2], "runs[2]"))
    assert (
        html.count('class="agentnb-browser-row"') == MAX_EXPANDABLE_RUNS
        and "240 more" in html
        and "Run this cell again" in html
    )
    assert "agentnb-browser-kkkkkkkk" in html and "Heat pumps" in html
    assert "<script" not in html and "<button" not in html and "%agent" not in html


def test_text_of_a_trace_never_becomes_markup() -> None:
    run = run_with_calls(HOSTILE, HOSTILE, origin=Origin(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE))
    row = row_of(0, run)
    shown = [rows_html([row]), saved_frame([row] * 20, 20, HOSTILE, "k"), opened_html(run, "runs[0]")]
    assert all("<img" not in html and "\x1b" not in html for html in shown)
    assert "\x1b" not in browser_text([row], 1, HOSTILE)


def test_first_problems_are_named_and_the_others_counted(snapshot: Snapshot) -> None:
    lines = problem_lines([Problem(f"f{n}", "", f"f{n} is no trace.", names_file=True) for n in range(7)], 2)
    assert lines == snapshot
    assert problem_lines([], 2) == []
