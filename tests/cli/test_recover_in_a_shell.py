"""``agentnb recover``, and ``agentnb answer`` for a run whose process was killed while it asked."""

from __future__ import annotations

import pytest
from marked_logs import cut_log
from property_settings import size
from shell_calls import RUNS, Call, last_run, module, nested_runs, written
from test_answer_in_a_shell import command_of

from agentnb import Agent, Store, ToolCall, Workflow
from agentnb.models import ScriptedModel

WORK = """
def work(what: str) -> str:
    '''Works.'''
    if what == "broken":
        raise ValueError("it is broken")
    return f"{what} done"
"""
THREE = """
workflow:
  - {id: a, type: tool, name: work, args: {what: a}}
  - {id: b, type: parallel, steps: [{id: x, type: tool, name: work, args: {what: x}}]}
  - {id: c, type: tool, name: work, args: {what: "{{ $steps.a.output }}"}}
"""
TASKS = "stage:\n  pay: {action: work, input: {what: x}}\n  more: {action: work, input: {what: y}}\napproval: ask\n"
ASKS = "workflow:\n  - {id: sub, type: workflow, file: inner.yaml}\n  - {id: last, type: tool, name: work, args: {what: c}}\n"


def cut_off(events: int) -> str:
    """Leave the newest run as if its process died after this many events; negative counts from the end."""
    return cut_log(RUNS / f"{last_run().id}.jsonl", events).stem


def test_killed_run_resumes_from_any_event_to_the_same_end(cli: Call, subtests: pytest.Subtests) -> None:
    tools, path = ("--tools", f"{module(WORK)}:work"), written("three.yaml", THREE)
    whole = cli("exec", path, *tools)
    for events in range(1, len(last_run().events), size(3, nightly=1)):
        with subtests.test(events=events):
            cli("exec", path, *tools)
            run_id = cut_off(events)
            assert f"Resume an interrupted one: agentnb recover {'ID'}" in cli("runs").out
            assert "To resume it: agentnb recover" in cli("answer", run_id, "yes").err
            done = cli("recover", run_id[-8:], *tools)
            assert (done.code, done.out, done.context) == (0, "a done done\n", whole.context)
            assert (last_run().id, last_run().times_recovered) == (run_id, 1)
            again = cli("recover", run_id, *tools)
            assert again.code == 2 and "there is nothing to recover. Run it again: agentnb exec FILE" in again.err


def test_exit_codes_and_messages_match_exec(cli: Call, subtests: pytest.Subtests) -> None:
    tools = ("--tools", f"{module(WORK)}:work")
    for text, events, code, expected in (
        ("workflow:\n  - {id: a, type: tool, name: work, args: {what: broken}}\n", 2, 1, "step a: ValueError: it is broken"),
        (
            "workflow:\n  - {id: a, type: human, ask: 'Which?'}\n",
            2,
            4,
            "The run is waiting for you: Which? Answer it:\nagentnb answer",
        ),
    ):
        with subtests.test(code=code):
            cli("exec", written("one.yaml", text), *tools)
            done = cli("recover", cut_off(events), *tools)
            assert (done.code, done.out) == (code, "") and expected in "\n".join(done.err.splitlines()[-2:]), done.err
    assert cli(*command_of(done)).code == 0

    def work(what: str) -> str:
        """Works."""
        return what

    Workflow.from_yaml(THREE, tools=[work]).run_sync(store=Store(RUNS), show=False)
    done = cli("recover", cut_off(3))
    assert done.code == 2 and "There is no tool work. Pass it as a tool: --tools MODULE:work" in done.err
    assert cli("recover", "nowhere").code == 1


def test_recovery_reuses_tools_and_gates_of_the_first_command(cli: Call, subtests: pytest.Subtests) -> None:
    name = module(WORK + "\ndef gate(call, run):\n    return None\n")
    options = ("--tools", f"{name}:work", "--gate", f"{name}:gate")
    for command, text, answer in (
        ("recover", THREE, ()),
        ("answer", "workflow:\n  - {id: which, type: human, ask: 'Which?'}\n" + THREE.partition("workflow:\n")[2], ("blue",)),
    ):
        with subtests.test(command):
            cli("exec", written("kept.yaml", text), *options)
            run_id = last_run().id if answer else cut_off(3)
            shown = cli("show", run_id).out
            assert "--tools" not in shown and f"agentnb {command} " in shown
            done = cli(command, run_id, *answer, "--no-input")
            assert (done.code, last_run().status) == (0, "completed"), done.err


def test_modules_named_by_a_foreign_log_are_not_imported(cli: Call) -> None:
    name = module(WORK)
    cli("exec", written("three.yaml", THREE), "--tools", f"{name}:work")
    run_id = cut_off(3)
    path = RUNS / f"{run_id}.jsonl"
    path.write_text(path.read_text("utf-8").replace(f"{name}:work", f"{name}_of_theirs:work"), "utf-8")
    done = cli("recover", run_id, "--trust-log")
    assert "There is no tool work" in done.err and "theirs" not in done.err


def test_agent_run_is_recovered(cli: Call) -> None:
    Agent(ScriptedModel([ToolCall("work", {"what": "a"}), "Done."]), name="worker").run_sync(
        "Go.", store=Store(RUNS), show=False
    )
    run_id = cut_off(2)
    refused = cli("recover", run_id)
    assert refused.code == 2 and "Name another: -m MODEL" in refused.err, refused.err
    done = cli("recover", run_id, "-m", "simulated:disciplined")
    assert done.code == 0 and done.out and "Step Context" not in done.err


def test_question_of_a_killed_process_can_be_answered(cli: Call, subtests: pytest.Subtests) -> None:
    tools = ("--tools", f"{module(WORK)}:work")
    written("inner.yaml", "workflow:\n  - {type: human, ask: 'Inner?'}\n")
    for text, answers, out in (
        (TASKS, ("approve", "approve"), "y done\n"),
        (ASKS, ("blue",), "c done\n"),
    ):
        with subtests.test(text):
            assert cli("exec", written("asks.yaml", text), *tools).code == 4
            for value in answers:
                run_id = cut_off(-1)  # without the suspension event
                for nested in nested_runs():
                    cut_log(RUNS / f"{nested.id}.jsonl", -1)
                assert last_run().status == "interrupted" and last_run().waiting
                done = cli("answer", run_id, value, *tools)
            assert (done.code, done.out) == (0, out), done.err


def test_model_of_the_run_is_kept_unless_another_is_named(cli: Call) -> None:
    text = "agents: {a: {instruction: Write.}}\nworkflow:\n  - {id: one, type: human, ask: Who?}\n  - {type: agent, name: a}\n"
    path = written("writes.yaml", text)
    for argument, model in ((), "simulated:forgetful"), (("-m", "simulated:disciplined"), "simulated:disciplined"):
        cli("exec", path, "-m", "simulated:forgetful")
        assert cli("answer", last_run().id, "Ada", *argument).code == 0
        assert nested_runs()[-1].model == model
