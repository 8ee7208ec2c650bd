"""Words about runs: no control characters, lengths of cut texts, readable durations."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from scripted_runs import add, look

from agentnb.agent.agent import Agent
from agentnb.core.guidance import Followed, Guidance
from agentnb.core.log.events import ToolStarted
from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import CallRecord
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.run import Run
from agentnb.display.texts import labels, states
from agentnb.display.texts.call_labels import arguments
from agentnb.display.texts.round_notes import guidance_line
from agentnb.models import ScriptedModel


def test_control_characters_are_made_visible() -> None:
    assert labels.clean("a\x1b[31m\x00\u202eb\tc\nd\r\ne") == "a\ufffd[31m\ufffd\ufffdb\tc\nd\ne"


def test_long_results_are_truncated_and_state_their_length() -> None:
    assert labels.cut("x" * 30, 10) == "x" * 10 + " … (20 more characters)"


def test_durations_are_formatted_naturally(subtests: pytest.Subtests) -> None:
    for seconds, words in [(0.0001, "under 1 ms"), (0.038, "38 ms"), (0.9996, "1.0 s"), (2.44, "2.4 s"), (187, "3:07")]:
        with subtests.test(seconds=seconds):
            assert labels.duration(seconds) == words


@pytest.mark.req("R0.75")
def test_guidance_after_tool_failures_is_named_by_the_failure(snapshot: Snapshot) -> None:
    failed, loop = Guidance("matrix", "tool_failed", "Adapt."), Guidance("matrix", "failure_loop", "Stop.", 3)
    assert guidance_line(failed, Followed(True, "another call was made")) == snapshot
    assert guidance_line(loop, None) == "guidance failure_loop, level 3"


def test_chip_names_each_running_tool_once() -> None:
    calls = [ToolCall("add", {"a": 1}), ToolCall("look"), ToolCall("add", {"a": 2})]
    run = Agent(ScriptedModel([calls, "Done."]), tools=[add, look], todos=False).run_sync("Go.")
    last = min(event.seq for event in run.events if isinstance(event, ToolStarted))
    assert states.chip(Run.from_events(run.events[: last + 1])) == "Running add, look"


def test_todo_arguments_are_summarized_and_others_shown_verbatim(subtests: pytest.Subtests) -> None:
    cases: dict[str, object] = {
        "read": {"operation": "read"},
        "write 2 todos": {"operation": "write", "todoList": [{}, {}]},
        "add 1 todo": {"operation": "add", "newTodos": [{}]},
        "update 1 completed, 2 changed": {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}, {"id": 2}]},
        'operation="guess"': {"operation": "guess"},
        'operation="update", todoUpdates=["x"]': {"operation": "update", "todoUpdates": ["x"]},
        'arguments="no object"': "no object",
    }
    for words, given in cases.items():
        with subtests.test(words):
            assert arguments(CallRecord(ToolCall(TODO_TOOL, given)), 200) == words  # type: ignore[arg-type]
