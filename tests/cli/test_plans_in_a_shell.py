"""Plans and the built-in planner in a shell: run, checked, answered, resumed."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_builder import RunBuilder, called
from shell_calls import EXAMPLES, RUNS, Call, Done, last_run, lines_of, module, written

from agentnb import Agent, Plans, Store, ToolCall, Workflow, validate_plan
from agentnb.cli.command import DONE
from agentnb.cli.workflow_runs import outcome_of
from agentnb.core.log.events import RunFinished
from agentnb.core.log.work_events import PlanProposed, PlanRejected
from agentnb.models.scripted import ScriptedModel
from agentnb.workflow.plans.default_planner import PLANNER, planner_text
from agentnb.workflow.tasks import model_steps

PLANS = EXAMPLES / "plans"
TOOLS = '''
import json

def tides_fetch(station: str, day: str = "") -> str:
    """Fetch the tide table of a station."""
    if station == "vigo":
        raise ValueError("no such station")
    print(f"fetched {station}")
    return json.dumps({"station": station, "rows": [["04:12", 6.1]]})

def tables_compare(left: list, right: list, options: dict | None = None) -> str:
    """Compare two tide tables."""
    return f"{len(left)} and {len(right)}"

both = [tides_fetch, tables_compare]
'''
DAY = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
ASK = {"steps": [], "elicitation": {"message": "Which day?", "requestedSchema": DAY}}
FETCH = {"steps": [{"type": "tool", "name": "tides.fetch", "args": {"station": "brest"}}]}
TWO_STEPS = {"steps": [*FETCH["steps"], {"type": "tool", "name": "wait", "args": {}}]}
LONG = 60.0
Planner = Callable[..., ScriptedModel]


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Planner:
    """Let a planner give these replies, whatever model the command names."""

    def reply(*replies: Any) -> ScriptedModel:
        model = ScriptedModel([reply if isinstance(reply, str) else json.dumps(reply) for reply in replies])
        monkeypatch.setattr(model_steps, "make_model", lambda name: model)
        return model

    return reply


def fetched(done: Done) -> int:
    return done.err.count("fetched ")


@pytest.mark.req("R1.51")
def test_plan_in_either_format_runs_with_named_tools(cli: Call, subtests: pytest.Subtests) -> None:
    name = module(TOOLS)
    for file in ("plan.yaml", "plan.json"):
        for tools in ([f"{name}:tides_fetch,{name}:tables_compare"], [f"{name}:tides_fetch", "-t", f"{name}:tables_compare"]):
            with subtests.test(f"{file} {tools}"):
                done = cli("exec", PLANS / file, "-t", *tools)
                assert (done.code, done.out) == (0, "1 and 1\n"), done.err
                assert last_run().invocation.tools == tuple(one for one in tools if one != "-t")  # type: ignore[union-attr]
    done = cli("exec", PLANS / "plan.yaml", "--tools", f"{name}:both")
    assert [one["name"] for one in last_run().variables["results"]] == ["tides_fetch", "tides_fetch", "tables_compare"]


def test_plan_may_call_only_tools_named_in_the_command(cli: Call) -> None:
    written("secret.txt", "the text")
    path = written(
        "p.yaml",
        "steps:\n- {type: tool, name: tides_fetch, args: {station: x}}\n- {name: read_file, args: {path: secret.txt}}\n",
    )
    name = module(TOOLS)
    done = cli("exec", path, "-t", f"{name}:tides_fetch")
    assert (done.code, lines_of(done, "p.yaml")) == (2, [3]) and "--tools read_file" in done.err
    assert not RUNS.exists(), "nothing ran"
    for group in ("files", "read_file"):
        done = cli("exec", path, "-t", f"{name}:tides_fetch,{group}")
        assert done.code == 0 and "the text" in done.out
    assert cli("exec", path).code == 2
    assert cli("exec", path, "-t", f"{name}:tides_fetch,mcp:clock").code == 2, "a server has no such tool"


def test_exit_code_reflects_how_a_plan_ended(cli: Call, subtests: pytest.Subtests, planner: Planner) -> None:
    tools = ("-t", f"{module(TOOLS)}:tides_fetch")
    failing = {"steps": [{"name": "tides_fetch", "args": {"station": "vigo"}}]}
    for code, plan, word in (
        (1, failing, "no such station"),
        (1, {"steps": [{"type": "abort", "reason": "No tides today"}]}, "No tides today"),
        (2, {"steps": [{"name": "tides_fetsch"}]}, "Did you mean tides_fetch"),
        (2, {"steps": [{"name": "tides_fetch", "args": {"station": 7}}]}, "7"),
        (4, ASK, "Which day?"),
        (0, {"steps": []}, ""),
    ):
        with subtests.test(word):
            done = cli("exec", written("p.json", json.dumps(plan)), *tools, "--no-input")
            assert done.code == code and word in done.err
    planner(*[FETCH] * 3)
    short = written(
        "short.yaml", cli("exec", "planner", "--print").out.replace("max_plan_iterations: 50", "max_plan_iterations: 2")
    )
    done = cli("exec", short, "Which tides?", *tools)
    assert (done.code, last_run().stop_reason) == (3, "max_plan_iterations")


@pytest.mark.nightly("by day the interrupted program of a workflow does")
def test_interrupted_plan_exits_with_130() -> None:
    body = "    '''Wait.'''\n    print('It waits')\n    time.sleep(60)\n    return ''\n"
    name = module(f"import time\ndef wait() -> str:\n{body}")
    path = written("p.yaml", "steps: [{name: wait}]\n")
    program = [sys.executable, "-m", "agentnb", "exec", str(path), "-t", f"{name}:wait"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            while "It waits" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LONG)
        finally:
            process.kill()
    assert process.returncode == 130


def test_permissions_and_gates_in_the_command_apply_to_steps(cli: Call, subtests: pytest.Subtests) -> None:
    name, path = module(TOOLS), written("p.json", json.dumps(FETCH))
    gates = module("from agentnb import Deny\n\ndef no(call, run):\n    return Deny('not now')\n")
    for options, code, word in (
        (("--rule", "tides_fetch=deny"), 1, "tides_fetch"),
        (("--gate", f"{gates}:no"), 1, "not now"),
        (("--approve", "ask", "--no-input"), 4, "agentnb answer"),
    ):
        with subtests.test(word):
            done = cli("exec", path, "-t", f"{name}:tides_fetch", *options)
            assert (done.code, fetched(done)) == (code, 0) and word in "\n".join(done.err.splitlines()[-2:])
    answered = cli(*shlex.split(done.last)[1:])
    assert (answered.code, fetched(answered)) == (0, 1), answered.err


def test_plan_accepts_results_but_no_prompt_or_inputs(cli: Call) -> None:
    tools = ("-t", f"{module(TOOLS)}:tides_fetch")
    path = written("p.yaml", "steps: [{id: a, name: tides_fetch, args: {station: brest}}]\n")
    assert cli("exec", path, "Which tides?", *tools).code == 2
    done = cli("exec", path, *tools, "-i", '{"query": "Which?"}')
    assert done.code == 2 and "query" in done.err and not RUNS.exists()
    known = [{"id": "a", "name": "tides_fetch", "args": {"station": "brest"}, "result": "known", "error": None}]
    done = cli("exec", path, *tools, "-i", json.dumps({"results": known}))
    assert done.code == 0 and not fetched(done) and last_run().variables["results"] == known


@pytest.mark.req("R1.45")
def test_command_in_the_last_line_answers_a_plan_question(cli: Call) -> None:
    text = "steps:\n- {name: tides_fetch, args: {station: brest}}\n- {type: elicitation, content: Which day?}\n"
    done = cli("exec", written("p.yaml", text), "-t", f"{module(TOOLS)}:tides_fetch", "--no-input")
    assert done.code == 4 and done.out == "" and fetched(done) == 1
    command = shlex.split(done.last)
    assert command[:3] == ["agentnb", "answer", last_run().id]
    answered = cli(*[one.replace("TEXT", "Monday") for one in command[1:]])
    assert answered.code == 0 and fetched(answered) == 0
    assert [one["name"] for one in last_run().variables["results"]] == ["tides_fetch", "elicitation"]
    assert "Monday" in last_run().variables["results"][1]["result"]


@pytest.mark.req("R1.1")
def test_file_of_the_same_name_replaces_the_builtin_planner(cli: Call, planner: Planner) -> None:
    tools = ("--tools", f"{module(TOOLS)}:tides_fetch")
    planner(FETCH, "Low water at 04:12.")
    Path(PLANNER).mkdir()
    done = cli("exec", "planner", *tools, "When?")
    assert (done.code, done.out, fetched(done)) == (0, "Low water at 04:12.\n", 1)
    assert (last_run().prompt, last_run().settings["workflow"]["source"]) == ("When?", PLANNER)
    assert cli("validate", "planner").out == "planner: a valid task file\n"
    Path(PLANNER).rmdir()
    written(PLANNER, "stage: {one: {action: tides_fetch, input: {station: cork}}}\n")
    assert json.loads(cli("exec", "planner", *tools).out)["station"] == "cork"
    assert cli("exec", "planner", "--print").code == 2


@pytest.mark.req("R1.1")
def test_printed_planner_can_be_copied_changed_and_run(cli: Call, planner: Planner, subtests: pytest.Subtests) -> None:
    done = cli("exec", "planner", "--print")
    assert done == (0, planner_text(), "") and not RUNS.exists()
    path = written("mine.yaml", done.out.replace("results: []  ", "results: []\n  context: In feet.\n  # "))
    assert cli("validate", path).out == "mine.yaml: a valid task file\n"
    tools = ("-t", f"{module(TOOLS)}:tides_fetch")
    assert cli("validate", path, *tools).out == "mine.yaml: a valid task file\n", "the actions of plans are known"
    wrong = written("wrong.yaml", done.out.replace("llm/core:plan", "llm/core:plans"))
    assert "neither an action llm/core:plans" in cli("validate", wrong, *tools).out
    model = planner("20 feet.")
    assert cli("exec", path, "How high?", *tools).out == "20 feet.\n"
    assert "In feet." in model.requests[0].messages[-1].text
    path = written("p.yaml", "steps: []\n")
    for name in ("p.yaml", "nowhere.yaml"):
        with subtests.test(name):
            assert cli("exec", name, "--print").code == 2


@pytest.mark.req("R1.19", "R1.46", "R1.47")
def test_planner_accepts_the_documented_inputs(cli: Call, planner: Planner, subtests: pytest.Subtests) -> None:
    tools = ("--tools", f"{module(TOOLS)}:both,web")
    written("plan.md", "Only this: {{ query }}\n")
    cases = {
        "inline": ("-i", '{"promptTemplate": "Only this: {{ query }}\\n"}'),
        "path in the inputs": ("-i", '{"promptTemplate": "plan.md"}'),
        "file": ("--prompt-template", "plan.md"),
        "file of inputs": ("-i", str(written("inputs.yaml", "promptTemplate: plan.md\n"))),
    }
    for name, options in cases.items():
        with subtests.test(name):
            model = planner("Done.")
            assert cli("exec", "planner", *tools, *options, "When?").code == 0
            assert model.requests[0].messages[-1].text == "Only this: When?\n"
            assert {"tides_fetch", "tables_compare", "web_fetch"} <= {spec.name for spec in model.requests[0].tools}
    model = planner("Done.")
    allowed = json.dumps({"tools": ["tides.fetch"], "query": "When?", "context": "In feet."})
    assert cli("exec", "planner", *tools, "-i", allowed).code == 0
    assert [spec.name for spec in model.requests[0].tools] == ["tides_fetch"]


def test_invalid_planner_input_is_refused_before_anything_runs(
    cli: Call, planner: Planner, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    model, tools = planner("Never."), ("-t", f"{module(TOOLS)}:tides_fetch")
    written("velocity.vm", "#foreach($one in $results) $one #end")
    written("mine.yaml", planner_text().replace("tools: ${tools}", "tools: [tides_fetsch]"))
    for word, command in {
        "needs a question": ("planner",),
        "both": ("planner", "When?", "-i", '{"query": "Why?"}'),
        "#foreach": ("planner", "When?", "--prompt-template", "velocity.vm"),
        "{{ tool }}": ("planner", "When?", "-i", '{"promptTemplate": "{{ tool }}"}'),
        "none.md": ("planner", "When?", "-i", '{"promptTemplate": "none.md"}'),
        "tides_fetsch": ("planner", "When?", "-i", '{"tools": ["tides_fetsch"]}'),
        "Did you mean tides_fetch": ("mine.yaml", "When?"),
        "odd": ("planner", "When?", "-i", '{"odd": 1}'),
        "nope": ("planner", "When?", "-i", '{"model": "nope:x"}'),
        "ANTHROPIC_API_KEY": ("planner", "When?", "-m", "anthropic:x"),
    }.items():
        with subtests.test(word):
            done = cli("exec", *command, *tools)
            assert done.code == 2 and word in done.err and done.out == ""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-a-test")
    done = cli("exec", "planner", "When?", *tools)
    assert done.code == 2 and "-m anthropic:NAME" in done.err, "the person names a model"
    assert model.requests == [] and not RUNS.exists()


def test_validate_reports_templates_and_tools_of_planners(cli: Call, subtests: pytest.Subtests) -> None:
    tools = ("-t", f"{module(TOOLS)}:tides_fetch")
    path = written("mine.yaml", planner_text().replace("tools: ${tools}", "tools: [tides_fetsch]"))
    for word, command in {
        "#foreach": ("planner", "-i", '{"promptTemplate": "#foreach"}'),
        "Did you mean tides_fetch": (path, *tools),
        "none.md": (path, "-i", '{"promptTemplate": "none.md"}'),
    }.items():
        with subtests.test(word):
            done = cli("validate", *command)
            assert done.code == 2 and word in done.err
    assert cli("validate", path).code == 0, "its tools are not known"
    assert cli("validate", "planner", "-i", '{"model": "anthropic:x"}').code == 0, "no key is needed"


def test_template_built_by_a_task_is_not_checked_beforehand(cli: Call, planner: Planner) -> None:
    text = planner_text().replace("  loop:\n", "  before: {post: {promptTemplate: 'Ask {{ query }}'}}\n  loop:\n", 1)
    model = planner("Done.")
    done = cli("exec", written("mine.yaml", text), "When?", "-i", '{"promptTemplate": "#foreach"}')
    assert done.code == 0 and model.requests[0].messages[-1].text == "Ask When?"


@pytest.mark.req("R1.42", "R1.45")
def test_planner_question_is_answered_and_keeps_its_model(cli: Call, planner: Planner, subtests: pytest.Subtests) -> None:
    tools = ("-t", f"{module(TOOLS)}:tides_fetch")
    for again in (True, False):
        with subtests.test(str(again)):
            planner(FETCH, ASK)
            done = cli("exec", "planner", "When?", *tools, "-m", "simulated:forgetful", "--no-input")
            assert done.code == 4 and fetched(done) == 1 and "Which day?" in done.why
            assert re.search(r"--tools \S+:tides_fetch -m simulated:forgetful$", done.last)
            rest = shlex.split(done.last)[3:]
            options = rest[1:] if again else ["--no-input"]
            answer = rest[0].replace("TEXT", "Monday")
            model = planner("On Monday at 04:12.")
            refused = cli("answer", last_run().id, '{"night": 1}', *options)
            assert refused.code == 2 and "day" in refused.err and last_run().is_suspended
            done = cli("answer", last_run().id, answer, *options)
            assert (done.code, done.out, fetched(done)) == (0, "On Monday at 04:12.\n", 0)
            assert "Monday" in model.requests[0].messages[-1].text
            assert last_run().settings["model"] == "simulated:forgetful", "recover would use it"


def test_planner_with_a_model_object_needs_a_named_model(cli: Call, planner: Planner) -> None:
    model = ScriptedModel([json.dumps(ASK)])
    run = Workflow.planner().run_sync("When?", model=model, store=Store(RUNS), suspend=True, show=False)
    refused = cli("answer", run.id, '{"day": "Monday"}')
    assert refused.code == 2 and "-m" in refused.err and last_run().is_suspended
    planner("On Monday.")
    assert cli("answer", run.id, '{"day": "Monday"}', "-m", "simulated:disciplined").out == "On Monday.\n"


@pytest.mark.req("R1.32", "R1.45")
def test_killed_planner_is_recovered_without_repeating_a_step(cli: Call, planner: Planner) -> None:
    name = module(
        f"""{TOOLS}
import os, time
from agentnb.cli.command import DONE
from agentnb.cli.workflow_runs import outcome_of
from agentnb.core.log.events import RunFinished
from agentnb.core.log.work_events import PlanProposed, PlanRejected
from agentnb.models.scripted import ScriptedModel
from agentnb.workflow.tasks import model_steps

if os.environ.get("KILLED"):
    model_steps.make_model = lambda name: ScriptedModel([{json.dumps(TWO_STEPS)!r}])

def wait() -> str:
    '''Wait.'''
    time.sleep(60 if os.environ.get("KILLED") else 0)
    return "waited"
"""
    )
    tools = ("-t", f"{name}:tides_fetch,{name}:wait")
    program = [
        sys.executable,
        "-c",
        "import os, sys\nos.environ['KILLED'] = '1'\nfrom agentnb.cli import main\nsys.exit(main())",
    ]
    with subprocess.Popen([*program, "exec", "planner", "When?", *tools], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            while "step 1 wait began" not in process.stderr.readline():
                assert process.poll() is None
        finally:
            process.kill()
    planner("Done.")
    done = cli("recover", last_run().id)
    assert (done.code, done.out, fetched(done)) == (0, "Done.\n", 0), done.err
    assert [step["name"] for step in last_run().variables["results"]] == ["tides_fetch", "wait"], "the first was done"


@pytest.mark.req("R1.51", "R1.52")
def test_validate_command_reports_the_same_as_validate_plan(cli: Call, subtests: pytest.Subtests) -> None:
    name = module(TOOLS)
    tools = f"{name}:both"
    found = cli("validate", PLANS / "plan.yaml", "-t", tools)
    assert (found.code, found.out) == (0, f"{PLANS / 'plan.yaml'}: a valid plan\n")
    tools_given = sys.modules[name].both
    for path in sorted(PLANS.glob("invalid/*")):
        for with_tools in (True, False):
            with subtests.test(f"{path.name} {with_tools}"):
                done = cli("validate", path, *(("-t", tools) if with_tools else ()))
                expected = [problem.line for problem in validate_plan(path, tools_given if with_tools else None)]
                assert (lines_of(done, str(path)), done.code) == (expected, 2 if expected else 0)
                count = re.search(r": (\d+) problems?$", done.out)
                assert (count is None) == (not expected) and (count is None or int(count[1]) == len(expected))


def test_tool_names_are_checked_only_if_tools_are_given(cli: Call, subtests: pytest.Subtests) -> None:
    path = written(
        "p.yaml", "steps:\n- {name: tides.fetsch, args: {}}\n- {name: mcp_clock_now, args: {}}\n- {name: read_file}\n"
    )
    done = cli("validate", path)
    assert done.code == 0 and "not checked: tides_fetsch, mcp_clock_now, read_file" in done.out
    tools = f"{module(TOOLS)}:tides_fetch"
    for argument, lines in ((tools, [2, 3, 4]), (f"{tools},mcp:clock", [2, 4])):
        with subtests.test(argument):
            done = cli("validate", path, "--tools", argument)
            assert (done.code, lines_of(done, "p.yaml")) == (2, lines)


def test_json_plan_with_special_characters_is_valid(cli: Call) -> None:
    text = '{"intention": "a\u2028b\x7f", "steps": []}'
    assert cli("validate", written("p.json", text)).out == "p.json: a valid plan\n"
    assert cli("exec", "p.json").code == 0


@pytest.mark.req("R3.38")
def test_chat_draft_is_approved_in_a_shell_with_its_tools(cli: Call) -> None:
    step = {"description": "Fetch", "tools": ["tides_fetch"], "args": {"station": "brest"}, "type": "research"}
    steps = [{"stepNumber": 1, "executorRequired": False, "dependsOn": [], **step}]
    asked = ToolCall("agent_create_plan", {"objective": "Fetch", "execution_mode": "draft_only"}, "c1")
    model = ScriptedModel([asked, json.dumps({"steps": steps}), "Shall it run?"])
    name = module(TOOLS)

    def tides_fetch(station: str, day: str = "") -> str:
        """Fetch the tide table of a station."""
        raise AssertionError("nothing runs before it is approved")

    drafted = Agent(model, tools=[tides_fetch], extensions=[Plans()]).run_sync("Draft it", store=Store(RUNS))
    assert drafted.is_suspended
    lacking = cli("answer", drafted.id, "--no-input", "--tools", f"{name}:tides_fetch")
    assert lacking.code and all(f"{drafted.id} {word}" in lacking.err for word in ("approve", "'deny: REASON'"))
    done = cli("answer", drafted.id, "approve", "--tools", f"{name}:tides_fetch", "--model", "simulated:disciplined")
    assert done.code == 0 and fetched(done) == 1 and "Step Context" not in done.out + done.err, done.err
    run = Store(RUNS).load(drafted.id)
    assert run.status == "completed" and [step.status for step in run.step_records.values()] == ["completed"]


def test_text_of_a_rejected_plan_is_not_a_result() -> None:
    plan = {"plan_id": "p", "plan": {"steps": [{}]}}
    story = RunBuilder().round(called("a")).add(PlanProposed, **plan)
    run = story.add(PlanRejected, plan_id="p", reason="Not on Monday").round("I would fetch it.")
    outcome = outcome_of(run.add(RunFinished, status="completed", stop_reason="natural").run)
    assert (outcome.text, outcome.code) == ("", DONE)
    assert outcome.last.startswith("Plan rejected by you: No step of the plan ran: “Not on Monday”.")
