"""``agentnb experiment``: its output, its exit codes, and its continuation."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from shell_calls import Call, written
from waiting import wait_until

TOOLS = '''
import pathlib, time

def note(text: str) -> str:
    """Note a text.

    Args:
        text: The text.
    """
    pathlib.Path(f"noted-{text}").touch()
    while pathlib.Path("hold").exists():
        time.sleep(0.01)
    return f"noted {text}"

def called(run) -> bool:
    return any(one.records for one in run.rounds)

rows = [{"id": f"t{n}", "prompt": f"- Note {n} with `note('{n}')`"} for n in range(6)]
'''
YAML = """
tasks: rows
variants: {off: off, matrix: {guidance: matrix}}
models: simulated:disciplined
agent: {tools: note, max_rounds: 4}
primary: called
"""
PYTHON = """
from agentnb import Experiment
from my_tools import called, note, rows
exp = Experiment(rows, {"off": "off", "matrix": "matrix"}, "simulated:disciplined", primary=called, agent={"tools": [note]})
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my_tools", "exp"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    written("my_tools.py", TOOLS)
    written("exp.yaml", YAML)
    written("exp.py", PYTHON)


def test_yaml_file_runs_with_names_of_the_tools_file(cli: Call) -> None:
    done = cli("experiment", "exp.yaml", "--tools", "my_tools.py", "--folder", "kept")
    assert done.code == 0, done.err
    assert "12 runs · primary called" in done.out and "'matrix' minus 'off' · called" in done.out
    assert len([*Path("kept").glob("*.jsonl")]) == 12
    again = cli("experiment", "exp.yaml", "--tools", "my_tools", "--folder", "kept")
    assert (again.code, again.out) == (0, done.out), "a module is a source of names too, and nothing runs again"


def test_python_file_runs_the_experiment_it_defines(cli: Call, snapshot: Snapshot) -> None:
    done = cli("experiment", "exp.py")
    assert done.code == 0 and "'matrix' minus 'off'" in done.out
    written("two.py", PYTHON + "other = Experiment(rows, {'a': 'off'}, 'simulated:chatty')\nsame = exp\n")
    assert cli("experiment", "two.py").err == snapshot("several")
    assert cli("experiment", "two.py", "--name", "exp", "--design").code == 0
    assert cli("experiment", "two.py", "--name", "ex").err == snapshot("an unknown name")
    written("none.py", "x = 1\n")
    assert cli("experiment", "none.py").err == snapshot("none")
    written("broken.py", "x = 1 / 0\n")
    assert cli("experiment", "broken.py").err == snapshot("a file that raises")


def test_design_option_runs_nothing(cli: Call) -> None:
    done = cli("experiment", "exp.yaml", "-t", "my_tools.py", "--design")
    assert done.code == 0 and done.out.startswith("Design · 6 tasks x 2 variants = 12 runs")
    assert not [*Path().glob("noted-*")] and not Path(".agentnb/experiments").exists()


def test_problems_exit_with_1_before_anything_runs(cli: Call, snapshot: Snapshot) -> None:
    written("bad.yaml", YAML.replace("rows", "row").replace("tools: note", "tools: notes"))
    done = cli("experiment", "bad.yaml", "--tools", "my_tools.py")
    assert (done.code, done.out, done.err) == (1, "", snapshot("in the file"))
    written("bad.yaml", YAML.replace("simulated:disciplined", "simulated:nobody"))
    done = cli("experiment", "bad.yaml", "--tools", "my_tools.py")
    assert (done.code, done.out, done.err) == (1, "", snapshot("in the experiment"))
    assert cli("experiment", "nowhere.yaml").code == 1
    assert not [*Path().glob("noted-*")]


def test_experiment_model_at_another_url_needs_permission(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "a" * 40)
    for place in ("models: {}", "agent: {{model: {}, tools: note}}", "variants: {{off: {{model: {}}}}}"):
        line = place.format("openai:x?url=https://models.example.org")
        kept = [one for one in YAML.splitlines() if one.partition(":")[0] not in (line.partition(":")[0], "models")]
        written("far.yaml", "\n".join([*kept, line]))
        done = cli("experiment", "far.yaml", "--tools", "my_tools.py", "--design")
        assert done.code == 2 and "--allow-url 'https://models.example.org&key=OPENAI_API_KEY'" in done.err, place
    allowed = cli(
        "experiment",
        "far.yaml",
        "--tools",
        "my_tools.py",
        "--design",
        "--allow-url",
        "https://models.example.org&key=OPENAI_API_KEY",
    )
    assert allowed.code == 0, allowed.err


def test_missing_runs_exit_with_2_and_the_next_command(cli: Call, snapshot: Snapshot) -> None:
    priced = YAML.replace("simulated:disciplined", "simulated:disciplined?price=1000000/1000000")
    written("exp.yaml", priced + "budget: 0.5\nplaces: 1\n")
    done = cli("experiment", "exp.yaml", "--tools", "my_tools.py")
    assert done.code == 2 and "hidden" in done.out and "minus" not in done.out
    assert done.err == snapshot


def test_planned_analysis_ends_with_the_next_command(cli: Call, snapshot: Snapshot) -> None:
    written("my_tools.py", TOOLS.replace("range(6)", "range(20)"))
    written("exp.yaml", YAML + "looks: [0.5, 1.0]\n")
    first = cli("experiment", "exp.yaml", "--tools", "my_tools.py")
    assert first.code == 0 and "look 1 of 2, after 10 of 20 tasks" in first.out
    assert first.err == snapshot
    last = cli("experiment", "exp.yaml", "--tools", "my_tools.py")
    assert last.code == 0 and "look 2 of 2, after 20 of 20 tasks" in last.out and "40 runs" in last.out


@pytest.mark.nightly("by day a run is interrupted in a shell, and stopped experiments continue in a kernel")
@pytest.mark.slow("two processes begin, and one is interrupted")
def test_interrupted_experiment_is_continued_by_the_same_command(snapshot: Snapshot) -> None:
    Path("hold").touch()
    argv = [sys.executable, "-m", "agentnb", "experiment", "exp.yaml", "--tools", "my_tools.py", "--folder", "kept"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: bool([*Path().glob("noted-*")]))
    process.send_signal(signal.SIGINT)
    Path("hold").unlink()
    out, err = process.communicate()
    assert process.returncode == 130 and out == ""
    assert "The experiment was stopped after" in err
    assert err.splitlines()[-1] == snapshot
    again = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "12 runs" in again.stdout
