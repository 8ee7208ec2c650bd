"""How a run stands: its chip, the tone of that, and whether what it did is open by itself."""

from __future__ import annotations

import re

import pytest
from run_builder import RunBuilder, answered, begun, called, todos_of

from agentnb.core import events as e
from agentnb.core.messages import Message
from agentnb.detect.run import Run
from agentnb.display.head import MARKS, chip_html, tone
from agentnb.display.html import run_html
from agentnb.display.labels import chip


def ended(built: RunBuilder, status: e.Status = "completed", stop_reason: str = "natural") -> Run:
    return built.add(e.RunFinished, status=status, stop_reason=stop_reason, seconds=1.0).run


def with_todos(*statuses: str) -> RunBuilder:
    return RunBuilder(todos=todos_of(*statuses)).round(called("look")).round("Done.")  # type: ignore[arg-type]


def open_calls(*names: str) -> RunBuilder:
    """A round in which calls of these tools run, after one that has ended."""
    calls = [called(name, f"c{number}") for number, name in enumerate(("first", *names))]
    built = RunBuilder().extend(*begun(0)).add(e.ModelReplied, message=Message("assistant", tuple(calls)))
    built.extend(*answered(calls[0]))
    return built.extend(*[(e.ToolStarted, {"call": call}) for call in calls[1:]])


def test_a_run_that_ended_with_todos_open_says_so_and_warns() -> None:
    left, done = ended(with_todos("completed", "in-progress")), ended(with_todos("completed", "completed"))
    assert (chip(left), tone(left)) == ("Done, todos open", "warn")
    assert (chip(done), tone(done)) == ("Done", "good")
    assert f"{MARKS['warn']}</span> Done, todos open" in chip_html(left) and "agentnb-warn" in chip_html(left)


def test_the_chip_names_all_tools_that_run_each_once() -> None:
    assert chip(open_calls("look", "listen", "look").run) == "Executing look, listen"
    assert chip(open_calls("look").run) == "Executing look"


def test_while_the_call_for_a_summary_is_made_again_the_chip_says_that_and_not_that_it_sums_up() -> None:
    built = RunBuilder().extend(*begun(0)).add(e.CompactionStarted, why="messages", messages=4)
    assert chip(built.run) == "Summing up 4 messages"
    built.add(e.RetryScheduled, attempt=1, seconds=2.0, reason="overloaded")
    assert chip(built.run) == "Retrying"


def test_what_a_run_did_is_open_by_itself_unless_all_went_well(subtests: pytest.Subtests) -> None:
    cases = {
        "all went well": (ended(with_todos("completed")), False),
        "no todos": (ended(RunBuilder().round(called("look")).round("Done.")), False),
        "a call failed": (ended(RunBuilder().round(called("look"), error_code="tool_error").round("Done.")), True),
        "todos are open": (ended(with_todos("completed", "not-started")), True),
        "it was stopped": (ended(RunBuilder().round(called("look")), "cancelled", "cancelled"), True),
    }
    for name, (run, is_open) in cases.items():
        with subtests.test(name):
            found = re.search(r"<details([^>]*)><summary[^>]*>What it did", run_html(run))
            assert found is not None and (" open" in found.group(1)) is is_open
