"""The faults of the personas: what each looks like, and where it cannot show."""

from __future__ import annotations

from itertools import product

import pytest
from rapidfuzz import fuzz
from replies_by_hand import add, do, reply, right, updates, work
from scripted_runs import think

from agentnb import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.todos import TODO_TOOL, open_todos
from agentnb.detect.answer_similarity import MAX_ANSWERS, MIN_CHARACTERS, MIN_SIMILARITY
from agentnb.models import SimulatedModel
from agentnb.models.simulated.faults import COMMIT, PLANS, TALK
from agentnb.models.simulated.personas import FAULTS, PERSONAS


def test_the_list_is_always_taken_down() -> None:
    for persona in PERSONAS[1:-1]:
        assert reply(SimulatedModel(persona, p=1), 0).message == right(0)


@pytest.mark.req("R0.85")
def test_a_forgetful_one_goes_on_without_marking_what_it_finished() -> None:
    one = reply(SimulatedModel("forgetful", p=1))
    assert (updates(one), work(one)) == ([(2, "in-progress")], [2])
    assert updates(reply(SimulatedModel(), 2)) == [(1, "completed"), (2, "in-progress")]


def test_a_forgetful_one_answers_with_todos_open() -> None:
    one = reply(SimulatedModel("forgetful", p=1), 4)
    assert not one.message.calls and one.message.text.startswith("Done: 3 steps, 3 tool calls.")
    run = do("simulated:forgetful?p=1&heed=0")
    assert len(open_todos(run.todos)) == 3 and "Done: 3 steps" in run.rounds[4].text


def test_a_forgetful_one_without_a_list_of_todos_forgets_nothing() -> None:
    assert not reply(SimulatedModel("forgetful", p=1), 1, todos=False).metadata
    assert do("simulated:forgetful?p=1", todos=False).text == do("simulated:disciplined", todos=False).text


def test_a_chatty_one_says_what_it_will_do_and_does_nothing() -> None:
    one = reply(SimulatedModel("chatty", p=1))
    assert not one.message.calls and "step 2 of 3 (Two add(2))" in one.message.text


def test_a_chatty_one_says_it_in_words_that_are_not_alike() -> None:
    what = "step 12 of 14 (" + "a rather long item of the list " * 2 + ")"
    for phrases in (TALK, PLANS):
        said = [phrase.format(what=what) for phrase in phrases]
        assert len(said) > MAX_ANSWERS and all(
            len(text) >= MIN_CHARACTERS for text in (phrase.format(what="") for phrase in phrases)
        )
        assert all(fuzz.ratio(one, other) < MIN_SIMILARITY for one in said for other in said if one is not other)
    run = do("simulated:chatty?p=1&heed=0")
    assert all(one.said_before is None for one in run.rounds) and not any(one.worked for one in run.rounds)


def test_a_looping_one_makes_the_calls_of_its_last_step_again() -> None:
    model = SimulatedModel("looping", p=1)
    assert not reply(model, 1).metadata  # nothing to repeat yet
    one, before = reply(model, 2), reply(model, 1)
    assert one.message.calls == before.message.calls[-1:]
    assert all(work(reply(model, rounds)) == [3] for rounds in (4, 5))  # instead of the last mark, and of the answer


def test_a_looping_one_keeps_its_place() -> None:
    run = do("simulated:looping?seed=2&p=0.4", max_rounds=40)
    worked = [call.arguments["a"] for one in run.rounds for call in one.calls if call.name == "add"]
    assert sorted(set(worked)) == [1, 2, 3] and worked == sorted(worked) and len(worked) > 3
    assert run.status == "completed"


def test_a_planner_reads_and_rewords_its_list_in_turn() -> None:
    model = SimulatedModel("planner", p=1)
    read, reworded = reply(model, 2).message.calls, reply(model, 3).message.calls
    assert read == (ToolCall(TODO_TOOL, {"operation": "read"}),)
    (entry,) = reworded[0].arguments["todoUpdates"]
    assert set(entry) == {"id", "description"} and entry["id"] == 3


def test_a_planner_only_plans() -> None:
    run = do("simulated:planner?p=1&heed=0", guidance="matrix")
    assert all(one.is_planning_only for one in run.rounds) and run.stop_reason == "todo_intervention_exhausted"
    assert not any(record.result is None or record.result.is_error for one in run.rounds[:3] for record in one.records)


def test_a_planner_thinks_if_it_has_a_tool_for_that() -> None:
    spec = ToolSpec("think", "", {"properties": {"thought": {}}, "required": ["thought"]})
    one = reply(SimulatedModel("planner", p=1), 1, todos=False, tools=(spec,))
    assert [call.name for call in one.message.calls] == ["think"] and "step 2 of 3" in one.message.calls[0].arguments["thought"]
    run = do("simulated:planner?p=1&heed=0", tools=[add, think], todos=False)
    assert {call.name for one in run.rounds for call in one.calls} == {"think"}


def test_a_planner_without_a_tool_for_it_plans_in_words() -> None:
    one = reply(SimulatedModel("planner", p=1), 1, todos=False)
    assert not one.message.calls and "step 2 of 3 (Two add(2))" in one.message.text


def test_an_early_stopper_answers_before_all_steps_are_done_but_not_before_the_first() -> None:
    model = SimulatedModel("early-stopper", p=1)
    assert not reply(model, 1).metadata
    assert reply(model, 2).message.text == "Done: 1 step, 1 tool call.\n\nadd: 3"
    assert not reply(model, 4).metadata and not reply(model, 5).metadata
    assert do("simulated:early-stopper?p=1&heed=0", todos=False).text == "Done: 1 step, 1 tool call.\n\nadd: 3"


def test_a_plan_that_was_given_up_early_goes_on_when_no_fault_comes_up() -> None:
    first = do("simulated:early-stopper?p=1&heed=0", todos=False)
    agent = Agent("simulated:disciplined", tools=[add], todos=False)
    second = agent.run_sync("Go on.", continue_from=first)
    assert [[call.arguments["a"] for call in one.calls] for one in second.rounds] == [[2], [3], []]
    assert second.text.startswith("Done: 3 steps, 3 tool calls.")


def test_every_fault_has_something_that_it_does() -> None:
    assert set(COMMIT) == {fault.option for fault in FAULTS}


def test_every_run_of_a_persona_comes_to_an_end_that_makes_sense(subtests: pytest.Subtests) -> None:
    for persona, policy in product(PERSONAS, ["matrix", "minimal"]):
        with subtests.test(persona=persona, policy=policy):
            ends = {"natural", "todo_intervention_exhausted", "loop_detected", "max_rounds"}
            for seed in range(6):
                for guidance in ("matrix", "off"):
                    run = do(SimulatedModel(persona, seed=seed), policy=policy, guidance=guidance, max_rounds=40)
                    assert run.stop_reason in ends and run.error is None
                    if persona == "disciplined":
                        assert (run.stop_reason, open_todos(run.todos)) == ("natural", ())
