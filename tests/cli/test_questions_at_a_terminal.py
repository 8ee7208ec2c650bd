"""``agentnb exec`` at a real terminal: it asks there, and what is typed is the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shell_calls import Call, last_run, module, written

if sys.platform == "win32":
    pytest.skip("there is no pty", allow_module_level=True)

from terminal import CTRL_C, CTRL_D, Program

from agentnb.cli.terminal.dialogue import INSTEAD
from agentnb.cli.terminal.run_progress import Progress
from agentnb.core.log.events import QuestionAnswered
from agentnb.core.log.work_events import StepStarted

TOOLS = '''
from agentnb.tools.tool import ToolContext

def write(path: str) -> str:
    """Write a file."""
    print("writing", path)
    return f"wrote {path}"

async def measure(context: ToolContext) -> str:
    """Ask how deep the water is."""
    depth = await context.ask("How deep?", {"type": "integer", "minimum": 1})
    return f"{depth} m"
'''
WORKER = """
agents:
  worker: {model: "simulated:disciplined", tools: [write]}
workflow:
  - {id: agent, type: agent, name: worker, prompt: "- Write it with `write(path='a')`"}
"""
FORM = "{type: object, properties: {n: {type: integer}, why: {type: string}}, required: [n]}"
ASKS = f"""{WORKER}
  - {{id: tool, type: tool, name: write, args: {{path: b}}}}
  - {{id: sure, type: human, ask: "Publish it?", confirm: true}}
  - {{id: when, type: human, ask: "When?", choices: [now, later]}}
  - {{id: who, type: human, ask: "Who signs?"}}
  - {{id: form, type: human, ask: "How many?", form: {FORM}}}
  - {{id: deep, type: tool, name: measure}}
"""


def exec_of(text: str, *argv: str) -> tuple[str, ...]:
    tools = module(TOOLS)
    return ("exec", str(written("asks.yaml", text)), "--tools", f"{tools}:write,{tools}:measure", *argv)


@pytest.mark.slow("a program of its own that is asked eight questions")
def test_gate_step_and_tool_questions_are_answered_at_the_terminal(program: Program) -> None:
    with program(*exec_of(ASKS, "--approve", "ask")) as terminal:
        asked = terminal.type("2")
        assert (
            "\nagent: The agent asks for your approval\nMay the tool 'write' run?" in asked
            and "\n  2 always: calls of write, in this run\n" in asked
        )
        asked = terminal.type("perhaps")
        assert "writing a\n" in asked and "step tool completed" in asked, "always holds in the whole run"
        assert asked.endswith(f"This step is yours: sure\nPublish it?\n{INSTEAD}\nAnswer (one of: yes, no): ")
        assert "Please choose one of: yes, no (you entered 'perhaps')\n" in terminal.type("y")
        assert "\n  1 now\n  2 later\nAnswer: " in terminal.type("2")
        terminal.type("")
        assert "Type an answer" in terminal.type("Märta")
        terminal.type("many")
        assert "Enter a whole number\n" in terminal.type("3")
        assert terminal.type("").endswith('why (text; optional; "" for empty text): ')
        assert "May the tool 'measure' run?" in terminal.type("approve")
        assert "deep: measure asks you\nHow deep?" in terminal.type("0")
        terminal.type("7")
        assert terminal.ended() == (0, "7 m\n")
    run = last_run()
    outputs = {name: run.steps[name]["output"] for name in ("sure", "when", "who", "form")}
    assert outputs == {"sure": True, "when": "later", "who": "Märta", "form": {"n": 3}}
    assert {event.by for event in run.events if isinstance(event, QuestionAnswered)} == {"person"}


RUNS_A_COMMAND = """
from agentnb import tool

@tool(effects=["execute"], command="command")
def shell(command: str) -> str:
    '''Run a command.'''
    return "ran"
"""


@pytest.mark.slow("two programs of their own")
def test_rule_saved_at_the_terminal_applies_to_the_next_program(program: Program) -> None:
    call = "workflow:\n  - {id: log, type: tool, name: shell, args: {command: git log -5}}\n"
    command = ("exec", str(written("log.yaml", call)), "--tools", f"{module(RUNS_A_COMMAND)}:shell")
    with program(*command) as terminal:
        asked = terminal.type("always in project: shell(*)")
        assert "\n  3 always: git log *, in this project, saved\n" in asked and "until this command ends" not in asked
        assert "shell(*) would allow every call" in terminal.type("3")
        assert terminal.ended() == (0, "ran\n")
    with program(*command) as terminal:
        assert terminal.ended() == (0, "ran\n")
    assert f"agentnb: 1 saved rule in force in {Path.cwd()}: such calls run without a question." in terminal.shown


@pytest.mark.slow("a program of its own that is left")
def test_ctrl_d_leaves_the_question_open_for_later(program: Program, cli: Call) -> None:
    given = exec_of(WORKER, "--approve", "ask")
    with program(*given) as terminal:
        terminal.type(CTRL_D)
        assert terminal.ended() == (4, "")
    run = last_run()
    assert run.is_suspended and "Traceback" not in terminal.shown
    assert terminal.shown.splitlines()[-1].startswith(f"agentnb answer {run.id} approve --tools ")
    assert cli("answer", run.id, "approve", *given[2:4]).code == 0


@pytest.mark.nightly("by day runs that were left at a question are answered")
@pytest.mark.slow("a program of its own that is ended")
def test_answer_resumes_the_run_of_a_terminated_program(program: Program, cli: Call) -> None:
    given = exec_of(WORKER, "--approve", "ask")
    with program(*given) as terminal:
        assert "May the tool 'write' run?" in terminal.asked()
        terminal.terminate()
        terminal.ended()
    run = last_run()
    assert run.status == "interrupted" and [one.kind for one in run.waiting] == ["approval"]
    assert cli("answer", run.id, "approve", *given[2:4]).code == 0
    assert last_run().status == "completed"


@pytest.mark.nightly("by day an interrupt ends a run of the program, and Ctrl-D leaves a question")
@pytest.mark.slow("a program of its own that is interrupted")
def test_ctrl_c_at_a_question_ends_the_run(program: Program) -> None:
    with program(*exec_of('workflow:\n  - {id: sure, type: human, ask: "Publish it?", confirm: true}\n')) as terminal:
        terminal.type(CTRL_C)
        assert terminal.ended() == (130, "")
    assert last_run().status == "cancelled" and "Traceback" not in terminal.shown
    assert terminal.shown.splitlines()[-1].startswith("agentnb: The run was stopped.")


@pytest.mark.slow("a program of its own")
def test_no_input_option_suppresses_questions_at_a_terminal(program: Program) -> None:
    with program(*exec_of(WORKER, "--approve", "ask", "--no-input")) as terminal:
        assert terminal.ended() == (4, "")
    assert "Answer: " not in terminal.shown and last_run().is_suspended


FAILS = '''
import asyncio
from pathlib import Path

async def fails() -> str:
    """Fail once it may."""
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    raise ValueError("no tide")
'''


@pytest.mark.nightly("by day questions are withdrawn in a kernel, and other questions are asked at the terminal")
@pytest.mark.slow("a program of its own")
def test_withdrawn_question_is_closed_and_the_next_is_asked(program: Program) -> None:
    both = "{id: sure, type: human, ask: 'Publish it?', confirm: true}, {id: bad, type: tool, name: fails}"
    text = (
        f"workflow:\n  - {{id: p, type: parallel, steps: [{both}], on_error: {{continue: nothing}}}}\n"
        "  - {id: next, type: human, ask: 'And now?'}\n"
    )
    with program("exec", str(written("both.yaml", text)), "--tools", f"{module(FAILS)}:fails") as terminal:
        terminal.type("perhaps")
        assert "Please choose one of: yes, no" in terminal.asked()
        written("go", "")
        asked = terminal.asked("And now?")
        assert "\nThis question was closed.\n" in asked and "step p/bad failed" in asked
        terminal.type("yes")
        assert terminal.ended() == (0, "yes\n")
    assert [one.outcome for one in last_run().questions] == ["withdrawn", "answered"]


def test_progress_is_held_back_during_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    def began(step: str) -> StepStarted:
        return StepStarted(seq=1, at=None, run_id="r-1", step=step)

    progress = Progress()
    progress(began("a"))
    progress.pause()
    progress(began("b"))
    assert capsys.readouterr().err == "step a began\n"
    progress.resume()
    progress(began("c"))
    assert capsys.readouterr().err == "step b began\nstep c began\n"


@pytest.mark.slow("two programs of their own")
def test_answer_command_without_text_asks_only_at_a_terminal(program: Program, cli: Call) -> None:
    cli(*exec_of(WORKER, "--approve", "ask"))
    run_id = last_run().id
    assert f"Write: agentnb answer {run_id} approve" in cli("answer", run_id).err
    with program("answer", run_id) as terminal:
        asked = terminal.type("perhaps")
        assert "May the tool 'write' run?" in asked and "\n  1 approve\n" in asked
        assert "Please choose one of: approve" in terminal.type("1")
        assert terminal.ended()[0] == 0
