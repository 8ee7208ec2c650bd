"""Status of steps, for nodes and edges of a graph."""

from __future__ import annotations

import pytest
from drawn_workflows import BRANCH, LOOP, ONCE_AROUND, finished, spec_of, started, taken, workflow_run

from agentnb.core.log.events import QuestionAsked
from agentnb.core.log.work_events import StepAttempted
from agentnb.core.questions import WaitingOnUser
from agentnb.detect.run import Run
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.graph.node_states import StepProgress, node_states, status_of, waiting_paths


def test_node_state_counts_starts_attempts_and_loops() -> None:
    graph = drawing_of(spec_of(LOOP))
    states = node_states(graph, workflow_run(LOOP, ONCE_AROUND))
    assert set(states) == {"draft", "enough", "expand"}
    assert (states["draft"].status, states["draft"].times) == ("running", 2)
    assert (states["expand"].status, states["expand"].attempts, states["expand"].loops) == ("completed", 2, {"draft": 1})
    assert states["enough"].loops == {"expand": 1}


def test_branch_logged_by_condition_and_goto_is_counted_once() -> None:
    graph = drawing_of(spec_of(LOOP))
    facts = [started("enough", "condition"), taken("enough", "true"), taken("enough", "print"), finished("enough")]
    assert node_states(graph, workflow_run(LOOP, facts))["enough"].loops == {"print": 1}


def test_map_items_are_counted_by_state() -> None:
    facts = [started("each", "map"), *[started(f"each/{place}") for place in range(5)]]
    facts += [finished("each/0"), finished("each/1"), finished("each/2", "failed", error="no")]
    facts += [started("each/3/inside")]
    state = node_states(drawing_of(spec_of(BRANCH)), workflow_run(BRANCH, facts))["each"]
    assert (state.status, state.items) == ("running", {"completed": 2, "failed": 1, "running": 2})


def test_open_question_shows_as_waiting_or_interrupted() -> None:
    question = WaitingOnUser("human_step", "Publish?", {"type": "boolean"}, "q1", "approve")
    facts = [started("approve", "human"), (QuestionAsked, {"question": question})]
    graph = drawing_of(spec_of(BRANCH))
    assert node_states(graph, workflow_run(BRANCH, facts))["approve"].status == "waiting"
    ended = workflow_run(BRANCH, [started("approve", "human")], "cancelled")
    assert node_states(graph, ended)["approve"].status == "interrupted"


def test_block_waits_once_all_its_running_steps_wait() -> None:
    question = WaitingOnUser("human_step", "Which?", {"type": "string"}, "q1", "outer/both/a")
    facts = [started("outer", "loop"), started("outer/both", "parallel"), started("outer/both/a", "human")]
    facts += [(QuestionAsked, {"question": question}), started("outer/both/b", "tool")]
    for ends, expected in (([], "running"), ([finished("outer/both/b")], "waiting")):
        run = workflow_run(BRANCH, [*facts, *ends])
        waits = waiting_paths(run)
        assert {status_of(run.step_records[path], run, waits) for path in ("outer", "outer/both")} == {expected}


def test_step_counts_as_retrying_between_two_attempts() -> None:
    graph, facts = drawing_of(spec_of(BRANCH)), [started("load", "tool")]
    for event, expected in [
        ((StepAttempted, {"step": "load", "attempt": 1, "error": "no", "wait": 5.0}), ("retrying", 1)),
        (started("load", "tool", attempt=2), ("running", 2)),
        ((StepAttempted, {"step": "load", "attempt": 2, "error": "no", "wait": 5.0}), ("retrying", 2)),
        (finished("load", attempts=2), ("completed", 2)),
    ]:
        facts.append(event)
        state = node_states(graph, workflow_run(BRANCH, facts))["load"]
        assert (state.status, state.attempts) == expected
    died = workflow_run(BRANCH, facts[:2], "cancelled")
    assert node_states(graph, died)["load"].status == "interrupted"


def test_incremental_states_equal_those_of_the_complete_run(subtests: pytest.Subtests) -> None:
    question = WaitingOnUser("human_step", "Publish?", {"type": "boolean"}, "q1", "approve")
    items = [started("each", "map"), *[started(f"each/{place}") for place in range(3)], finished("each/0"), finished("each/1")]
    asked = [started("approve", "human"), (QuestionAsked, {"question": question}), finished("approve")]
    for name, text, facts in (("a loop", LOOP, ONCE_AROUND), ("a map and a question", BRANCH, [*items, *asked])):
        graph = drawing_of(spec_of(text))
        run, progress = Run(), StepProgress(graph)
        for event in workflow_run(text, facts, "cancelled").events:
            run.apply(event)
            progress.take(event)
            with subtests.test(name, event=event.seq):
                assert progress.states(run) == node_states(graph, run)
        assert "running" not in [state.status for state in progress.states(run).values()]
