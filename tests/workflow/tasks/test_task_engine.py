"""The task engine: order, background tasks, concurrency, failures and gotos."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from task_examples import on_virtual_time, played, tasks_of

from agentnb import Agent, Run, Store, Workflow
from agentnb.core.log.work_events import BranchTaken, StepAttempted, StepStarted
from agentnb.errors import SettingsError, WorkflowProblems
from agentnb.models.scripted import ScriptedModel
from agentnb.session.recovery import recover
from agentnb.workflow.tasks.task_calls import ActionCall


class Bench:
    """Tools that record their beginning and end."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.at_once = 0
        self.most_at_once = 0

        async def do_wait(seconds: float, name: str = "") -> str:
            """Wait, and return the name."""
            self.told.append(f"{name} begins")
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.told.append(f"{name} is cancelled")
                raise
            finally:
                self.at_once -= 1
            self.told.append(f"{name} ends")
            return name

        async def do_fail(seconds: float = 0.0) -> str:
            """Fail after a while."""
            await asyncio.sleep(seconds)
            self.told.append("it fails")
            raise ValueError("no luck")

        async def do_give(value: Any) -> Any:
            """Return the value."""
            self.told.append(f"give {value}")
            return value

        self.tools = [do_wait, do_fail, do_give]

    def played(self, text: str, inputs: dict[str, Any] | None = None, **settings: Any) -> Run:
        return played(text, inputs, tools=self.tools, **settings)


WAITS = """
init: {seconds: [3, 1, 2]}
stage:
  each:
    emit: {forEach: "${seconds}", as: n, task: {one: {action: do:wait, input: {seconds: "${n}", name: "after ${n}"}}}}
    await: {mode: MODE, merge: MERGE}
    post: {found: "${result}"}
"""


@pytest.mark.req("R1.10")
def test_await_collects_the_results_of_emit(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, Any, list[str]]] = [
        ("all", "append", ["after 3", "after 1", "after 2"], []),
        ("all", "replace", "after 3", []),
        ("anyError", "append", ["after 3", "after 1", "after 2"], []),
        ("first", "append", ["after 1"], ["after 3", "after 2"]),
        ("first", "replace", "after 1", ["after 3", "after 2"]),
    ]
    for mode, merge, expected, cancelled in cases:
        with subtests.test(f"{mode} {merge}"):
            bench = Bench()
            run = bench.played(WAITS.replace("MODE", mode).replace("MERGE", merge))
            assert run.status == "completed"
            assert run.variables["found"] == expected
            assert sorted(one for one in bench.told if "cancelled" in one) == sorted(f"{one} is cancelled" for one in cancelled)


FAILS = """
stage:
  slow: {action: do:wait, async: true, input: {seconds: 9, name: slow}}
  bad: {action: do:fail, async: true, input: {seconds: 1}}
  both: {await: {on: [slow, bad], mode: MODE, merge: MERGE}, post: {found: "${result}"}}
"""


@pytest.mark.req("R1.10")
def test_await_mode_determines_which_failures_count(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, list[str]]] = [
        ("all", "failed", ["slow begins", "it fails", "slow ends"]),
        ("anyError", "failed", ["slow begins", "it fails", "slow is cancelled"]),
        ("first", "completed", ["slow begins", "it fails", "slow is cancelled"]),
    ]
    for mode, status, expected in cases:
        with subtests.test(mode):
            bench = Bench()
            run = bench.played(FAILS.replace("MODE", mode).replace("MERGE", "append"))
            assert (run.status, bench.told) == (status, expected)
            assert run.variables.get("found") == ([] if mode == "first" else None)
            if status == "failed":
                assert run.error is not None and "no luck" in run.error.message
                assert run.stop_reason == "step_failed"


@pytest.mark.req("R1.10")
def test_awaiting_an_emit_returns_its_list_of_results(subtests: pytest.Subtests) -> None:
    first = WAITS.partition("    await:")[0]
    for rest, expected in {
        "": [["after 3", "after 1", "after 2"]],
        ", merge: replace": ["after 3", "after 1", "after 2"],
    }.items():
        with subtests.test(rest):
            run = Bench().played(f"{first}  join: {{await: {{on: [each]{rest}}}, post: {{found: '${{result}}'}}}}\n")
            assert run.variables["found"] == expected


@pytest.mark.req("R1.10", "R1.50")
def test_failure_handled_by_await_does_not_fail_the_run(subtests: pytest.Subtests) -> None:
    handled = "onError: {action: do:give, input: {value: handled}}"
    awaits = {
        "all": "await: {on: [slow, bad]}",
        "at once": "await: {on: [slow, bad], mode: anyError}",
        "everything": "await: true",
        "its own condition": "await: true, when: 1 < null",
    }
    for name, waits in awaits.items():
        with subtests.test(name):
            bench = Bench()
            run = bench.played(f"{FAILS.partition('  both:')[0]}  both: {{{waits}, {handled}}}\n  last: {{post: {{a: 1}}}}\n")
            assert (run.status, bench.told[-1], run.variables) == ("completed", "give handled", {"a": 1})
            assert ("it fails" in bench.told, "give handled" in bench.told[:-1]) == (True, False)
    with subtests.test("another one"):
        text = f"{FAILS.partition('  both:')[0]}  both: {{await: {{on: [slow]}}, post: {{a: '${{1 / 0}}'}}, {handled}}}\n"
        run = Bench().played(text)
        assert run.status == "failed" and run.error is not None and "no luck" in run.error.message


@pytest.mark.req("R1.10")
def test_await_timeout_fails_the_task_and_cancels_the_rest() -> None:
    bench = Bench()
    text = WAITS.replace("MODE", "all").replace("merge: MERGE", "timeout: 1500ms")
    run = bench.played(text)
    assert run.status == "failed"
    assert run.error is not None and "did not finish within 1.5 s" in run.error.message
    assert bench.told[-3:] == ["after 1 ends", "after 3 is cancelled", "after 2 is cancelled"]


@pytest.mark.req("R1.10")
def test_at_most_eight_items_run_at_once() -> None:
    bench = Bench()
    text = WAITS.replace("MODE", "all").replace("MERGE", "append")
    run = bench.played(text, {"seconds": [1] * 30})
    assert len(run.variables["found"]) == 30
    assert bench.most_at_once == 8


@pytest.mark.req("R1.10")
def test_emit_without_await_runs_in_the_background() -> None:
    bench = Bench()
    text = """
stage:
  each:
    emit: {forEach: [1, 2], as: n, task: {one: {action: do:wait, input: {seconds: "${n}", name: "no ${n}"}}}}
    post: {found: "${result}"}
  next: {action: do:give, input: {value: "${found}"}}
  last: {dependsOn: each, action: do:give, input: {value: "${found}"}}
"""
    run = bench.played(text)
    assert bench.told == ["give None", "no 1 begins", "no 2 begins", "no 1 ends", "no 2 ends", "give ['no 1', 'no 2']"]
    assert run.text == '["no 1","no 2"]'


@pytest.mark.req("R1.10")
def test_run_waits_for_background_tasks_and_fails_if_they_fail(subtests: pytest.Subtests) -> None:
    for action, status in (("wait", "completed"), ("fail", "failed")):
        with subtests.test(action):
            bench = Bench()
            text = f"stage:\n  one: {{action: do:{action}, async: true, input: {{seconds: 5}}}}\n"
            assert bench.played(f"{text}  two: {{action: do:give, input: {{value: 1}}}}\n").status == status
            assert bench.told[-1] in ("it fails", " ends")


@pytest.mark.req("R1.10")
def test_dependents_of_a_block_require_all_tasks_to_succeed(subtests: pytest.Subtests) -> None:
    text = """
stage:
  both:
    slow: {action: do:wait, async: true, input: {seconds: 5, name: slow}}
    slower: {action: do:ACTION, async: true, input: {seconds: 9}}
  after: {dependsOn: both, action: do:give, input: {value: after}}
"""
    for action, expected in {
        "wait": ["slow begins", " begins", "slow ends", " ends", "give after"],
        "fail": ["slow begins", "slow ends", "it fails"],
    }.items():
        with subtests.test(action):
            bench = Bench()
            run = bench.played(text.replace("ACTION", action))
            assert (run.status, bench.told) == ("completed" if action == "wait" else "failed", expected)


@pytest.mark.req("R1.10")
def test_cancelled_tasks_end_before_the_next_task_starts() -> None:
    message: list[str] = []

    async def end_late(n: int) -> int:
        """Take a while to end when cancelled."""
        try:
            await asyncio.sleep(n)
        except asyncio.CancelledError:
            await asyncio.sleep(3)
            message.append("cleared up")
            raise
        return n

    async def say_on() -> None:
        """Go on."""
        message.append("on")

    text = """
stage:
  each:
    emit: {forEach: [1, 50], as: n, task: {one: {action: end:late, input: {n: "${n}"}}}}
    await: {mode: first}
  next: {action: say:on}
"""
    run = played(text, tools=[end_late, say_on])
    assert (run.status, message) == ("completed", ["cleared up", "on"])


@pytest.mark.req("R1.10")
def test_goto_to_a_running_task_waits_for_it() -> None:
    bench = Bench()
    text = """
vars: {times: 0}
stage:
  slow: {action: do:wait, async: true, input: {seconds: 5, name: slow}}
  again: {post: {times: "${times + 1}"}, goto: {when: times < 2, task: slow}}
"""
    run = bench.played(text)
    assert run.status == "completed"
    assert bench.told == ["slow begins", "slow ends", "slow begins", "slow ends"]


@pytest.mark.req("R1.10", "K4.3")
def test_retry_waits_for_the_configured_delay(subtests: pytest.Subtests) -> None:
    cases = {
        "{type: fixed, maxRetries: 3, delay: 50ms}": [0.05, 0.05, 0.05],
        "{type: exponential, maxRetries: 4, delay: 10ms, multiplier: 3, maxDelay: 5m}": [0.01, 0.03, 0.09, 0.27],
        "{type: exponential, maxRetries: 3, delay: 0.1, maxDelay: 0.15s}": [0.1, 0.15, 0.15],
        "{maxRetries: 1}": [1],
        "{type: none, maxRetries: 4}": [],
        "{maxRetries: 0}": [],
    }
    for retry, waits in cases.items():
        with subtests.test(retry):
            run = Bench().played(f"stage:\n  one: {{action: do:fail, retry: {retry}}}")
            assert [event.wait for event in run.events if isinstance(event, StepAttempted)] == pytest.approx(waits)
            assert (run.status, run.step_records["one"].attempts) == ("failed", len(waits) + 1)


@pytest.mark.req("R1.50", "K1.7")
def test_error_handler_runs_once_with_task_name_and_error(subtests: pytest.Subtests) -> None:
    handler = 'onError: {action: do:give, input: {value: "${step.name}: ${error}"}}'
    text = f"""
stage:
  bad: {{action: do:fail, {handler}, goto: {{task: bad}}, post: {{done: true}}}}
  next: {{action: do:give, input: {{value: next}}}}
"""
    for abort, expected, status in ((False, ["give next"], "completed"), (True, [], "failed")):
        with subtests.test(f"abort: {abort}"):
            bench = Bench()
            run = bench.played(text.replace(handler, f"{handler}, abort: true") if abort else text)
            assert bench.told[0] == "it fails"
            assert bench.told[1].startswith("give bad: ") and "no luck" in bench.told[1]
            assert bench.told[2:] == expected
            assert (run.status, run.variables) == (status, {})
            if abort:
                assert run.stop_reason == "error"
                assert run.error is not None and run.error.message == run.step_records["bad"].error


@pytest.mark.req("R1.50")
def test_failing_handler_fails_the_run_unless_abort_is_set(subtests: pytest.Subtests) -> None:
    for abort, reason in (("false", "step_failed"), ("true", "error")):
        with subtests.test(abort):
            bench = Bench()
            run = bench.played(f"stage:\n  bad: {{action: do:fail, onError: {{action: do:fail}}, abort: {abort}}}\n")
            assert (run.status, run.stop_reason) == ("failed", reason)
            assert bench.told == ["it fails", "it fails"]
            assert run.error is not None and run.error.message.startswith("step bad.onError: ") is (abort == "false")


@pytest.mark.req("R1.3", "R1.9")
def test_value_with_exactly_one_expression_keeps_its_type() -> None:
    bench = Bench()
    run = bench.played(
        """
init: {list: [1, 2], text: a}
stage:
  one: {action: do:give, input: {value: {list: "${list}", number: "${list[-1] + 1}", text: "${text}${list}", null: "${query}"}}}
"""
    )
    assert run.step_context["steps"]["one"]["output"] == {"list": [1, 2], "number": 3, "text": "a[1,2]", "null": None}


@pytest.mark.req("R1.3", "R1.9")
def test_dollar_names_resolve_to_variables_everywhere() -> None:
    run = Bench().played(
        """
name: counting
description: Counts to three.
init: {begin: 1, n: $begin, all: [], unset: "at $n"}
tasks:
  count:
    action: do:give
    input: {value: "$n of ${3}, $ and $5 at $HOME"}
    post: {n: "${n + 1}", "all[]": $result}
    goto: {when: $n < $last, task: count}
""",
        {"begin": 2, "last": 4},
    )
    assert run.variables["all"] == ["2 of 3, $ and $5 at $HOME", "3 of 3, $ and $5 at $HOME"]
    assert (run.variables["n"], run.variables["unset"], run.agent) == (4, "at 2", "counting")
    failed = Bench().played("stage:\n  one: {post: {'query[]': 1}}\n", {"query": "a"})
    assert failed.error is not None
    assert "query is not a list" in failed.error.message


@pytest.mark.req("R1.3")
def test_names_in_post_resolve_to_result_fields_then_variables() -> None:
    bench = Bench()
    run = bench.played(
        """
init: {number: 1, other: 5}
stage:
  one:
    action: do:give
    input: {value: '{"number": 10, "name": "n"}'}
    post: {sum: "${number + other}", whole: "${result.name}", next: "${sum + 1}", number: "${other}", again: "${number}"}
"""
    )
    assert run.variables == {"number": 5, "other": 5, "sum": 15, "whole": "n", "next": 16, "again": 10}
    text = "stage:\n  one: {action: do:give, input: {value: VALUE}, post: {whole: '${result}'}}\n"
    for value in ("'{\"a\": NaN}'", "'see {\"a\": 1}'", "'3'"):
        assert isinstance(Bench().played(text.replace("VALUE", value)).variables["whole"], str)


def test_action_that_mutates_its_input_changes_no_variable() -> None:
    async def add(call: ActionCall) -> int:
        call.input["list"].append(3)
        return len(call.input["list"])

    task = "{action: do:add, input: {list: '${list}'}}"
    run = played(f"init: {{list: [1, 2]}}\nstage:\n  one: {task}\n  two: {task}\n", actions={"do:add": add})
    assert (run.text, run.variables) == ("3", {"list": [1, 2]})


def test_unknown_name_in_post_fails_the_task_and_suggests_names() -> None:
    run = Bench().played("stage:\n  one: {action: do:give, input: {value: {summary: 1}}, post: {a: '${sumary}'}}\n")
    assert run.status == "failed"
    assert run.error is not None
    assert all(word in f"{run.error.message} {run.error.hint}" for word in ("sumary", "summary"))
    text = "stage:\n  one: {post: {a: 1, b: '${query[0]}'}, onError: {action: do:give, input: {value: '${a}'}}}\n"
    bench = Bench()
    run = bench.played(text, {"query": []})
    assert (run.status, run.variables, bench.told) == ("completed", {"query": []}, ["give None"])


@pytest.mark.req("R1.8")
def test_first_true_goto_is_taken_and_otherwise_none_is_logged() -> None:
    bench = Bench()
    text = """
vars: {n: 0}
stage:
  one: {post: {n: "${n + 1}"}}
  two: {goto: [{when: n == 1, task: one}, {when: n >= 1, task: four}]}
  three: {action: do:give, input: {value: three}}
  four: {goto: {when: n > 5, task: one}}
  five: {goto: {task: end}}
  six: {action: do:give, input: {value: six}}
"""
    run = bench.played(text)
    assert (run.status, bench.told) == ("completed", [])
    taken = [(event.step, event.to, event.count) for event in run.events if isinstance(event, BranchTaken)]
    assert taken == [("two", "one", 1), ("two", "four", 0), ("four", "five", 0), ("five", "end", 0)]


@pytest.mark.req("R1.8", "K4.3")
def test_task_loop_limit_has_the_same_message_as_workflows(snapshot: Snapshot) -> None:
    text = "max_loop_iterations: 3\nstage:\n  main:\n    one: {action: do:give, input: {value: 1}, goto: {task: main}}\n"
    bench = Bench()
    run = bench.played(text)
    assert (run.status, run.stop_reason, len(bench.told)) == ("failed", "max_loop_iterations", 3)
    assert run.error is not None
    assert run.error.message == snapshot


@pytest.mark.req("R1.2")
def test_goto_into_a_nested_block_starts_at_its_first_task() -> None:
    text = """
vars: {n: 0}
pipeline:
  outer:
    inner:
      vars: {m: 5}
      deep: {one: {action: do:give, input: {value: "${n + m}"}}}
    two: {post: {n: "${n + 1}"}, goto: {when: n < 2, task: inner}}
"""
    run = Bench().played(text)
    assert tasks_of(run) == ["one", "two", "one", "two"]
    assert next(event.step for event in run.events if isinstance(event, StepStarted)) == "outer/inner/deep/one"


def test_prompt_becomes_the_query_and_passing_both_is_refused() -> None:
    workflow = Workflow.from_yaml("stage:\n  one: {action: do:give, input: {value: '${query}'}}\n", tools=Bench().tools)
    assert on_virtual_time(lambda: workflow.run("How?", show=False)).text == "How?"
    assert workflow.run_sync("How?", show=False).text == "How?"
    assert workflow.run_sync(inputs={"query": "Why?"}, show=False).text == "Why?"
    with pytest.raises(SettingsError, match="query"):
        workflow.run_sync("How?", inputs={"query": "Why?"})


@pytest.mark.req("R1.2")
def test_unknown_action_is_refused_before_anything_runs() -> None:
    workflow = Workflow.from_yaml(
        "stage:\n  one: {action: do:give}\n  two: {action: llm/core:plans, onError: {action: do:gave}}\n", tools=Bench().tools
    )
    with pytest.raises(WorkflowProblems) as caught:
        workflow.orchestration()
    assert [problem.line for problem in caught.value.problems] == [3, 3]
    assert all(word in str(caught.value) for word in ("llm/core:plan", "llm_core_plan", "do_give"))


@pytest.mark.req("R1.2")
def test_action_runs_an_agent_once_as_a_nested_run(tmp_path: Path) -> None:
    store, agent = Store(tmp_path), Agent(ScriptedModel(["an answer"], name="scripted:a"), name="helper")

    async def ask(call: ActionCall) -> dict[str, Any]:
        run = await call.run("reply", agent, call.input["question"])
        return {"answer": run.text, "was": run.prompt}

    text = "stage:\n  one: {action: llm:ask, input: {question: '${query}'}, post: {answer: '${answer}', was: '${was}'}}\n"
    run = on_virtual_time(lambda: Workflow.from_yaml(text).run("How?", actions={"llm:ask": ask}, store=store, show=False))
    assert (run.text, run.variables["was"]) == ("an answer", "How?")
    nested = [event.nested for event in run.events if isinstance(event, StepStarted) and event.nested]
    assert store.load(nested[0]).parent_id == run.id
    assert [*run.steps] == ["one"]


def test_task_file_is_recovered_from_its_log_with_its_inputs(tmp_path: Path) -> None:
    bench, store = Bench(), Store(tmp_path)
    text = "stage:\n  one: {action: do:give, input: {value: 1}}\n  two: {action: do:give, input: {value: '${station}'}}\n"
    whole = bench.played(text, {"station": "brest"}, store=store)
    log = store.path(whole.id)
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    first_end = next(place for place, line in enumerate(lines) if '"step_finished"' in line)
    log.write_text("".join(lines[: first_end + 1]), encoding="utf-8")
    bench.told.clear()
    run = asyncio.run(recover(whole.id, store=store, tools=bench.tools))
    assert (run.status, run.text, bench.told) == ("completed", "brest", ["give brest"])


def test_workflow_runs_a_task_file_as_a_step(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text(
        "init: {n: 0}\nstage:\n  one: {action: do:give, input: {value: '${query} ${n}'}}\n", encoding="utf-8"
    )
    outer = tmp_path / "outer.yaml"
    outer.write_text("workflow:\n  - {type: workflow, file: tasks.yaml, id: inner, inputs: {n: 7}}\n", encoding="utf-8")
    workflow = Workflow.from_yaml(outer, tools=Bench().tools)
    assert on_virtual_time(lambda: workflow.run("How?", show=False)).text == "How? 7"


def test_example_in_the_documentation_runs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "workflows.md").read_text(encoding="utf-8")
    section = page.split("## Task files")[1].split("wf = Workflow")[0]
    text = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    lengths = []

    async def tides_fetch(station: str) -> str:
        return f"table of {station}"

    async def tides_report(tables: list[str]) -> str:
        lengths.append(len(tables))
        return "short" if len(lengths) == 1 else " and ".join(tables)

    workflow = Workflow.from_yaml(text, tools=[tides_fetch, tides_report])
    run = on_virtual_time(lambda: workflow.run("How deep?", inputs={"stations": ["brest", "vigo"]}, show=False))
    assert (run.text, lengths) == ("table of brest and table of vigo", [2, 2])


def test_runs_of_one_file_keep_separate_action_tables() -> None:
    async def left(call: ActionCall) -> str:
        return "left"

    async def right(call: ActionCall) -> str:
        return "right"

    async def both() -> list[str]:
        workflow = Workflow.from_yaml("stage:\n  one: {action: own:work}\n")
        tables = ({"own:work": left}, {"own:work": right})
        return [run.text for run in await asyncio.gather(*[workflow.run(actions=one, show=False) for one in tables])]

    assert asyncio.run(both()) == ["left", "right"]
