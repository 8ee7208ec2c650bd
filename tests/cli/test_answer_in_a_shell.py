"""``agentnb answer``: a run that waits for a person, in a shell."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module

import pytest
from shell_calls import Call, Done, last_run, module, written

from agentnb import Agent, RunOptions, Store
from agentnb.advice import AnswerRun, ContinueRun, RecoverRun, RerunSteps, TryAgain, in_words
from agentnb.cli.shell_commands import SHELL
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.session.recovery import _recreate
from agentnb.store.store import FOLDER

LOOK = "def look(n: int) -> str:\n    '''Looks.'''\n    return f'seen {n}'\n"
FORM = "{type: object, properties: {n: {type: integer}, why: {type: string}}, required: [n, why]}"
ASKS = f"""
workflow:
  - {{id: look, type: tool, name: look, args: {{n: 2}}}}
  - {{id: sure, type: human, ask: "Publish {{{{ $steps.look.output }}}}?", confirm: true}}
  - {{id: when, type: human, ask: "When?", choices: [now, later]}}
  - {{id: who, type: human, ask: "Who signs?"}}
  - {{id: why, type: human, ask: "And?", form: {FORM}}}
  - {{id: last, type: tool, name: look, args: {{n: "{{{{ $steps.why.output.n }}}}"}}}}
"""


def command_of(done: Done) -> list[str]:
    """Return the command on the last line."""
    program, *argv = shlex.split(done.last)
    assert program == "agentnb"
    return argv


@pytest.mark.req("R4.32")
def test_last_line_is_a_command_to_answer_and_continue(cli: Call) -> None:
    tools = module(LOOK)
    done = cli("exec", written("asks.yaml", ASKS), "--tools", f"{tools}:look", "--budget", "1")
    for asked in ("Publish seen 2? (yes, no)", "When? (now, later)", "Who signs?", "And?"):
        assert (done.code, done.out) == (4, "") and done.why == f"agentnb: The run is waiting for you: {asked} Answer it:"
        assert last_run().is_suspended
        done = cli(*command_of(done))
        assert "step look began" not in done.err  # it was reported before
    assert (done.code, done.out) == (0, "seen 1\n")
    run = last_run()
    outputs = {name: run.steps[name]["output"] for name in ("sure", "when", "who", "why")}
    assert outputs == {"sure": True, "when": "now", "who": "TEXT", "why": {"n": 1, "why": "TEXT"}}


def test_several_questions_are_answered_by_name(cli: Call) -> None:
    both = "workflow:\n  - type: parallel\n    steps: [{id: a, type: human, ask: A?}, {id: b, type: human, ask: B?}]\n"
    done = cli("exec", written("both.yaml", both))
    assert done.code == 4 and "(one of 2 questions)" in done.why and "--question" in done.last
    run = last_run()
    refused = cli("answer", run.id, "x")
    assert refused.code == 2 and all(question.id in refused.err for question in run.waiting)
    done = cli(*command_of(done))
    assert done.code == 4 and "(one of" not in done.why
    assert cli(*command_of(done)).code == 0


def test_questions_of_nested_workflows_can_be_answered_by_name(cli: Call) -> None:
    written("inner.yaml", "workflow:\n  - {type: human, ask: Inner?}\n")
    steps = "[{id: a, type: workflow, file: inner.yaml}, {id: b, type: workflow, file: inner.yaml}]"
    done = cli("exec", written("outer.yaml", f"workflow:\n  - {{type: parallel, steps: {steps}}}\n"))
    run = last_run()
    assert {question.id for question in run.waiting} == {"parallel_1/a/q1", "parallel_1/b/q1"}
    assert done.code == 4 and done.why.endswith("Inner? Answer it:")
    assert done.last == f"agentnb answer {run.id} TEXT --question {run.waiting[0].id}"
    done = cli(*command_of(done))
    assert done.code == 4 and "--question" not in done.last and "Inner?" in done.why
    assert cli(*command_of(done)).code == 0
    assert {question.outcome for question in last_run().questions} == {"answered"}


def test_invalid_answer_is_refused_and_the_run_keeps_waiting(cli: Call, subtests: pytest.Subtests) -> None:
    tools = ("--tools", f"{module(LOOK)}:look")
    cli("exec", written("asks.yaml", ASKS), *tools)
    run = last_run()
    for argv, expected in {
        (run.id, "perhaps", *tools): "Please choose one of: yes, no",
        (run.id, "yes", "--question", "q9", *tools): "has no question q9",
        (run.id, "yes", "--cancel", *tools): "--cancel cannot be combined with an answer",
        (run.id,): f"Write: agentnb answer {run.id} TEXT",
    }.items():
        with subtests.test(argv=argv):
            done = cli("answer", *argv)
            assert done.code == 2 and expected in done.err and done.err.count("\n") == 1
            assert last_run().is_suspended
    assert cli("answer", run.id[-6:], "yes", *tools).code == 4
    missing = cli("answer", "nowhere", "yes")
    assert missing.code == 1 and "There is no run 'nowhere'" in missing.err


def test_question_can_be_declined_or_cancelled_instead_of_answered(cli: Call, subtests: pytest.Subtests) -> None:
    text = "workflow:\n  - {id: sure, type: human, ask: 'Sure?', confirm: true}\n"
    for word, outcome in (("--decline", "declined"), ("--cancel", "cancelled")):
        with subtests.test(word):
            assert cli("exec", written("sure.yaml", text)).code == 4
            done = cli("answer", last_run().id, word)
            assert done.code == 1 and [question.outcome for question in last_run().questions] == [outcome]
            assert ("declined to answer" if word == "--decline" else "without deciding") in done.err


def test_answering_a_run_without_questions_is_refused(cli: Call) -> None:
    cli(
        "exec",
        written("one.yaml", "workflow:\n  - {type: tool, name: look, args: {n: 1}}\n"),
        "--tools",
        f"{module(LOOK)}:look",
    )
    done = cli("answer", last_run().id, "yes")
    assert done.code == 2 and "is not waiting for an answer" in done.err


def test_budget_still_applies_after_the_answer(cli: Call) -> None:
    path = written("ask.yaml", "limits: {budget: 5}\nworkflow:\n  - {type: human, ask: Who?}\n")
    for argument, budget in {(): 5, ("--budget", "0.25"): 0.25}.items():
        cli("exec", path, *argument)
        recreated = _recreate(last_run(), tools=(), gates=(), model=None)
        assert isinstance(recreated, Orchestration) and recreated.budget == budget


def test_runs_and_show_give_advice_as_shell_commands(cli: Call, subtests: pytest.Subtests) -> None:
    both = "workflow:\n  - type: parallel\n    steps: [{id: a, type: human, ask: A?}, {id: b, type: human, ask: B?}]\n"
    failing = "workflow: [{id: look, type: tool, name: look, args: {n: []}}]"
    for text, last in {
        ASKS: "Answer: agentnb answer {id} TEXT",
        both: "Answer: agentnb answer {id} TEXT --question {question}",
        failing: "Run it again: agentnb exec FILE",
    }.items():
        with subtests.test(last):
            cli("exec", written("w.yaml", text), "--tools", f"{module(LOOK)}:look")
            run = last_run()
            shown = cli("show", run.id).out.splitlines()[-1]
            assert shown.endswith(last.format(id=run.id[-8:], question=run.waiting[0].id if run.waiting else "")), shown
            assert "%" not in cli("runs").out
    for advice, words in {
        ContinueRun(tools=("look",), lead="Continue"): "",
        TryAgain(lead="Try again in a while"): "Try again in a while",
        AnswerRun(lead="Answer it"): "Answer it where it is running",
        RecoverRun("1507efae80", lead="Recover"): "Recover: agentnb recover 1507efae80",
        RerunSteps("a", "budget", 2, lead="Continue"): "Run it again: agentnb exec FILE --budget 2",
    }.items():
        with subtests.test(words):
            assert in_words([advice], SHELL) == words


GATED = """
from agentnb.policies.gates import Ask

def look(n: int) -> str:
    '''Looks.'''
    return f'seen {n}'

def careful(call, run):
    return Ask('May it look?') if call.name == 'look' else None
"""


def test_command_printed_by_show_answers_a_suspended_gate(cli: Call) -> None:
    name = module(GATED)
    sys.path.insert(0, ".")
    tools = import_module(name)
    agent = Agent("simulated:disciplined", tools=[tools.look], gates=[tools.careful], todos=False)
    options = RunOptions(store=Store(FOLDER), suspend=True, can_ask=False)
    run = agent.start("- Look with `look(1)`", options).result(60)
    assert run.is_suspended
    hint = next(line for line in cli("show", run.id).out.splitlines() if "agentnb answer" in line)
    assert "--tools MODULE:look --gate MODULE:careful" in hint
    refused = cli("answer", run.id, "approve", "--tools", f"{name}:look")
    assert refused.code == 2 and "had the gate careful" in refused.err and "--gate MODULE:careful" in refused.err
    refused = cli("recover", run.id, "--gate", f"{name}:careful")
    assert refused.code == 2 and "had the tool look" in refused.err and "--tools MODULE:look, for MODULE.py" in refused.err
    assert refused.err.rstrip().endswith("or in the run's notebook: %agent answer ID")
    command = hint[hint.index("agentnb answer") :].replace("MODULE", name).replace("TEXT", "approve")
    done = cli(*shlex.split(command)[1:])
    assert done.code == 0 and last_run().status == "completed"


def test_workflow_gate_applies_and_is_repeated_in_the_command(cli: Call) -> None:
    name = module(GATED)
    text = "agents:\n  a: {model: 'simulated:disciplined', tools: [look]}\nworkflow: [{type: agent, name: a}]\n"
    file, prompt = written("gated.yaml", text), "- Look with `look(1)`"
    done = cli("exec", file, prompt, "--tools", f"{name}:look", "--gate", f"{name}:careful", "--no-input")
    assert "May it look?" in done.err and f"--gate {name}:careful" in done.last
    done = cli(*[word.replace("TEXT", "approve").replace("ANSWER", "approve") for word in command_of(done)])
    assert done.code == 0


def test_missing_gate_is_named(cli: Call) -> None:
    file = written("asks.yaml", "workflow: [{type: human, ask: Well?}]\n")
    for name, why in {"nowhere:g": "--gate: the module nowhere", "careful": "--gate careful: there is no gate"}.items():
        done = cli("exec", file, "--gate", name)
        assert done.code == 2 and why in done.err
