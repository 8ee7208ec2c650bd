"""The rule for nearly identical calls without results: what it reports and what it leaves alone."""

from __future__ import annotations

import pytest
from run_builder import Calls

from agentnb.core.messages import ToolCall
from agentnb.detect import sweep
from agentnb.detect.blocks import NearRepeat

NOTHING = "(Bash completed with no output)"
NOT_FOUND = "Exit code 127\n/bin/bash: line 1: {}: command not found"


def bash(*commands: str, text: str = NOTHING, error: str = "") -> Calls:
    """Build a round per command, with its number in the error."""
    story = Calls()
    for number, command in enumerate(commands):
        story.call("Bash", text.format(f"-{number}"), error=error, command=command)
    return story


def near(story: Calls) -> list[tuple[int, int, str]]:
    return [(one.first + 1, one.last + 1, one.severity) for one in story.found(NearRepeat)]


def test_third_nearly_identical_call_without_a_result_is_found(subtests: pytest.Subtests) -> None:
    for name, commands in {
        "signs": [":", ": ", ": }"],
        "one word more": [": python3 run.py", ": python3 run.py 2>&1", ":python3 run.py"],
        "a path": [">python3 --version", ">/usr/bin/python3 --version", "> python3 --version"],
    }.items():
        with subtests.test(name):
            assert near(bash(*commands[:2])) == []
            assert near(bash(*commands)) == [(1, 3, "nudge")]
            assert near(bash(*commands, text=NOT_FOUND, error="tool_error")) == [(1, 3, "nudge")]


def test_near_repeats_worsen_more_slowly_than_equal_calls() -> None:
    found = bash(*[": look" + " " * number for number in range(8)]).found()
    assert [(one.rule, one.severity) for one in found] == [
        ("near_repeat", severity) for severity in ("nudge", "nudge", "block", "block", "stop", "stop")
    ]


def test_equal_calls_are_found_by_only_one_rule() -> None:
    assert bash(*["ls /empty"] * 4).rules() == ["nothing_new"]


def test_calls_with_different_words_are_different(subtests: pytest.Subtests) -> None:
    for name, commands in {
        "items of a list": [f"cat notes/{day}.txt" for day in ("monday", "tuesday", "sunday", "friday")],
        "pages": [f"head -n {number} log" for number in (10, 20, 30, 40)],
        "one call in several ways": ["make", "make docs", "make tests", "make lint"],
        "words added to a short call": ["ls", "ls docs/images plots", "ls docs/images plots/old -la"],
    }.items():
        with subtests.test(name):
            assert near(bash(*commands)) == []
            assert near(bash(*commands, text=NOT_FOUND, error="tool_error")) == []


def test_description_distinguishes_todos_but_not_commands() -> None:
    aims = ("List the files", "Check the folder", "Find out where this is")
    shell, notes = Calls(), Calls()
    for aim in aims:
        shell.call("Bash", NOTHING, command=":", description=aim)
        notes.call("add_note", "null", list="home", description=aim)
    assert near(shell) == [(1, 3, "nudge")] and near(notes) == []


def test_result_ends_the_streak(subtests: pytest.Subtests) -> None:
    for name, text in {"output": "a.py\nb.py", "a confirmation": "File updated", "a number": "0"}.items():
        with subtests.test(name):
            story = Calls()
            for _ in range(4):
                story.call("Bash", NOTHING, command=": a").call("look", text)
            assert near(story) == []


def test_calls_that_return_results_are_not_near_repeats() -> None:
    assert near(bash("git status", "git status ", "git  status", text="clean")) == []


def test_silent_call_between_repeats_excuses_only_failures(subtests: pytest.Subtests) -> None:
    for name, error, found in (("failures", "tool_error", []), ("nothing returned", "", [(1, 5, "nudge")])):
        with subtests.test(name):
            story = Calls()
            for number in range(3):
                story.call("Bash", "1 failed: test_a" if error else NOTHING, error=error, command="pytest -q")
                if number < 2:
                    story.call("Bash", NOTHING, command=f"sed -i s/x/y{number}/ a{number}.py")
            assert near(story) == found


def test_different_errors_are_new_information() -> None:
    story = Calls()
    for error in ("KeyError: 'name'", "TypeError: 3 is no text", "ValueError: too long"):
        story.call("Bash", error, error="tool_error", command="python run.py")
    assert near(story) == []


def test_numbers_and_quoted_words_of_an_error_are_not_compared() -> None:
    story = Calls()
    for number, word in enumerate(("run", "run twice", "run")):
        story.call("Bash", f"line {number}: cannot {word}", error="tool_error", command=word)
    assert near(story) == [(1, 3, "nudge")]


def test_waiting_and_transient_failures_are_ignored(subtests: pytest.Subtests) -> None:
    for name, tool, text, error in (
        ("a tool that waits", "wait_for_job", NOTHING, ""),
        ("pending", "look", "no results, still running", ""),
        ("an overloaded server", "fetch", "503 unavailable", "tool_error"),
    ):
        with subtests.test(name):
            story = Calls()
            for number in range(6):
                story.call(tool, text, error=error, job="a" + " " * number)
            assert near(story) == []


def test_blocked_lost_and_planning_calls_neither_count_nor_reset() -> None:
    story = bash(": a", ":a")
    for code in ("lost", "denied", "duplicate_call_blocked"):
        story.call("Bash", "No result", error=code, command=": a")
    assert near(story) == []
    assert near(story.call("Bash", NOTHING, command=":: a")) == [(1, 6, "nudge")]


def test_equal_calls_in_one_reply_count_once() -> None:
    story = Calls()
    for _ in range(2):
        story.round(ToolCall("Bash", {"command": ":"}), ToolCall("Bash", {"command": ": }"}), text=NOTHING)
    assert near(story) == []
    assert near(story.call("Bash", NOTHING, command=";")) == [(1, 3, "nudge")]


def test_user_message_ends_the_streak() -> None:
    assert near(bash(":", ": ").say("Try it once more").call("Bash", NOTHING, command=";")) == []


def test_memory_does_not_grow_with_the_run() -> None:
    detector = NearRepeat()
    story = bash(*[f"touch {'x' * number}" for number in range(100)])
    for round_ in story.run.rounds:
        assert detector.check_round(round_, story.run) == ()
    assert len(detector._rows) == 16


def test_share_of_common_words_can_be_swept() -> None:
    run = bash("ls docs", "ls docs old", "ls docs").run
    table = sweep([run], [1], NearRepeat, alike=[60, 67])
    assert [*table["hits"]] == [1, 0]
