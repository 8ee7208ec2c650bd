"""The faults of the personas: their effects, and where they cannot occur."""

from __future__ import annotations

from itertools import product

import pytest
from property_settings import size
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


def test_every_persona_writes_the_todo_list_first() -> None:
    for persona in PERSONAS[1:-1]:
        assert reply(SimulatedModel(persona, p=1), 0).message == right(0)


@pytest.mark.req("R0.85")
def test_forgetful_persona_continues_without_marking_finished_work() -> None:
    answer = reply(SimulatedModel("forgetful", p=1))
    assert (updates(answer), work(answer)) == ([(2, "in-progress")], [2])
    assert updates(reply(SimulatedModel(), 2)) == [(1, "completed"), (2, "in-progress")]


def test_forgetful_persona_answers_with_open_todos() -> None:
    answer = reply(SimulatedModel("forgetful", p=1), 4)
    assert not answer.message.calls and answer.message.text.startswith("Done: 3 steps, 3 tool calls.")
    run = do("simulated:forgetful?p=1&heed=0")
    assert len(open_todos(run.todos)) == 3 and "Done: 3 steps" in run.rounds[4].text


def test_forgetful_persona_without_todos_acts_disciplined() -> None:
    assert not reply(SimulatedModel("forgetful", p=1), 1, todos=False).metadata
    assert do("simulated:forgetful?p=1", todos=False).text == do("simulated:disciplined", todos=False).text


def test_chatty_persona_announces_work_without_doing_it() -> None:
    answer = reply(SimulatedModel("chatty", p=1))
    assert not answer.message.calls and "step 2 of 3 (Two add(2))" in answer.message.text


def test_chatty_persona_varies_its_announcements() -> None:
    what = "step 12 of 14 (" + "a rather long item of the list " * 2 + ")"
    for phrases in (TALK, PLANS):
        said = [phrase.format(what=what) for phrase in phrases]
        assert len(said) > MAX_ANSWERS and all(
            len(text) >= MIN_CHARACTERS for text in (phrase.format(what="") for phrase in phrases)
        )
        assert all(fuzz.ratio(one, other) < MIN_SIMILARITY for one in said for other in said if one is not other)
    run = do("simulated:chatty?p=1&heed=0")
    assert all(round_.said_before is None for round_ in run.rounds) and not any(round_.worked for round_ in run.rounds)


def test_looping_persona_repeats_the_calls_of_its_last_step() -> None:
    model = SimulatedModel("looping", p=1)
    assert not reply(model, 1).metadata  # nothing to repeat yet
    one, before = reply(model, 2), reply(model, 1)
    assert one.message.calls == before.message.calls[-1:]
    assert all(work(reply(model, rounds)) == [3] for rounds in (4, 5))  # instead of the last mark, and of the answer


def test_looping_persona_keeps_its_position() -> None:
    run = do("simulated:looping?seed=2&p=0.4", max_rounds=40)
    worked = [call.arguments["a"] for round_ in run.rounds for call in round_.calls if call.name == "add"]
    assert sorted(set(worked)) == [1, 2, 3] and worked == sorted(worked) and len(worked) > 3
    assert run.status == "completed"


def test_planner_persona_alternates_reading_and_rewording_its_list() -> None:
    model = SimulatedModel("planner", p=1)
    read, reworded = reply(model, 2).message.calls, reply(model, 3).message.calls
    assert read == (ToolCall(TODO_TOOL, {"operation": "read"}),)
    (entry,) = reworded[0].arguments["todoUpdates"]
    assert set(entry) == {"id", "description"} and entry["id"] == 3


def test_planner_persona_only_plans() -> None:
    run = do("simulated:planner?p=1&heed=0", guidance="matrix")
    assert all(round_.is_planning_only for round_ in run.rounds) and run.stop_reason == "todo_intervention_exhausted"
    assert not any(record.result is None or record.result.is_error for round_ in run.rounds[:3] for record in round_.records)


def test_planning_persona_uses_a_thinking_tool() -> None:
    spec = ToolSpec("think", "", {"properties": {"thought": {}}, "required": ["thought"]})
    answer = reply(SimulatedModel("planner", p=1), 1, todos=False, tools=(spec,))
    assert [call.name for call in answer.message.calls] == ["think"] and "step 2 of 3" in answer.message.calls[0].arguments[
        "thought"
    ]
    run = do("simulated:planner?p=1&heed=0", tools=[add, think], todos=False)
    assert {call.name for round_ in run.rounds for call in round_.calls} == {"think"}


def test_planning_persona_without_a_tool_plans_in_text() -> None:
    answer = reply(SimulatedModel("planner", p=1), 1, todos=False)
    assert not answer.message.calls and "step 2 of 3 (Two add(2))" in answer.message.text


def test_early_stopper_answers_between_the_first_and_last_step() -> None:
    model = SimulatedModel("early-stopper", p=1)
    assert not reply(model, 1).metadata
    assert reply(model, 2).message.text == "Done: 1 step, 1 tool call.\n\nadd: 3"
    assert not reply(model, 4).metadata and not reply(model, 5).metadata
    assert do("simulated:early-stopper?p=1&heed=0", todos=False).text == "Done: 1 step, 1 tool call.\n\nadd: 3"


def test_disciplined_model_continues_a_plan_abandoned_early() -> None:
    first = do("simulated:early-stopper?p=1&heed=0", todos=False)
    agent = Agent("simulated:disciplined", tools=[add], todos=False)
    second = agent.run_sync("Go on.", continue_from=first)
    assert [[call.arguments["a"] for call in round_.calls] for round_ in second.rounds] == [[2], [3], []]
    assert second.text.startswith("Done: 3 steps, 3 tool calls.")


def test_every_fault_has_an_effect() -> None:
    assert set(COMMIT) == {fault.option for fault in FAULTS}


def test_every_persona_run_ends_with_an_expected_stop_reason(subtests: pytest.Subtests) -> None:
    for persona, policy in product(PERSONAS, ["matrix", "minimal"]):
        with subtests.test(persona=persona, policy=policy):
            ends = {"natural", "todo_intervention_exhausted", "loop_detected", "max_rounds"}
            for seed in range(size(1, nightly=6)):
                for guidance in ("matrix", "off"):
                    run = do(SimulatedModel(persona, seed=seed), policy=policy, guidance=guidance, max_rounds=40)
                    assert run.stop_reason in ends and run.error is None
                    if persona == "disciplined":
                        assert (run.stop_reason, open_todos(run.todos)) == ("natural", ())
