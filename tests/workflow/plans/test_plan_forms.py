"""Plans round-trip in both forms and are read from YAML, JSON, prose and tool calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plan_examples import PLANS, told
from property_settings import examples
from task_examples import without_ids

from agentnb import Plan, ToolCall, validate_plan
from agentnb.core.plans.plan_steps import PlanQuestion
from agentnb.core.run.call_window import CallWindow
from agentnb.errors import BrokenReply, WorkflowProblems
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.plans.plan_reader import plan_of_data, read_any_plan
from agentnb.workflow.plans.plan_results import answer_result, calls_of, last_of_each_call, note_call, read_results
from agentnb.workflow.plans.reply_plans import plan_in_reply

PLAN = {"steps": [{"type": "tool", "name": "tides_fetch", "args": {"station": "brest"}}]}
TEXT = json.dumps(PLAN)


@pytest.mark.req("R1.11", "R1.12", "R3.23", "KX.4")
def test_plan_round_trips_in_both_formats(subtests: pytest.Subtests) -> None:
    for name in ("plan.yaml", "plan.json", "plan-chat.json"):
        with subtests.test(name):
            plan = Plan.read(PLANS / name)
            written = plan.to_dict()
            assert Plan.read(plan.to_yaml()) == Plan.read(plan.to_json()) == Plan.read(written) == plan
            assert Plan.read(plan.to_yaml("chat")).form == "chat"
    assert Plan.read(PLANS / "plan.yaml") == Plan.read(PLANS / "plan.json")
    chat = json.loads((PLANS / "plan-chat.json").read_text(encoding="utf-8"))
    assert Plan.read(PLANS / "plan-chat.json").to_dict() == chat


def test_empty_plan_fields_are_null() -> None:
    plan = Plan.read("steps: [{type: noop}]").to_dict()
    assert plan == {
        "id": None,
        "intention": None,
        "steps": [{"type": "noop", "name": None, "args": None, "reason": None, "retries": 0}],
        "elicitation": None,
    }


@pytest.mark.req("R1.21", "R1.23")
def test_native_tool_calls_become_steps_without_duplicates() -> None:
    native = told("native-calls.json")
    calls = [
        ToolCall(call["function"]["name"], json.loads(call["function"]["arguments"]), call["id"])
        for call in native["reply"]["tool_calls"]
    ]
    read = plan_in_reply(native["reply"]["text"], calls)
    assert read is not None
    assert {key: value for key, value in read.plan.data.items() if key != "id"} == native["plan"]
    assert {call.id for call in calls} - {step.id for step in read.plan.steps} == set(native["dropped"])
    counted = plan_in_reply("", [calls[0], calls[2], ToolCall("tables_compare", {"left": "$step[1].output.rows"}, "call_4")])
    assert counted is not None and len(counted.plan.steps) == 3, "references count the steps as written"
    broken = plan_in_reply("", [ToolCall("tides_fetch", '{"station": ', "call_5")])
    assert broken is not None and broken.faults[0]


@pytest.mark.req("R1.22")
def test_plan_is_found_in_code_fences_and_prose(subtests: pytest.Subtests) -> None:
    yaml = "intention: look\nsteps:\n  - type: tool\n    name: tides.fetch\n    args: {station: brest}"
    for name, (text, reason) in {
        "alone": (TEXT, None),
        "fence": (f"```json\n{TEXT}\n```", None),
        "prose before a fence": (f"The table comes first.\n```json\n{TEXT}\n```\nThat is all.", "The table comes first."),
        "prose around": (f"First: {TEXT} Good?", "First:"),
        "YAML": (yaml, None),
        "YAML in a fence": (f"Look:\n```yaml\n{yaml}\n```", "Look:"),
        "tildes": (f"~~~\n{TEXT}\n~~~", None),
        "another fence before": (f"```python\nx = 1\n```\n```json\n{TEXT}\n```", "```python\nx = 1\n```"),
        "braces before": (f"With {{braces}} first. {TEXT}", "With"),
    }.items():
        with subtests.test(name):
            read = plan_in_reply(text)
            assert read is not None
            for plan in (read.plan, Plan.read(text)):
                (step,) = plan.steps
                assert (step.name, step.args) == ("tides_fetch", {"station": "brest"})
                assert (step.reason or "").startswith(reason or "") and bool(step.reason) == bool(reason)
            assert validate_plan(text) == []


def test_problems_in_a_fenced_plan_have_reply_line_numbers(subtests: pytest.Subtests) -> None:
    for name, text in {
        "YAML": "Look:\n\n```yaml\nsteps:\n- {type: sleep}\n```\nThat is all.",
        "JSON": 'Look at this\nplan:\n\n{"steps": [\n{"type": "sleep"}]}\nThat is all.',
        "broken": "Look:\n\n```yaml\nsteps:\n- {type: [sleep}\n```\nThat is all.",
    }.items():
        with subtests.test(name):
            assert [problem.line for problem in validate_plan(text)] == [5]
    for text in ("No plan, only {braces}.", "```python\nsteps = 1\n```", "```\nsteps: 1"):
        assert validate_plan(text) != []


def test_plain_text_is_not_a_plan_and_malformed_plans_raise(subtests: pytest.Subtests) -> None:
    for text in ("Brest has two tides.", "Note: two tides.", '{"tides": 2}', "", "```\nsome text\n```", "steps: we walk them"):
        with subtests.test(text):
            assert plan_in_reply(text) is None or not plan_in_reply(text).plan.steps  # type: ignore[union-attr]
    many = json.dumps({"steps": [{"type": "noop"}] * 1_001})
    for text in ('{"steps": [{"type": "tool", ', f"```json\n{TEXT[:-3]}\n```", many):
        with subtests.test(text[:30]), pytest.raises(BrokenReply):
            plan_in_reply(text)


@pytest.mark.req("R1.15", "R1.16", "K1.5")
def test_every_plan_question_has_a_message_and_schema(subtests: pytest.Subtests) -> None:
    for one in told("elicitations.yaml"):
        if one["name"] == "a tool that lacks arguments":  # asked when it is run
            continue
        with subtests.test(one["name"]):
            read = plan_in_reply(one["reply"] if "reply" in one else json.dumps(one["plan"]))
            assert read is not None
            asked = read.plan.question or next((step.question for step in read.plan.steps if step.question), None)
            assert (None if asked is None else asked.data) == one["asks"]


@pytest.mark.req("R1.14", "R1.24", "R1.40")
def test_repeated_results_are_shown_once_and_counted_by_the_guard() -> None:
    results = read_results(told("results.json"))
    assert [tuple(result) for result in results] == [("id", "name", "args", "result", "error")] * 6
    assert [result["id"] for result in last_of_each_call(results)] == ["call_2", "call_5", "ask_1", "ask_2", "ask_3"]
    window = CallWindow()
    for call, result in calls_of(results):
        note_call(window, call, result)
    assert [call.key[0] for call in window.executed] == ["tides_fetch", "tides_fetch"], "a blocked one has not run"
    assert window.row == 1
    question = PlanQuestion(message="For which day?")
    answer = answer_result("ask_1", question, {"action": "accept", "content": {"day": "2026-11-22"}})
    assert json.loads(answer["result"]) == json.loads(results[3]["result"])
    assert without_ids(answer) | {"result": results[3]["result"]} == without_ids(results[3])


def test_text_without_a_plan_is_refused(subtests: pytest.Subtests) -> None:
    for text in ("- 1\n- 2\n", "intention: nothing", "steps: no\n", "\n"):
        with subtests.test(text), pytest.raises(WorkflowProblems):
            Plan.read(text)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_steps = st.fixed_dictionaries(
    {"type": st.sampled_from(["tool", "noop", "abort"])},
    optional={
        "id": st.text(min_size=1, max_size=5),
        "name": st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        "args": st.dictionaries(st.text(max_size=5), _values, max_size=3),
        "reason": st.text(min_size=1, max_size=20),
        "retries": st.integers(0, 9),
    },
)


@given(st.lists(_steps, max_size=4), st.text(max_size=20))
@examples(60)
@example([], "a line\x85break")
def test_plans_round_trip_in_json_and_yaml(written: list[dict[str, Any]], intention: str) -> None:
    plan = Plan.read({"intention": intention or None, "steps": written})
    assert Plan.read(plan.to_json()) == plan
    assert Plan.read(plan.to_yaml()) == plan
    assert Plan.read(plan.to_dict()) == plan
    reply_plan = plan_in_reply(plan.to_json())
    assert reply_plan is not None and reply_plan.plan.steps == plan.steps


_chat_steps = st.fixed_dictionaries(
    {
        "stepNumber": st.integers(0, 9),
        "type": st.sampled_from(["research", "action", "think", ""]),
        "description": st.text(max_size=20),
        "tools": st.lists(st.sampled_from(["web.fetch", "tables_compare", "mcp:clock/now"]), min_size=1, max_size=2),
        "executorRequired": st.booleans(),
        "dependsOn": st.lists(st.integers(0, 4), max_size=2),
    },
    optional={"args": st.none() | st.dictionaries(st.text(max_size=5), _values, max_size=3)},
)


@given(st.lists(_chat_steps, max_size=3), st.fixed_dictionaries({}, optional={"id": st.text(), "reasoning": st.text()}))
@examples(60)
def test_reading_chat_data_matches_reading_it_line_by_line(steps: list[dict[str, Any]], about: dict[str, str]) -> None:
    data, problems = {"steps": steps, **about}, Problems()
    read, at_once = read_any_plan(data, problems), plan_of_data(data)
    assert read is not None
    assert at_once == (read.plan if steps and not problems.found else None)
    for other in ({**data, "id": 5}, {**data, "intention": ""}, {**data, "steps": [{**step, "reason": ""} for step in steps]}):
        assert not steps or plan_of_data(other) is None
