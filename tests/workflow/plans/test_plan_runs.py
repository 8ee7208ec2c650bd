"""Runs of plans, and of a planner with its executor: calls, results, questions, repeats, limits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from plan_examples import PLANS, fetch, planned, results, steps, tables_compare, tides_fetch, told
from task_examples import HERE, ScriptedTools, cut, loaded, run_of

from agentnb import Deny, Plan, Store, ToolCall, Workflow, recover, tool
from agentnb.advice import AnswerRun
from agentnb.core.log.events import RetryScheduled, ToolStarted
from agentnb.core.log.work_events import ModelCalled, StepAttempted
from agentnb.core.messages import Message, Text
from agentnb.core.messages import ToolCall as Call
from agentnb.core.plans.plan_steps import TOOL
from agentnb.core.questions import NoAnswer
from agentnb.core.usage import Usage
from agentnb.display.parts.head import tone
from agentnb.display.texts.states import chip, next_step
from agentnb.errors import SettingsError, StoreError, WorkflowError
from agentnb.models.model import Reply, Retry
from agentnb.models.registry import make_model
from agentnb.models.scripted import ScriptedModel
from agentnb.workflow.plans.planner_inputs import check_planner_inputs

DONE = "Two tides."


def answering(*answers: Any) -> Any:
    left = list(answers)
    return lambda question: left.pop(0)


@pytest.mark.req("R1.14", "R1.25", "R1.26", "R1.29", "R1.31")
def test_example_plan_produces_the_expected_results() -> None:
    expected = told("plan.run.yaml")
    tools = ScriptedTools(expected["tools"])
    run = Plan.read(PLANS / "plan.yaml").run_sync(tools=tools.tools, show=False)
    assert run.status == "completed", run.error
    assert [name for name, _, _ in results(run)] == expected["result_names"]
    assert [error for _, _, error in results(run)] == [None, None, None]
    assert run.text == "brest is higher"
    assert len(tools.called) == 4, "one retry"
    assert [event.step for event in run.events if isinstance(event, StepAttempted)] == ["plan/0"]


@pytest.mark.req("R1.30")
def test_plan_without_a_planner_stops_at_its_first_failure() -> None:
    plan = Plan.read({"steps": [{"type": TOOL, **one} for one in (fetch("vigo"), fetch("brest"))]})
    with pytest.raises(WorkflowError, match="no such station") as raised:
        plan.run_sync(tools=[tides_fetch], show=False)
    run: Any = raised.value.run
    assert [error for _, _, error in results(run)] == ["ValueError: no such station"]


def test_plan_with_edited_arguments_runs_as_edited() -> None:
    plan = Plan.read({"steps": [{"type": TOOL, **fetch("brest")}]})
    plan.run_sync(tools=[tides_fetch], show=False)
    assert plan.steps[0].args is not None
    plan.steps[0].args["station"] = "lorient"
    run = plan.run_sync(tools=[tides_fetch], show=False)
    assert [result["args"] for result in run.variables["results"]] == [{"station": "lorient"}]


@pytest.mark.req("R1.1", "R1.4", "R1.5", "R1.6", "R1.17", "R1.18", "R1.30", "KX.9")
def test_planner_sees_results_and_errors_until_it_answers() -> None:
    run, model = planned([steps(fetch("vigo"), fetch("brest")), "Only Brest has tides."])
    assert (run.status, run.text) == ("completed", "Only Brest has tides.")
    assert [bool(error) for _, _, error in results(run)] == [True, False]
    assert [len(request.settings["planning"]["results"]) for request in model.requests] == [0, 2]
    assert "no such station" in model.requests[1].messages[-1].text
    assert [entry["role"] for entry in run.variables["transcript"]] == ["user", "assistant", "assistant"]
    called = [event for event in run.events if isinstance(event, ModelCalled)]
    assert [(one.operation, one.model) for one in called] == [("plan_generation", "scripted:script")] * 2
    assert len(run.plans) == 2


@pytest.mark.req("KX.9")
def test_planning_calls_count_in_usage_and_budget() -> None:
    reply = Reply(Message("assistant", (Text(steps(fetch("brest"))),)), Usage(input=100, output=10, cost=0.5))
    run, _ = planned([reply, DONE])
    assert (run.usage.input, run.usage.cost, run.status) == (100, 0.5, "completed")
    run, model = planned([reply, DONE], budget=0.4)
    assert (run.status, run.stop_reason, len(model.requests)) == ("limited", "budget", 1)
    unknown = make_model("openai:no-such-model?url=http://localhost:1/v1")
    with pytest.raises(SettingsError, match="a budget cannot be enforced"):
        Workflow.planner().run_sync("Which?", model=unknown, budget=0.4, show=False)


@pytest.mark.req("R1.20", "R1.47")
def test_selectable_tools_are_listed_for_the_planner(subtests: pytest.Subtests) -> None:
    tools = [tides_fetch, tables_compare]
    for names, expected in ((None, 2), (["tides.fetch"], 1), ("tides_fetch, tables/compare", 2), ([], 0)):
        with subtests.test(str(names)):
            _, model = planned([DONE], tools, inputs={"tools": names})
            assert len(model.requests[0].tools) == expected
    run, model = planned([DONE], tools, inputs={"tools": ["tides_fetsch"]})
    assert run.status == "failed" and run.error is not None and "tides_fetsch" in run.error.message
    assert model.requests == []


@pytest.mark.req("R1.21")
def test_native_tool_calls_run_as_steps() -> None:
    same = ToolCall("tides_fetch", {"station": "brest"}, "call_1")
    run, _ = planned([["Look.", same], [same], DONE])
    assert len(results(run)) == 2, "a provider may reuse an id"
    first = next(iter(run.plans.values())).plan["steps"][0]
    assert (first["id"], first["reason"]) == ("call_1", "Look.")


@pytest.mark.req("R1.23", "R1.32")
def test_identical_steps_and_steps_with_results_run_only_once() -> None:
    compare = {"name": "tables_compare", "args": {"left": "$step[1].output.rows", "right": []}}
    reply = steps(fetch("brest", id="a"), fetch("brest"), compare)
    run, _ = planned([reply, steps(fetch("brest", id="a"), fetch("cork")), DONE], [tides_fetch, tables_compare])
    assert [name for name, _, _ in results(run)] == ["tides_fetch", "tables_compare", "tides_fetch"]
    assert results(run)[1][1] == "[['04:12', 6.1]] and []", "a reference to the second means the first"


@pytest.mark.req("R1.37", "R1.39", "R1.40", "KX.8")
def test_repeated_calls_are_blocked_across_plans_and_earlier_results() -> None:
    given = [{"id": None, "name": "tides_fetch", "args": {"station": "brest"}, "result": "old", "error": None}]
    run, model = planned([steps(fetch("brest")), steps(fetch("brest")), DONE], inputs={"results": given})
    assert [error for _, _, error in results(run)] == [None, None, "duplicate_call_blocked"]
    assert results(run)[2][1] == results(run)[1][1], "the last output of that call"
    assert [result["error"] for result in model.requests[2].settings["planning"]["results"]] == ["duplicate_call_blocked"]
    assert run.step_records["loop/exec/0"].status == "failed" and run.step_calls[-1].record.rule == "consecutive"


@pytest.mark.req("R1.38", "R1.41")
def test_repeat_guard_of_plans_can_be_configured(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, int]] = {
        "the usual ones": (None, 2),
        "two in a row": ({"consecutive": 2}, 1),
        "none": (False, 5),
        "a tool that is exempt": ({"exempt": ["tides.fetch"]}, 5),
        "a success at once": ({"block_immediate_success_repeat": True}, 1),
        "results that differ": ({"same_result": True}, 5),
    }
    for name, (guard, calls) in cases.items():
        with subtests.test(name):
            count = iter(range(9))

            def tides_fetch(station: str, count: Any = count) -> int:
                """Fetch."""
                return next(count) if count else 0

            run, _ = planned([steps(fetch("brest"))] * 5 + [DONE], [tides_fetch], inputs={"guard": guard})
            assert [error for _, _, error in results(run)].count(None) == calls
    again = [{"id": None, "name": "tides_fetch", "args": {"station": "brest"}, "result": 0, "error": None}]
    plan = Plan.read({"steps": [{"name": "tides_fetch", "args": {"station": "brest"}}]})
    run = plan.run_sync(tools=[tides_fetch], inputs={"guard": {"consecutive": 2}, "results": again}, show=False)
    assert run.variables["results"][-1]["error"] == "duplicate_call_blocked"
    for guard, says in (({"consecutiv": 4}, "consecutive"), (3, "window, frequency"), ({"window": 0}, "from 2 to 64")):
        with pytest.raises((SettingsError, WorkflowError), match=says):
            plan.run_sync(tools=[tides_fetch], inputs={"guard": guard}, show=False)
    text = "init: {mine: {consecutiv: 4}, guard: $mine}\nstage: {a: {action: llm/exec:run_plan, input: {guard: $guard}}}\n"
    with pytest.raises(SettingsError, match="no setting consecutiv"):
        check_planner_inputs(Workflow.from_yaml(text).declared, {}, None, Path())
    sets_it = text.replace("stage: {", "stage: {b: {post: {guard: false}}, ")
    check_planner_inputs(Workflow.from_yaml(sets_it).declared, {}, None, Path())


@pytest.mark.req("R1.38")
def test_tool_that_changes_its_argument_leaves_the_plan_unchanged() -> None:
    @tool
    def take(items: Any) -> int:
        """Empty a list."""
        items.clear()
        return 0

    plan = Plan.read({"steps": [{"type": "tool", "name": "take", "args": {"items": ["a"]}}]})
    run = plan.run_sync(tools=[take], show=False)
    assert run.settings["inputs"]["plan"]["steps"][0]["args"] == plan.steps[0].args == {"items": ["a"]}


def test_references_resolving_to_equal_arguments_count_as_repeats() -> None:
    calls: list[str] = []

    def tides_fetch(station: str) -> str:
        """Fetch."""
        calls.append(station)
        return station

    written = ["brest", "$step[0].output", "$step[1].output", "ouessant"]
    plan = Plan.read({"steps": [{"name": "tides_fetch", "args": {"station": one}} for one in written]})
    run = plan.run_sync(tools=[tides_fetch], show=False)
    assert [result["error"] for result in run.variables["results"]] == [None, None, "duplicate_call_blocked", None]
    assert calls == ["brest", "brest", "ouessant"] and run.variables["results"][2]["result"] == "brest"


@pytest.mark.req("R1.26")
def test_retries_count_as_one_call_for_the_repeat_guard() -> None:
    calls: list[str] = []

    def flaky(n: int) -> int:
        """Fail twice."""
        calls.append("x")
        if len(calls) < 3:
            raise ValueError("not yet")
        return n

    run, _ = planned([steps({"name": "flaky", "args": {"n": 1}, "retries": 2}), DONE], [flaky])
    assert (len(calls), results(run)) == (3, [("flaky", 1, None)])


@pytest.mark.req("R1.31")
def test_template_syntax_in_a_result_stays_text() -> None:
    def echo(text: str) -> str:
        """Return the text."""
        return text

    trick = "$step[0].output {{ tools }} ${query}"
    reply = steps({"name": "echo", "args": {"text": trick}}, {"name": "echo", "args": {"text": "$step[0].output"}})
    run, model = planned([reply, DONE], [echo])
    assert [result for _, result, _ in results(run)] == [trick, trick]
    exact = steps({"name": "echo", "args": {"text": "$step[9].output"}}, {"name": "echo", "args": {"text": "x"}})
    run, model = planned([exact, DONE], [echo])
    assert [bool(error) for _, _, error in results(run)] == [True, False]
    assert trick not in model.requests[0].messages[-1].text


@pytest.mark.req("R1.27", "R1.28", "R1.42", "R1.43", "R1.44")
def test_each_question_and_answer_reaches_the_planner_once(subtests: pytest.Subtests) -> None:
    day = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
    asks = {"message": "For which day?", "requestedSchema": day}
    cases: dict[str, tuple[str, dict[str, Any], int]] = {
        "of the plan": (steps(fetch("brest"), elicitation=asks), {"day": "today"}, 0),
        "of a step": (steps(fetch("brest"), {"type": "elicitation", "elicitation": asks}, fetch("cork")), {"day": "today"}, 1),
        "alone": (json.dumps({"type": "elicitation", **asks}), {"day": "today"}, 0),
        "missing arguments": (steps({"name": "tides_fetch", "args": {}}, fetch("cork")), {"station": "brest"}, 0),
    }
    for name, (reply, content, ran) in cases.items():
        with subtests.test(name):
            run, model = planned([reply, DONE], answer=answering(content))
            assert run.status == "completed", run.error
            assert [result for result, _, _ in results(run)] == ["tides_fetch"] * ran + ["elicitation"]
            assert json.loads(results(run)[-1][1]) == {"action": "accept", "content": content}
            assert [result["name"] for result in model.requests[1].settings["planning"]["results"]][-1] == "elicitation"
            assert run.questions[0].question.kind == "elicitation" and run.warnings == ()


def test_question_without_a_planner_says_that_steps_did_not_run(subtests: pytest.Subtests) -> None:
    asks = {"type": "elicitation", "content": "For which day?"}
    cases: dict[str, tuple[dict[str, Any], bool]] = {
        "missing arguments": ({"steps": [{"name": "tides_fetch", "args": {}}]}, True),
        "of the plan": ({"steps": [fetch("brest")], "elicitation": {"message": "For which day?"}}, True),
        "of a step": ({"steps": [asks, fetch("brest")]}, True),
        "of the last step": ({"steps": [fetch("brest"), asks]}, False),
        "of a plan without steps": ({"steps": [], "elicitation": {"message": "For which day?"}}, False),
    }
    for name, (data, warns) in cases.items():
        with subtests.test(name):
            answer = answering({"station": "brest"} if name == "missing arguments" else "today")
            run = Plan.read(data).run_sync(tools=[tides_fetch], show=False, answer=answer)
            assert (run.status, results(run)[-1][0]) == ("completed", "elicitation")
            assert ["did not run. Write the answer into the plan" in warning for warning in run.warnings] == [True] * warns


@pytest.mark.req("R1.43", "R1.44")
def test_declined_and_cancelled_questions_become_results(subtests: pytest.Subtests) -> None:
    reply = steps({"type": "clarify_intent", "content": "Which Brest?"})
    for typed in ("decline", "cancel"):
        with subtests.test(typed):
            run, _ = planned([reply, DONE], answer=answering(NoAnswer(typed)))
            assert [json.loads(result) for _, result, _ in results(run)] == [{"action": typed}]
            assert run.text == DONE
    run, _ = planned([reply, DONE], answer=answering("The one in France"))
    assert json.loads(results(run)[0][1])["content"] == {"answer": "The one in France"}


@pytest.mark.req("R1.42", "R1.45", "KX.5")
def test_suspended_run_resumes_with_the_answer(tmp_path: Path) -> None:
    asks = {
        "type": "elicitation",
        "elicitation": {"message": "In feet?", "requestedSchema": told("elicitations.yaml")[2]["asks"]["requestedSchema"]},
    }
    store, calls = Store(tmp_path), []

    def tides_fetch(station: str) -> str:
        """Fetch."""
        calls.append(station)
        return station

    replies = [steps(fetch("brest"), asks, fetch("cork")), DONE]
    run, model = planned(replies, [tides_fetch], store)
    assert run.status == "waiting_on_user" and calls == ["brest"]
    (question,) = run.waiting
    orchestration = Workflow.planner([tides_fetch]).orchestration(
        model=ScriptedModel(replies[1:]), inputs={"query": "Which tides?"}
    )
    again = asyncio.run(recover(run.id, store=store, agent=orchestration, answers={question.id: {"feet": True}}))
    assert (again.status, again.text, calls) == ("completed", DONE, ["brest"])
    assert len(model.requests) == 1
    nobody, _ = planned(replies, [tides_fetch])
    assert (nobody.status, [question.message for question in nobody.waiting]) == ("waiting_on_user", ["In feet?"])
    assert ["This run has no store" in warning and "answer=FUNCTION" in warning for warning in nobody.warnings] == [True]
    assert run.warnings == ()
    assert (next_step(nobody), isinstance(next_step(run), AnswerRun)) == (None, True), "without a store no answer resumes it"
    assert (chip(nobody), tone(nobody), chip(run)) == ("Ended: question not answered", "warn", "Waiting for you")
    with pytest.raises(StoreError, match=r"is not in .* recover\(run, store=Store\(FOLDER\)\)"):
        asyncio.run(recover(run, answers={question.id: {"feet": True}}))


@pytest.mark.req("R1.29", "R1.50")
def test_abort_fails_the_run_with_its_reason_and_keeps_results() -> None:
    run, model = planned([steps(fetch("brest"), {"type": "abort", "reason": "The harbour is closed"}, fetch("cork")), DONE])
    assert (run.status, run.stop_reason) == ("failed", "error")
    assert run.error is not None and run.error.message == "The harbour is closed"
    assert len(results(run)) == 1 and len(model.requests) == 1


@pytest.mark.req("K1.9", "KX.2")
def test_endless_planner_reaches_the_plan_limit() -> None:
    replies = [steps(fetch(f"harbour {n}")) for n in range(9)]
    run, model = planned(replies, workflow=Workflow.planner([tides_fetch], max_plan_iterations=3))
    assert (run.status, run.stop_reason, len(model.requests), len(run.plans)) == ("limited", "max_plan_iterations", 3, 3)
    with pytest.raises(SettingsError):
        Workflow.planner(max_plan_iterations=0)


@pytest.mark.req("KX.8")
def test_gates_judge_step_calls_and_denied_calls_are_not_retried() -> None:
    asked: list[Call] = []

    def gate(call: Call, run: Any) -> Deny | None:
        asked.append(call)
        return Deny("not today") if call.arguments == {"station": "brest"} else None

    run, _ = planned([steps(fetch("brest", retries=3), fetch("cork")), DONE], gates=[gate])
    assert [bool(error) for _, _, error in results(run)] == [True, False]
    assert len(asked) == 2
    run, _ = planned([steps(fetch("brest")), DONE], approve="never", permissions={"tides_fetch": "deny"})
    assert "not allowed" in results(run)[0][2]


@pytest.mark.req("KX.3", "K1.8")
def test_loop_does_not_call_a_failed_planner_again(subtests: pytest.Subtests) -> None:
    for name, reply in {"broken": '{"steps": [', "empty": "", "error": ValueError("down")}.items():
        with subtests.test(name):
            run, model = planned([reply, DONE])
            assert (run.status, len(model.requests)) == ("failed", 1)


def test_retries_of_a_planning_call_are_logged(tmp_path: Path) -> None:
    class Busy(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            yield Retry(1, 0.0, "busy", 529)
            async for item in super().stream(request):
                yield item

    store = Store(tmp_path)
    run = run_of(Workflow.planner([tides_fetch]), {"query": "Which?"}, store, model=Busy([DONE]))
    assert (run.status, run.text) == ("completed", DONE), run.error
    assert [event.reason for event in store.load(run.id).events if isinstance(event, RetryScheduled)] == ["busy"]


@pytest.mark.req("R1.19", "R1.46")
def test_custom_template_replaces_the_entire_planner_prompt(tmp_path: Path) -> None:
    inputs = json.loads((HERE / "inputs.json").read_text(encoding="utf-8"))
    _, model = planned([DONE], [tides_fetch], inputs={**inputs, "tools": ["tides.fetch"]})
    (request,) = model.requests
    shown = request.messages[0].text
    assert shown.startswith("Plan for How many tides has the table of Brest? with {") and shown.endswith("So far: ")
    assert request.system == inputs["context"], "a template without a place for it"
    (tmp_path / "prompt.md").write_text((HERE / "prompt-template.md").read_text(encoding="utf-8"), encoding="utf-8")
    _, model = planned([DONE], [tides_fetch], inputs={"promptTemplate": "prompt.md"}, work_dir=tmp_path)
    assert model.requests[0].messages[0].text.startswith("You plan work for a program that calls tools.")
    problems = loaded("problems.yaml")
    text = next(problem["promptTemplate"] for problem in problems if "promptTemplate" in problem)
    for given, words in ((text, ["#foreach", "{{ results }}"]), ("{{ reslts }}", ["results"]), ("../x.md", ["outside"])):
        run, model = planned([DONE], inputs={"promptTemplate": given}, work_dir=tmp_path)
        assert run.error is not None and all(word in f"{run.error.message} {run.error.advice}" for word in words)
        assert model.requests == []


@pytest.mark.req("R1.32")
def test_interrupted_call_fails_unless_its_tool_is_repeatable(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for repeatable, expected in ((False, ["interrupted"]), (True, [])):
        calls: list[str] = []

        @tool(repeatable=repeatable)
        def fetch_slowly(station: str, calls: list[str] = calls) -> str:
            """Fetch."""
            calls.append(station)
            return station

        store = Store(tmp_path / f"whole-{repeatable}")
        replies = [steps({"name": "fetch_slowly", "args": {"station": "a"}}), DONE]
        run, _ = planned(replies, [fetch_slowly], store)
        begun = next(event.seq for event in run.events if isinstance(event, ToolStarted))
        with subtests.test(repeatable=repeatable):
            cut_store = cut(store, run, begun + 1, tmp_path / f"cut-{repeatable}")
            workflow, model = Workflow.planner([fetch_slowly]), ScriptedModel(replies[1:])
            orchestration = workflow.orchestration(model=model, inputs={"query": "Which tides?"})
            again = asyncio.run(recover(run.id, store=cut_store, agent=orchestration))
            assert again.status == "completed", again.error
            assert [call.record.result.error_code for call in again.step_calls if call.record.result.is_error] == expected
            assert len(calls) == 1 + repeatable, "the first was made before the kill"


def test_planner_input_may_name_built_in_tools(tmp_path: Path) -> None:
    reply = steps({"name": "list.files", "args": {}})
    allowed = {"list_files": "allow"}
    run, model = planned([reply, DONE], [], inputs={"tools": ["list_files"]}, work_dir=tmp_path, permissions=allowed)
    assert [error for _, _, error in results(run)] == [None], run.error
    assert [spec.name for spec in model.requests[0].tools] == ["list_files"]


@pytest.mark.req("R1.41")
def test_polling_tools_may_be_repeated() -> None:
    @tool(repeatable=True)
    def poll() -> str:
        """Look again."""
        return "not yet"

    run, _ = planned([steps({"name": "poll"})] * 5 + [DONE], [poll])
    assert [error for _, _, error in results(run)] == [None] * 5
