"""Announced calls that are missing are noticed; text about tools is an answer."""

from __future__ import annotations

from functools import partial

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from scripted_runs import look, play

from agentnb.core.messages import ToolCall
from agentnb.policies.announced_calls import announced_call

TOOLS = ("look", "load_table", "run")
ANNOUNCED = [
    "I will now call look.",
    "I'll call look now.",
    "I\N{RIGHT SINGLE QUOTATION MARK}ll use the `load_table` tool.",
    "Let me use look to see what is there.",
    "Let me first run `load_table('a.csv')`.",
    "I am going to invoke the tool load_table:",
    "I'm about to execute look...",
    "Now I will call look with the file name.",
    "Next, I'll query load_table",
    "I have read the question. I will now call look. One moment.",
    "The data came.\n\n- I will now call look",
    "Good. Now calling look.",
    "I will go ahead and use **look**.",
    "```\nx\n```\nI will now call look.",
]
ANSWERS = [
    "I will now explain look.",
    "I have called look, and it found nothing.",
    "I called look.",
    "I used look and run.",
    "You can call look yourself.",
    "I can call look if you like.",
    "If you want, I will call look.",
    "Once you confirm, I will call look.",
    "I will call look when the file is there.",
    "Shall I call look?",
    "Let me call look, shall I?",
    "I will not call look.",
    "I'll never use look again.",
    "I would use look for that.",
    "Let me know which file I should look at.",
    "Let me look at this from another side.",
    "I will now call a friend.",
    "I will now call looking_glass.",
    "I will use look from now on.",
    "In the future I will use look.",
    "I will now call look.\n\nIt found three birds. They are gulls. All of them sit on the pier.",
    'The model wrote: "I will now call look."',
    "```\nI will now call look.\n```",
    "It says `I will now call look`.",
    "> I will now call look.",
    "    I will now call look.",
    "They will now call look.",
    "",
]


def test_announced_call_at_the_end_is_recognized(subtests: pytest.Subtests) -> None:
    for text in ANNOUNCED:
        with subtests.test(text):
            assert announced_call(text, TOOLS) in TOOLS
            assert announced_call(text, ()) is None and announced_call(text, ("other",)) is None


def test_answer_that_mentions_tools_announces_no_call(subtests: pytest.Subtests) -> None:
    for text in ANSWERS:
        with subtests.test(text):
            assert announced_call(text, TOOLS) is None


WORDS = ["I have", "found", "look", "a", "`look`", "birds", ".", "\n", "the tool", "called", ","]


@examples(200)
@given(st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_report_with_tool_names_announces_no_call(text: str) -> None:
    assert announced_call(text, TOOLS) is None


def test_matching_time_is_linear_in_the_text() -> None:
    for piece in ("I will ", "```\n", "let me now, ", "> ", "`", "\n", "I will now call "):
        assert announced_call(piece * (300_000 // len(piece)), TOOLS) is None


run_of = partial(play, tools=[look], todos=False, prompt="Go")


SAID = "I will now call look."


@pytest.mark.req("R0.81")
@pytest.mark.parametrize("policy", ["matrix", "minimal"])
def test_announced_call_is_reported_as_not_made(policy: str) -> None:
    run = run_of(SAID, ToolCall("look", {}), "Three gulls.", policy=policy)
    assert [round.reason for round in run.rounds] == ["prompt", "announced_call", "tool_results"]
    assert (run.status, run.text, run.rounds[0].status) == ("completed", "Three gulls.", "narration_without_tool_call")
    assert "announces a call to look" in run.messages[2].text and not run.warnings


@pytest.mark.req("R0.81")
def test_second_consecutive_announcement_is_an_answer_with_a_warning(snapshot: Snapshot) -> None:
    run = run_of(SAID, SAID)
    assert (len(run.rounds), run.stop_reason) == (2, "natural")
    assert [str(warning) for warning in run.warnings] == snapshot


@pytest.mark.req("R0.81")
def test_other_announcements_end_the_run_at_once() -> None:
    assert len(run_of('"I will now call look."', output={"type": "string"}).rounds) == 1
    assert len(run_of("I will now explain look.").rounds) == 1
    assert len(run_of(SAID, tools=[]).rounds) == 1
