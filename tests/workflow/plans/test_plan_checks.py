"""Problems of a plan are reported together, with their lines."""

from __future__ import annotations

import pytest
from plan_examples import PLANS, SPECS, tides_fetch, told

from agentnb import Plan, validate_plan
from agentnb.workflow.defaults import MAX_PLAN_STEPS

EXPECTED = told("problems.yaml")


@pytest.mark.req("R1.12", "R1.51", "R1.52", "K1.5", "K1.6")
def test_every_example_has_exactly_the_expected_problems(subtests: pytest.Subtests) -> None:
    assert set(EXPECTED) == {str(path.relative_to(PLANS)) for path in PLANS.rglob("*") if path.parent.name == "invalid"} | {
        *("plan.yaml", "plan.json", "plan-chat.json")
    }
    for name, expected in EXPECTED.items():
        with subtests.test(name):
            problems = validate_plan(PLANS / name, SPECS)
            assert {problem.line for problem in problems} == {one["line"] for one in expected}
            for one in expected:
                words = " ".join(str(problem) for problem in problems if problem.line == one["line"])
                assert [word for word in one["says"] if str(word) not in words] == [], words


@pytest.mark.req("R1.51")
def test_plan_problems_are_the_same_for_text_data_and_plan() -> None:
    path = PLANS / "invalid" / "names-and-arguments.yaml"
    of_text = validate_plan(path.read_text(encoding="utf-8"), SPECS)
    of_plan = validate_plan(Plan.read(path), SPECS)
    assert [one.message for one in of_text] == [problem.message for problem in validate_plan(path, SPECS)]
    assert len(of_plan) == len(of_text)
    assert all(one.line == 0 for one in of_plan)


def test_plan_check_accepts_agent_tools_and_skips_names_without_tools() -> None:
    first = "- {type: tool, name: tides.fetch, args: {station: 7}}"
    plan = f"steps:\n{first}\n- {{type: tool, name: web.fetch, args: {{url: 'http://localhost/'}}}}"
    assert [problem.line for problem in validate_plan(plan, [tides_fetch])] == [2]
    assert [problem.line for problem in validate_plan(plan, [])] == [2]
    assert validate_plan(plan) == []


def test_hostile_plan_texts_are_problems_and_never_executed(subtests: pytest.Subtests) -> None:
    many = ", ".join(["{type: noop}"] * (MAX_PLAN_STEPS + 1))
    cases = {
        "tag": "steps: [!!python/object/apply:os.system ['true']]",
        "deep": "steps: [{type: tool, name: x, args: " + "{a: " * 100 + "1" + "}" * 100 + "}]",
        "too many": f"steps: [{many}]",
        "large": "steps: [] # " + "x" * 1_000_001,
        "steps that are a text": "steps: all",
        "step that is a text": "steps: [fetch]",
        "neither": "intention: something",
        "a list": "[1, 2]",
        "empty": "",
        "alias": "a: &a [*a]",
    }
    for name, text in cases.items():
        with subtests.test(name):
            assert validate_plan(text, SPECS)


def test_unknown_value_of_a_step_reference_is_not_checked(subtests: pytest.Subtests) -> None:
    before = "steps:\n- {type: tool, name: tides_fetch, args: {station: brest}}\n"
    for args, problems in {
        "{left: '$step[0].output.rows', right: []}": 0,
        "{left: ['$step[0].output'], right: 7}": 1,
        "{left: '$step[0].output'}": 1,
        "{left: [], right: [], options: '$step[0].output'}": 0,
        "{left: [], right: [], options: '$step[0].output and more'}": 1,
    }.items():
        with subtests.test(args):
            assert len(validate_plan(f"{before}- {{type: tool, name: tables_compare, args: {args}}}", SPECS)) == problems
