"""``agentnb exec``: a workflow in a shell, its outputs and its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from shell_calls import EXAMPLES, HEADING, REPLIES, RUNS, Call, last_run, lines_of, module, nested_runs, sequential, written

from agentnb.cli import main
from agentnb.cli.terminal.second_interrupt import second_interrupt_kills
from agentnb.cli.terminal.standard_streams import tell
from agentnb.workflow.templates.templates import WITHOUT_PROMPT

LONG = 60
PROGRAM = [sys.executable, "-m", "agentnb"]
CONTEXT = (EXAMPLES / "sequential.stderr.txt").read_text("utf-8")
LOOK = '''
def look(n: int) -> str:
    """Looks."""
    print("looked", n)
    return f"seen {n}"
'''
TWO = "workflow:\n  - {id: a, type: tool, name: look, args: {n: 1}}\n  - {id: b, type: tool, name: look, args: {n: 2}}\n"


# Output


def test_agents_are_tools_named_by_their_variables(cli: Call) -> None:
    text = "from agentnb import Agent\nfrom agentnb.models import ScriptedModel\nfinder = Agent(ScriptedModel(['Found it.']))\n"
    path = written("find.yaml", "workflow: [{type: tool, name: finder, args: {prompt: Find it.}}]\n")
    done = cli("exec", path, "--tools", f"{module(text)}:finder")
    assert (done.code, done.out) == (0, "Found it.\n")


def test_rules_in_the_command_cover_tools_with_declared_effects(cli: Call, subtests: pytest.Subtests) -> None:
    text = (
        'from agentnb import tool\n\n@tool(effects=["write"], path="path")\ndef save(path: str) -> str:\n    return "saved"\n'
    )
    tools = f"{module(text)}:save"
    path = written("save.yaml", "workflow: [{type: tool, name: save, args: {path: data/a}}]\n")
    for argv, code in {
        (): 4,  # it waits for a person
        ("--rule", "save(data/**)=allow"): 0,
        ("--rule", "save(data/**)=deny", "--rule", "save=allow"): 1,
        ("--approve", "auto"): 0,
        ("--approve", "never"): 1,
        ("--rule", "save=perhaps"): 2,
    }.items():
        with subtests.test(argv=argv):
            assert cli("exec", path, "--tools", tools, *argv).code == code


@pytest.mark.req("R4.32", "R4.33")
def test_result_goes_to_stdout_and_step_context_after_progress(
    cli: Call, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    path = sequential()
    for argv, prompt in {
        ("Tides",): "Tides",
        ("-m", "simulated:disciplined", "Tides"): "Tides",
        ("-",): "Low water\nin Brest",
        (): WITHOUT_PROMPT,
    }.items():
        with subtests.test(argv=argv):
            monkeypatch.setattr(sys, "stdin", StringIO("Low water\nin Brest\n"))
            done = cli("exec", path, *argv)
            assert (done.code, done.out) == (0, f"{REPLIES['publisher']}\n")
            assert done.context == CONTEXT
            assert f"run {last_run().id}" in done.progress[:2]
            started = [line for line in done.progress if line.endswith("began")]
            assert started == [f"step {name} began" for name in REPLIES]
            assert [line for line in done.progress if " completed in " in line] and "iteration" not in done.err
            assert nested_runs()[-3].prompt == prompt


def test_named_result_is_printed_or_reported_missing(cli: Call) -> None:
    tools, path = module(LOOK), written("w.yaml", f"output: a\n{TWO}")
    done = cli("exec", path, "--tools", f"{tools}:look")
    assert (done.code, done.out) == (0, "seen 1\n")
    skipped = "  - {type: condition, condition: false, true: {id: c, type: tool, name: look, args: {n: 3}}}\n"
    done = cli("exec", written("w.yaml", f"output: c\n{TWO}{skipped}"), "--tools", f"{tools}:look")
    expected = "warning: output: the step c has no output. The result is the output of the last step"
    assert (done.code, done.out) == (0, "seen 2\n") and expected in done.progress


@pytest.mark.req("R4.32", "R4.33")
def test_command_line_uses_utf_8_in_any_locale() -> None:
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}  # ASCII cannot decode the .pth file of a folder whose name has an accent
    path, environment = sequential(), {**os.environ, **paths, "LC_ALL": "C", "PYTHONUTF8": "0"}
    prompt = "Marées\n".encode()
    done = subprocess.run(
        [sys.executable, "-S", *PROGRAM[1:], "exec", path, "-"],
        input=prompt,
        capture_output=True,
        env=environment,
        check=False,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == f"{REPLIES['publisher']}\n"
    assert "".join(done.stderr.decode().partition(HEADING)[1:]) == CONTEXT
    assert nested_runs()[0].prompt == "Marées"


def test_tool_prints_and_agent_calls_are_shown_as_progress(cli: Call) -> None:
    tools = module(LOOK)
    calls = "agents:\n  a: {model: 'simulated:disciplined', tools: [look]}\nworkflow:\n  - {type: agent, name: a}\n"
    done = cli("exec", written("a.yaml", calls), "- Look with `look(n=7)`", "--tools", f"{tools}:look")
    assert done.code == 0 and "looked" not in done.out and "looked 7" in done.progress
    assert [line for line in done.progress if line.startswith("  a: look(n=7)") and line.endswith("seen 7")]


def test_terminal_gets_a_progress_bar_without_control_characters(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(TextIOWrapper):
        def isatty(self) -> bool:
            return True

    tools = module(LOOK.replace('"looked"', '"l\\x1b[2J"').replace('f"seen {n}"', '"s\\x1b[2J"'))
    path = written("two.yaml", TWO)
    monkeypatch.setattr(sys, "stderr", Terminal(shown := BytesIO(), encoding="utf-8"))
    assert main(["exec", str(path), "--tools", f"{tools}:look"]) == 0
    text = shown.getvalue().decode("utf-8")
    assert "\r0/2 steps |" in text and "\r1/2 steps |" in text and "a" in text.partition("0/2 steps")[2]
    assert "step b began\n" in text and text.rstrip().endswith("}")
    assert "s\x1b" not in text.partition(HEADING)[2]
    both = "workflow:\n  - id: both\n    type: parallel\n    steps:\n" + TWO.partition("\n")[2].replace("  -", "      -")
    monkeypatch.setattr(sys, "stderr", Terminal(shown := BytesIO(), encoding="utf-8"))
    assert main(["exec", str(written("both.yaml", both)), "--tools", f"{tools}:look"]) == 0
    bars = re.findall(r"\r(./1 steps .*?)(?=[\r\n])", shown.getvalue().decode("utf-8"))
    assert any("both/a" in bar for bar in bars) and not any(re.search(r"\bboth, ", bar) for bar in bars)


# Input


def test_inputs_are_json_or_a_json_or_yaml_file(cli: Call, subtests: pytest.Subtests) -> None:
    path = written("i.yaml", "inputs: {n: 1}\n" + TWO.replace("n: 2", "n: '{{ $inputs.n }}'"))
    tools = module(LOOK)
    written("n.json", '{"n": 5}')
    written("n.yml", "n: 5\n")
    for argument in ('{"n": 5}', "n.json", "n.yml"):
        with subtests.test(argument):
            assert cli("exec", path, "-i", argument, "--tools", f"{tools}:look").out == "seen 5\n"


def test_tools_option_accepts_several_names_and_a_list(cli: Call) -> None:
    tools = module(LOOK + LOOK.replace("look", "watch") + "both = [look, watch]\n")
    path = written("two.yaml", TWO.replace("name: look, args: {n: 2}", "name: watch, args: {n: 2}"))
    for given in (f"{tools}:both", f"{tools}:look,{tools}:watch"):
        assert cli("exec", path, "--tools", given).out == "seen 2\n"


def test_model_comes_from_option_environment_or_simulated_default(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written("a.yaml", "agents: {a: {instruction: Help.}}\nworkflow:\n  - {type: agent, name: a}\n")
    done = cli("exec", path)
    assert done.code == 0 and nested_runs()[-1].model == "simulated:disciplined"
    assert done.progress[0].startswith("agentnb: Using simulated:disciplined") and "-m anthropic:NAME" in done.progress[0]
    assert "%" not in done.progress[0]
    monkeypatch.setenv("AGENTNB_MODEL", "simulated:chatty")
    assert "Using" not in cli("exec", path).err and nested_runs()[-1].model == "simulated:chatty"
    assert cli("exec", path, "-m", "simulated:disciplined").code == 0 and nested_runs()[-1].model == "simulated:disciplined"


# Ends


@pytest.mark.req("R4.33", "R4.35")
def test_failure_prints_the_step_context_and_ends_with_an_error(cli: Call) -> None:
    text = (EXAMPLES / "loop-limit.yaml").read_text("utf-8").replace("{instruction: Translate.}", "{replies: [A, B]}")
    path = written(
        "loop.yaml",
        text.replace("    instruction: Judge.\n", "    replies: ['{\"is_approved\": false}', '{\"is_approved\": false}']\n"),
    )
    done = cli("exec", path, "Again")
    assert (done.code, done.out) == (1, "")
    assert done.last.startswith("agentnb: workflow: max loop iterations exceeded (step: trans, limit: 2)")
    assert f"agentnb show {last_run().id}" in done.last
    context, _ = json.JSONDecoder().raw_decode(done.context.removeprefix(HEADING))
    assert context["order"] == ["trans", "qa", "qa_check"] and context["steps"]["trans"]["output"] == "B"
    assert "step trans began, iteration 2" in done.progress


def test_exit_code_reflects_how_the_run_ended(cli: Call, subtests: pytest.Subtests) -> None:
    tools = module(
        "import asyncio\n"
        "async def nap() -> str:\n    '''Naps.'''\n    await asyncio.sleep(60)\n    return ''\n"
        "def bad() -> str:\n    '''Fails.'''\n    raise ValueError('no tide\\x1b[2J')\n"
    )
    for name, (limits, code, expected) in {
        "nap": ("limits: {max_seconds: 0.05}\n", 3, "Limit reached: 0.05 s"),
        "bad": ("", 1, "agentnb: step a: ValueError: no tide"),
    }.items():
        with subtests.test(name):
            path = written(f"{name}.yaml", f"{limits}workflow:\n  - {{id: a, type: tool, name: {name}}}\n")
            done = cli("exec", path, "--tools", f"{tools}:{name}")
            assert (done.code, done.out) == (code, "") and expected in done.last
            assert "Traceback" not in done.err and HEADING in done.err and "\x1b" not in done.err


NAPS = {
    "a function that is interrupted": "time.sleep(60)",
    "a function that swallows interrupts": "while True:\n        with suppress(BaseException):\n            time.sleep(60)",
}


def test_interrupt_ends_the_run_and_closes_its_log(subtests: pytest.Subtests) -> None:
    for name, nap in [*NAPS.items()][-size(1, nightly=2) :]:
        head = f"import time\nfrom contextlib import suppress\n{LOOK}"
        tools = module(f"{head}\ndef nap() -> str:\n    '''Naps.'''\n    {nap}\n    return ''\n")
        path = written("nap.yaml", TWO.replace("name: look, args: {n: 2}", "name: nap"))
        program = [*PROGRAM, "exec", str(path), "--tools", f"{tools}:look,{tools}:nap"]
        with (
            subtests.test(name),
            subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        ):
            assert process.stderr is not None
            try:
                while "step b began" not in process.stderr.readline():
                    assert process.poll() is None
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=LONG)
            finally:
                process.kill()
            assert (process.returncode, out) == (130, "") and "Traceback" not in err
            assert err.splitlines()[-1].startswith("agentnb: The run was stopped.") and '"seen 1"' in err
            assert last_run().status == "cancelled"


HOLDS = """
import itertools, os
def hold() -> int:
    '''Holds the interpreter, from before it says so.'''
    return sum(itertools.chain(map(os.write, [2], [b"it holds\\n"]), range(10**13)))
"""


@pytest.mark.nightly("by day one interrupt ends a function that swallows it")
@pytest.mark.slow("a program of its own that is killed, and one that recovers its run")
def test_second_interrupt_ends_a_function_that_blocks_the_interpreter(cli: Call) -> None:
    tools = module(LOOK + HOLDS)
    path = written("hold.yaml", TWO.replace("name: look, args: {n: 2}", "name: hold"))
    options = ["--tools", f"{tools}:look,{tools}:hold"]
    program = [*PROGRAM, "exec", str(path), *options]
    # Its own process group, which gets the signals of a terminal.
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        try:
            while "it holds" not in process.stderr.readline():
                assert process.poll() is None
            os.killpg(process.pid, signal.SIGINT)
            while "Ctrl-C again ends agentnb at once" not in process.stderr.readline():
                assert process.poll() is None
            os.killpg(process.pid, signal.SIGINT)
            out, _ = process.communicate(timeout=LONG)
        finally:
            process.kill()
    assert (process.returncode, out) == (-signal.SIGKILL, "")
    run = last_run()
    assert run.status == "interrupted" and run.steps["a"]["output"] == "seen 1"
    Path(f"{tools}.py").write_text(f"{LOOK}\ndef hold() -> str:\n    return 'held'\n", "utf-8")
    recovered = subprocess.run(
        [*PROGRAM, "recover", run.id, *options], capture_output=True, text=True, check=False, timeout=LONG
    )
    assert (recovered.returncode, recovered.stdout) == (0, "held\n"), recovered.stderr


def test_interrupt_watcher_stops_at_the_end_of_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def begin(*words: Any, **settings: Any) -> subprocess.Popen[bytes]:
        begun.append(popen(*words, **settings))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", begin)
    with second_interrupt_kills():
        assert [child.poll() for child in begun] == [None]
    assert [child.wait(LONG) for child in begun] == [0]


# Refusals


def test_invalid_command_exits_with_2_before_anything_runs(cli: Call, subtests: pytest.Subtests) -> None:
    tools = module(LOOK)
    broken = module("raise ValueError('no\\nluck')")
    two, plan = written("two.yaml", TWO), written("plan.yaml", "steps: []\n")
    written("latin.yaml", "").write_bytes(b"workflow: \xe9\n")
    tool_options = ("--tools", f"{tools}:look")
    for argv, expected in {
        (): "exec --help",
        ("none.yaml",): "There is no file none.yaml",
        (".",): "There is no file .",
        ("latin.yaml",): "latin.yaml is not UTF-8 text",
        (plan, "Go."): "A plan takes no prompt",
        (two, *tool_options, "--approve", "perhaps"): "must be one of auto, ask, never, read_only, got 'perhaps'",
        (two, *tool_options, "--budget", "-1"): "must be a positive amount in US dollars",
        (two, *tool_options, "-i", '{"x": 1}'): "The workflow has no input x",
        (two, *tool_options, "-i", '{"x": 1'): "-i is not JSON",
        (two, *tool_options, "-i", "nowhere.yaml"): "There is no file nowhere.yaml",
        (two, *tool_options, "-i", "plan.yaml", "--strict"): "The workflow has no input steps",
        (two, *tool_options, " "): "The prompt is blank",
        (two, *tool_options, "-m", "nobody:x"): "nobody",
        (two, *tool_options, "-m", "acp:opencode"): "'acp:opencode' is an external agent, not a model. Name it with --acp",
        (two, "--tools", "look"): "Write MODULE:NAME",
        (two, "--tools", "json.loads"): "Write MODULE:NAME",
        (two, "--tools", f"{tools}:lock"): "Did you mean look?",
        (two, "--tools", "not_there:look"): "the module not_there cannot be imported: ModuleNotFoundError",
        (two, "--tools", f"{broken}:look"): "cannot be imported: ValueError: no luck",
    }.items():
        with subtests.test(argv=argv):
            done = cli("exec", *argv)
            assert (done.code, done.out) == (2, "") and expected in done.err
            assert done.err.startswith("agentnb: ") and done.err.count("\n") == 1 and "%" not in done.err
    written("twice.yaml", "n: 1\nn: 2\n")
    done = cli("exec", two, *tool_options, "-i", "twice.yaml")
    assert done.code == 2 and lines_of(done, "twice.yaml") == [2]
    assert not RUNS.exists()


def test_missing_required_key_is_reported_before_anything_runs(cli: Call, subtests: pytest.Subtests) -> None:
    tool_options = ("--tools", f"{module(LOOK)}:look")
    agents = "agents:\n  a: {model: 'anthropic:claude-sonnet-5'}\n  b: {replies: [yes]}\nworkflow:\n"
    look, a = "  - {id: look, type: tool, name: look, args: {n: 1}}\n", "{type: agent, name: a}"
    for steps, path in {
        f"{look}  - {a}\n": "a",
        f"{look}  - {{id: both, type: parallel, steps: [{{type: agent, name: b}}, {a}]}}\n": "both/a",
    }.items():
        with subtests.test(steps):
            done = cli("exec", written("w.yaml", agents + steps), *tool_options)
            expected = f"agentnb: Agent a of step {path}: No key for anthropic: ANTHROPIC_API_KEY is not set. Enter it: export "
            assert (done.code, done.err) == (2, f"{expected}ANTHROPIC_API_KEY=...\n")
    assert not RUNS.exists()
    branch = f"  - {{type: condition, condition: '{{{{ 1 > 2 }}}}', true: {a}}}\n"
    last = "{type: tool, name: look, args: {n: 2}, end: true}"
    for steps in (
        f"{branch}{look}",
        f"  - {{id: m, type: map, over: [], step: {a}}}\n{look}",
        "  - {type: agent, name: a, on_error: {continue: null}}\n" + look,
        f"{look}  - {{type: condition, condition: '{{{{ 1 < 2 }}}}', true: {{goto: end}}}}\n  - {a}\n",
        f"  - {{type: condition, condition: '{{{{ 1 < 2 }}}}', true: {last}}}\n  - {a}\n",
        "  - {type: tool, name: look, args: {n: []}, on_error: {goto: look}}\n  - " + a + f"\n{look}",
    ):
        with subtests.test(steps):
            done = cli("exec", written("w.yaml", agents + steps), *tool_options)
            assert (done.code, "No key" in done.last) == (0, False), done.err
    done = cli("exec", written("w.yaml", f"{agents}  - {{type: human, ask: Well?}}\n  - {a}\n"))
    assert done.code == 4, done.err


def test_file_problems_and_warnings_have_line_numbers(cli: Call) -> None:
    done = cli("exec", written("two.yaml", TWO))
    assert done.code == 2 and lines_of(done, "two.yaml") == [2, 3] and "Pass it as a tool: --tools MODULE:look" in done.err
    text = "agents: {a: {replies: ['{\"ok\": true}']}}\nworkflow:\n  - {type: agent, name: a}\n"
    path = written("w.yaml", text + "  - {type: condition, condition: '{{ $steps.a.output.ok }}', true: {goto: end}}\n")
    done = cli("exec", path)
    assert done.code == 0 and lines_of(done, "w.yaml") == [4] and done.progress[0].startswith("w.yaml:4: ")
    assert cli("exec", path, "--strict").code == 2
    done = cli("exec", written("odd.yaml", 'workflow:\n  - {type: agent, name: "a\\e[2Jb"}\n'))
    assert done.code == 2 and lines_of(done, "odd.yaml") == [2] and "\x1b" not in done.err


# Keys


def test_keys_are_never_shown(cli: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    key = "sk-ant-planted-0123456789"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    tools = module(f"def look() -> str:\n    '''Looks.'''\n    return 'is {key}'\n")
    broken = module(f"raise ValueError('{key}')")
    path = written("k.yaml", f"workflow:\n  - {{type: tool, name: look, args: {{}}}}\n  - {{type: {key}}}\n")
    for done in (
        cli("exec", written("ok.yaml", "workflow:\n  - {type: tool, name: look}\n"), "--tools", f"{tools}:look"),
        cli("exec", path, "--tools", f"{broken}:look"),
        cli("exec", path),
        cli("validate", path),
    ):
        assert key not in done.out + done.err and "[key]" in done.out + done.err
    tell(f"It is {key}")
    assert capsys.readouterr().err == "It is [key]\n"


def test_builtin_tools_can_be_named_without_a_module(cli: Call) -> None:
    Path("notes.txt").write_text("low water")
    path = written("read.yaml", "workflow: [{type: tool, name: read_file, args: {path: notes.txt}}]\n")
    assert "low water" in cli("exec", path).out
    agents = "agents: {a: {tools: [files], replies: [Done.]}}\nworkflow: [{type: agent, name: a}]\n"
    for options in ((), ("--tools", "files,git_log")):
        assert cli("exec", written("agent.yaml", agents), "Read.", *options).code == 0
    refused = cli("exec", written("near.yaml", agents.replace("files", "fils")), "Read.")
    assert refused.code == 2 and "files" in refused.err
    unknown = cli("exec", path, "--tools", "fils")
    assert unknown.code == 2 and "files" in unknown.err and "MODULE:NAME" in unknown.err
