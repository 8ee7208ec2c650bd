"""``%%workflow`` in a real kernel: its options, and ``%agent`` commands for its run."""

from __future__ import annotations

import ast
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from real_kernel import PATIENCE, TOOLS, Kernel

SETUP = '''
calls = []

def fetch(station: str) -> str:
    """Fetch a table."""
    calls.append(station)
    return f"table of {station}"

def flaky() -> str:
    """Fail until it is mended."""
    if "mended" not in calls:
        raise ValueError("the server is down")
    return "it answered"

def deny(call, run):
    return None
'''
ASKS = """
agents:
  writer: {instruction: Write one sentence.}
workflow:
  - {id: draft, type: agent, name: writer}
  - {id: table, type: tool, name: fetch, args: {station: brest}}
  - {id: publish, type: human, ask: "Publish it?", confirm: true}
  - {id: last, type: tool, name: fetch, args: {station: "{{ $steps.publish.output }}!"}}
"""
FLAKY = """
workflow:
  - {id: maybe, type: map, over: [1], step: {type: tool, name: flaky}, on_error: {continue: nothing}}
  - {id: table, type: tool, name: fetch, args: {station: brest}}
  - {id: server, type: tool, name: flaky}
"""


def test_waiting_workflow_is_reported_and_resumed_by_the_answer(kernel: Any) -> None:
    kernel.run("calls.clear()")
    cell = kernel.run(f"%%workflow -m simulated:disciplined -t fetch --gate deny --budget 1 --prompt 'Low water'\n{ASKS}")
    assert cell.status == "ok", cell.error
    run_id = kernel.value("run.id")
    assert "publish  asks you: Publish it?  waiting for you" in cell.shown
    assert f"%agent answer {run_id[-8:]} TEXT" in kernel.run("%agent status").printed
    refused = kernel.run("%agent answer perhaps")
    assert "Please choose one of: yes, no (you entered 'perhaps')" in refused.error
    assert kernel.value("run.status") == "waiting_on_user"
    answered = kernel.run("%agent answer yes")
    assert answered.status == "ok", answered.error
    assert answered.shown.startswith("Done, not checked: 4 steps") and "table of true!" in answered.shown
    assert kernel.value("run.id, calls") == f"('{run_id}', ['brest', 'true!'])"
    assert kernel.value("run.settings['model'], run.settings['gates'], run.settings['budget']") == (
        "('simulated:disciplined', ['deny'], 1.0)"
    )


def test_gate_questions_of_nested_agents_are_answered_by_step(kernel: Any) -> None:
    kernel.run("calls.clear()\nfrom agentnb.policies.gates import Ask")
    kernel.run("def careful(call, run): return Ask('May it?') if call.name == 'fetch' else None")
    both = "  - type: parallel\n    steps: [{id: left, type: agent, name: a}, {id: right, type: agent, name: a}]\n"
    text = f"agents:\n  a: {{instruction: Work., tools: [fetch]}}\nworkflow:\n{both}"
    cell = kernel.run(f"%%workflow -m simulated:disciplined -t fetch --gate careful --prompt \"- first `fetch('x')`\"\n{text}")
    assert cell.status == "ok", cell.error
    run_id = kernel.value("run.id")
    refused = kernel.run(f"%agent answer {run_id} approve")
    assert f"Say which: %agent answer {run_id} parallel_1/left/q1 approve" in refused.error, refused.error
    kernel.run(f"%agent answer {run_id} parallel_1/right/q1 approve")
    assert kernel.value("run.is_suspended, calls, [one.id for one in run.waiting]") == "(True, ['x'], ['parallel_1/left/q1'])"
    answered = kernel.run(f"%agent answer {run_id} approve")
    assert answered.status == "ok", answered.error
    assert kernel.value("run.status, calls") == "('completed', ['x', 'x'])"


def test_killing_the_kernel_during_a_question_loses_nothing(tmp_path: Path, subtests: pytest.Subtests) -> None:
    first = Kernel(tmp_path)
    try:
        assert first.run(TOOLS + SETUP).status == "ok"
        first.client.execute(f"%%workflow -m simulated:disciplined -t fetch\n{ASKS}", allow_stdin=True)
        latest = time.monotonic() + PATIENCE
        while not any('"kind":"question_asked"' in line for line in _log(tmp_path)):
            assert time.monotonic() < latest, _log(tmp_path)
            time.sleep(0.01)
        first.manager.signal_kernel(signal.SIGKILL)
    finally:
        first.close()
    (log,) = [path for path in (tmp_path / ".agentnb" / "runs").glob("*.jsonl") if '"human_step"' in path.read_text("utf-8")]
    copies = log.read_bytes()
    for line in ("%agent recover {0}\n%agent answer {0} yes", "%agent answer {0} yes"):
        log.write_bytes(copies)
        second = Kernel(tmp_path)
        with subtests.test(line):
            assert second.run("%load_ext agentnb").status == "ok"
            printed = second.run("%agent status").printed
            assert f"was interrupted. To resume it: %agent recover {log.stem}" in printed
            missing = second.run(f"%agent recover {log.stem}")
            assert f"Run {log.stem} had the tool fetch, not defined in this notebook" in missing.error
            second.run(SETUP)
            for command in line.format(log.stem).split("\n"):
                cell = second.run(command)
                assert cell.status == "ok", cell.error
            assert cell.shown.startswith("Done, not checked: 4 steps"), cell.shown
            assert second.value("calls, run.id") == f"(['true!'], '{log.stem}')"
        second.close()


def _log(folder: Path) -> list[str]:
    return [line for path in (folder / ".agentnb" / "runs").glob("*.jsonl") for line in path.read_text("utf-8").splitlines()]


def test_failed_workflow_names_a_rerun_command_that_works(kernel: Any) -> None:
    kernel.run("calls.clear()")
    cell = kernel.run(f"%%workflow -t fetch flaky -o tides --prompt 'Tides' --approve never\n{FLAKY}")
    assert cell.status == "error" and "the server is down" in cell.error
    assert "Continue: %%workflow --rerun-from server" in cell.shown
    kernel.run("calls.append('mended')")
    again = kernel.run(f"%%workflow -t fetch flaky -o tides --rerun-from server\n{FLAKY}")
    assert again.status == "ok" and again.shown.startswith("Done"), again.error
    assert kernel.value("calls, tides.prompt, tides.text") == "(['brest', 'mended'], 'Tides', 'it answered')"
    assert kernel.value("tides.settings['approve']") == "never", "the mode of the run with the earlier outputs"


FREE_TEXT = """
agents:
  writer: {replies: ['{"ok": true}', '{"ok": true}']}
workflow:
  - {id: draft, type: agent, name: writer}
  - {id: check, type: condition, condition: "{{ $steps.draft.output.ok }}", true: {type: tool, name: fetch, args: {station: a}}}
"""


def test_strict_refuses_workflow_warnings_and_dry_run_starts_nothing(kernel: Any) -> None:
    kernel.run("calls.clear()")
    warned = kernel.run(f"%%workflow -t fetch -o warned\n{FREE_TEXT}")
    assert warned.status == "ok" and "W_UNDECLARED_PATH" in warned.printed and "Using" not in warned.printed
    strict = kernel.run(f"%%workflow -t fetch -o strict --strict\n{FREE_TEXT}")
    assert strict.status == "error" and "W_UNDECLARED_PATH" in strict.error
    dry = kernel.run(f"%%workflow -t fetch -o dry --dry\n{FREE_TEXT}")
    assert dry.status == "ok" and "draft  agent writer" in str(dry.outputs)
    assert kernel.value("calls, [name in globals() for name in ('warned', 'strict', 'dry')]") == "(['a'], [True, False, False])"


def test_agent_file_of_another_program_runs_its_root_agent(kernel: Any) -> None:
    text = "version: '4'\nagents:\n  root: {replies: [High water.], welcome_message: Hello}\n"
    cell = kernel.run(f"%%workflow --prompt 'Which tide?'\n{text}")
    assert cell.status == "ok", cell.error
    assert 'line 4: agent "root": welcome_message has no effect' in cell.printed
    assert kernel.value("run.text") == "High water."


def test_notebook_agents_are_used_unless_the_file_defines_them(kernel: Any) -> None:
    model = "__import__('agentnb').models.ScriptedModel(['Of the notebook.'] * 2)"
    kernel.run(f"import agentnb\nwriter = agentnb.Agent({model})\nhelper = agentnb.Agent({model})")
    steps = "workflow: [{id: w, type: agent, name: writer}, {id: h, type: agent, name: helper}]"
    cell = kernel.run(f"%%workflow -o mixed\nagents: {{writer: {{replies: [Of the file.]}}}}\n{steps}")
    assert cell.status == "ok", cell.error
    assert kernel.value("mixed.steps['w']['output'], mixed.steps['h']['output']") == "('Of the file.', 'Of the notebook.')"
    kernel.run("del writer, helper")
    told = kernel.run(
        "%%workflow -o stood_in\nagents: {writer: {instruction: Write.}}\nworkflow: [{type: agent, name: writer}]"
    )
    assert told.status == "ok" and "Using simulated:disciplined" in told.printed


def test_expectations_of_a_cell_may_use_its_steps(kernel: Any) -> None:
    table = "workflow: [{id: table, type: tool, name: fetch, args: {station: a}}]"
    held = kernel.run(f'%%workflow -t fetch -o held --expect "steps.table.attempts == 1"\n{table}')
    assert held.status == "ok" and "✓ steps.table.attempts == 1" in held.shown
    broken = kernel.run(f'%%workflow -t fetch -o broken --expect "steps.table.attempts > 1"\n{table}')
    assert broken.status == "error" and "steps.table.attempts is 1" in broken.error
    assert kernel.value("broken.status") == "completed"
    assert broken.error.endswith("See the steps: tables.steps(broken)") and "round" not in broken.error
    kernel.run("calls.clear()")
    for text, near in {
        "steps.tabel.times == 1": "Did you mean table?",
        'len(steps["zz/q"].outputs) > 0': "Available: table.",
    }.items():
        refused = kernel.run(f"%%workflow -t fetch -o refused --expect '{text}'\n{table}")
        assert refused.status == "error" and f"{text}: the workflow has no step" in refused.error and near in refused.error
    within = "workflow: [{id: each, type: map, over: [a], step: {type: tool, name: fetch, args: {station: a}}}]"
    held = kernel.run(f"%%workflow -t fetch -o within --expect 'steps[\"each/0\"].times == 1'\n{within}")
    assert held.status == "ok", held.error
    assert kernel.value("calls, 'refused' in globals()") == "(['a'], False)"


def test_run_list_counts_the_steps_of_a_workflow(kernel: Any) -> None:
    kernel.run("%%workflow -t fetch -o listed\nworkflow: [{type: tool, name: fetch, args: {station: a}}]")
    listed = kernel.value("__import__('agentnb').load_traces('.agentnb/runs')")
    assert "1 step" in listed and "0 rounds" not in listed


def test_rerun_from_a_step_requires_earlier_outputs(kernel: Any, subtests: pytest.Subtests) -> None:
    kernel.run("nothing = 3")
    for options, words in {
        "-o nothing --rerun-from server": "the variable nothing does not hold a workflow run",
        "-o tides --rerun-from servers": "There is no step 'servers' in the top-level list. Did you mean server",
    }.items():
        with subtests.test(options):
            assert words in kernel.run(f"%%workflow -t fetch flaky {options}\n{FLAKY}").error


DECLARED = """
agents:
  a: {instruction: Work.}
  own: {instruction: Work., guidance: matrix, limits: {max_rounds: 7}}
workflow:
  - {type: agent, name: a}
  - {type: agent, name: own}
  - {id: inner, type: workflow, file: inner.yaml}
"""


SETTINGS = """
from pathlib import Path
from agentnb import Store

store = Store(".agentnb/runs")
Path("inner.yaml").write_text("agents: {b: {instruction: Work.}}\\nworkflow: [{type: agent, name: b}]\\n")
LIMITS = ("max_rounds", "max_tokens", "unpriced", "on_limit")

def of(path, one):
    name, _, rest = path.partition("/")
    nested = store.load(one.step_records[name].nested)
    if rest:
        return of(rest, nested)
    kept = nested.settings
    named = {"guidance": kept["guidance"]["set"], "policy": kept["policy"]["name"], "model": nested.model}
    return {name: kept.get(name) for name in LIMITS} | named | {"history": kept["history"]}

def cut_off():
    path = store.path(run.id)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
"""


def test_changed_defaults_apply_to_workflows_and_after_recovery(kernel: Any, subtests: pytest.Subtests) -> None:
    assert kernel.run(SETTINGS).status == "ok"
    limits = "budget=0.5 max-seconds=600 max-rounds=9 max-tokens=5000000 on-limit=final_answer unpriced=yes"
    changed = f"{limits} model=simulated:disciplined guidance=off policy=minimal instructions=no history=full"
    assert kernel.run(f"%agent defaults {changed}").status == "ok"
    cell = kernel.run(f"%%workflow --prompt Work\n{DECLARED}")
    assert cell.status == "ok", cell.error
    with subtests.test("the whole run"):
        assert kernel.value("run.settings['budget'], run.settings['max_seconds']") == "(0.5, 600.0)"
    with subtests.test("its agents"):
        step_settings = [ast.literal_eval(kernel.value(f"of({path!r}, run)")) for path in ("a", "own", "inner/b")]
        assert [settings.pop("max_rounds") for settings in step_settings] == [9, 7, 9]
        assert [settings.pop("guidance") for settings in step_settings] == ["off", "matrix", "off"]
        assert step_settings[0] == step_settings[1] == step_settings[2], step_settings
        assert step_settings[0] == {
            "max_tokens": 5_000_000,
            "unpriced": True,
            "on_limit": "final_answer",
            "policy": "minimal",
            "model": "simulated:disciplined",
            "history": step_settings[0]["history"],
        }
    with subtests.test("options and the file come first"):
        kernel.run(f"%%workflow --prompt Work --budget 0.25\nlimits: {{max_seconds: 60}}\n{DECLARED}")
        assert kernel.value("run.settings['budget'], run.settings['max_seconds']") == "(0.25, 60)"
    first = "model= budget= max-seconds= max-rounds=50 guidance=matrix policy=matrix instructions=yes"
    assert kernel.run(f"%agent defaults {first} unpriced=no max-tokens= history=auto on-limit=stop").status == "ok"
    with subtests.test("after a recovery"):
        kernel.run("cut_off()")
        recovered = kernel.run(f"%agent recover {kernel.value('run.id')}")
        assert recovered.status == "ok", recovered.error
        assert kernel.value("run.settings['budget'], run.times_recovered") == "(0.25, 1)"
        again = ast.literal_eval(kernel.value("of('a', run)"))
        assert (again["max_rounds"], again["guidance"], again["policy"]) == (9, "off", "minimal")
    with subtests.test("a default that was not changed says nothing"):
        kernel.run(f"%%workflow --prompt Work\n{DECLARED}")
        assert kernel.value("sorted(run.settings)") == "['inputs', 'model', 'workflow']"


def test_background_workflow_names_its_open_steps_and_can_be_stopped(kernel: Any) -> None:
    steps = ("{id: sleep, type: tool, name: nap, args: {seconds: 0.5}}", "{id: more, type: tool, name: add, args: {a: 1}}")
    text = f"workflow: [{', '.join(steps)}]"
    assert kernel.run(f"%%workflow -t nap add -o slow --background\n{text}").status == "ok"
    latest = time.monotonic() + PATIENCE
    while "sleep  tool nap  running" not in (printed := kernel.run("%agent status").printed):
        assert time.monotonic() < latest, printed
    assert "○ more  tool add" in printed
    assert "is a workflow and does not accept messages" in kernel.run("%agent say Hurry").error
    stopped = kernel.run("%agent stop").printed
    assert "is stopped. Continue with %%workflow --rerun-from sleep" in stopped
    continued = kernel.run("%%agent --continue -t nap\nGo on.")
    assert continued.status == "error" and "with steps instead of rounds" in continued.error
    tasks = "stage: {one: {action: nap, input: {seconds: 0.5}}}"
    assert kernel.run(f"%%workflow -t nap -o slow --background\n{tasks}").status == "ok"
    assert "is stopped. To start over, run its cell again" in kernel.run("%agent stop").printed


def test_workflow_inputs_come_from_variable_json_or_file(kernel: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    cell = (
        "inputs: {station: brest, tide: low}\noutput: first\nworkflow:\n"
        '  - {id: first, type: tool, name: fetch, args: {station: "{{ $inputs.station }}, {{ $inputs.tide }}"}}\n'
        "  - {id: second, type: tool, name: fetch, args: {station: cork}}\n"
    )
    (tmp_path / "inputs.yaml").write_text("station: vigo\n")
    kernel.run(f"where = {{'station': 'faro'}}; many = ['faro']; folder = {str(tmp_path)!r}")
    for argument, expected in {
        "": "table of brest, low",
        "-i where": "table of faro, low",
        """-i '{"station": "oban", "tide": "high"}'""": "table of oban, high",
        """-i '{"station":"$where","tide":5}'""": "table of $where, 5",
        f"--inputs {tmp_path / 'inputs.yaml'}": "table of vigo, low",
        "--inputs {folder}/inputs.yaml": "table of vigo, low",
    }.items():
        with subtests.test(argument):
            done = kernel.run(f"%%workflow -t fetch {argument}\n{cell}")
            assert done.status == "ok", done.error
            assert kernel.value("run.text, run.steps['second']['output']") == repr((expected, "table of cork"))
    for argument, expected in {
        "-i wher": "There is no variable 'wher'. Did you mean where?",
        "-i many": "The variable many holds a value that is not a dict of inputs",
        """-i '{"station"}'""": "-i is not JSON",
        """-i '{"tide":5,"n":"$where"}'""": "The workflow has no input n",
        """-i '{"tid": 1}'""": "The workflow has no input tid. Did you mean tide?",
    }.items():
        with subtests.test(argument):
            assert expected in kernel.run(f"%%workflow -t fetch {argument}\n{cell}").error
    tasks = "stage: {main: {one: {action: fetch, input: {station: '${query}'}}}}\n"
    assert kernel.run(f"""%%workflow -t fetch -i '{{"query": "oban"}}'\n{tasks}""").status == "ok"
    assert kernel.value("run.prompt, run.text") == "('oban', 'table of oban')"


def test_invalid_option_and_empty_cell_are_refused_in_one_line(kernel: Any, subtests: pytest.Subtests) -> None:
    for cell, words in {
        "%%workflow --approve writes\nworkflow: []": "must be one of auto, ask, never, read_only, got 'writes'",
        "%%workflow\n": "This cell has no workflow. Write it in YAML below the %%workflow line",
        "%%workflow --max-rounds 3\nworkflow: []": "Unrecognized arguments: --max-rounds 3",
        "%%workflow\nworkflow:\n  - {id: a, type: human, ask: Well?}\n  - {id: b, type: nothing}": "line 4: ",
        "%%workflow -t nothing_here\nworkflow: []": "There is no tool 'nothing_here' in this notebook",
    }.items():
        with subtests.test(cell):
            refused = kernel.run(cell)
            assert refused.status == "error" and words in refused.error
