"""``%agent recover`` in a real kernel: resuming a run whose kernel died."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from real_kernel import PATIENCE, TOOLS, Kernel

from agentnb.core.log.events import SCHEMA

SETUP = """
from agentnb import ToolCall, ask_person
from agentnb.models import ScriptedModel
from pathlib import Path
def cut_off(run, rounds=1):
    'Leave of its log what was there after so many rounds, as when the process dies then.'
    path = Path(f'.agentnb/runs/{run.id}.jsonl')
    lines = path.read_bytes().splitlines(keepends=True)
    ends = [place for place, line in enumerate(lines, 1) if line.startswith(b'{"kind":"round_finished"')]
    path.write_bytes(b''.join(lines[:ends[rounds - 1]]))
"""
PLAN = "- first `add(1)`\n- second `add(a=3, b=4)`\n"


def cut(kernel: Any, options: str, prompt: str = PLAN, rounds: int = 1) -> str:
    """Return the id of a run with these options, cut off after this many rounds."""
    done = kernel.run(f"%%agent {options} -o dead\n{prompt}")
    assert done.status == "ok", done.error
    kernel.run(f"cut_off(dead, {rounds})")
    return str(kernel.value("dead.id"))


def test_run_of_a_killed_kernel_is_recovered_by_another(tmp_path: Path, snapshot: Snapshot) -> None:
    first = Kernel(tmp_path)
    try:
        assert first.run(TOOLS).status == "ok"
        first.client.execute("%%agent -t add nap\n- a `add(1)`\n- b `nap(600)`\n- c `add(2)`")
        latest = time.monotonic() + PATIENCE
        while not any('"kind":"tool_started"' in line and '"name":"nap"' in line for line in _log(tmp_path)):
            assert time.monotonic() < latest, _log(tmp_path)
            time.sleep(0.01)
        first.manager.signal_kernel(signal.SIGKILL)  # closing the kernel would interrupt it first
    finally:
        first.close()
    second = Kernel(tmp_path)
    try:
        assert second.run(TOOLS).status == "ok"
        printed = second.run("%agent status").printed
        assert printed.startswith("Run ") and "was interrupted. To resume it: %agent recover " in printed
        cell = second.run("%agent recover")
        assert cell.status == "ok", cell.error
        assert cell.printed.startswith("Resuming run ") and cell.printed.strip().count("\n") == 0
        # A call that was cut off does not count as done.
        assert cell.shown.startswith("Ended: todos blocked") and "Done: 3 steps (1 failed), 3 tool calls" in second.value(
            "run.rounds[-1].text"
        )
        assert second.value("run.stop_reason, [todo.status for todo in run.todos]") == (
            "('blocked', ['completed', 'blocked', 'completed'])"
        )
        calls = "[(record.call.name, record.result.error_code) for one in run.rounds for record in one.records]"
        work = f"[call for call in {calls} if call[0] != 'todo_operations']"
        assert second.value(work) == snapshot
        assert second.value("__import__('agentnb').load_trace(f'.agentnb/runs/{run.id}.jsonl') == run") == "True"
        assert second.run("%%agent --continue -t add\n- d `add(5)`").status == "ok"
        assert second.value("run.continued_from is not None") == "True"
    finally:
        second.close()


def _log(folder: Path) -> list[str]:
    return [line for path in (folder / ".agentnb" / "runs").glob("*.jsonl") for line in path.read_text("utf-8").splitlines()]


def test_recovery_behaves_like_an_ordinary_cell(kernel: Any) -> None:
    run_id = cut(kernel, "-t add")
    cell = kernel.run(f"%agent recover {run_id[-8:]} -o mine")
    assert cell.status == "ok", cell.error
    assert cell.printed == "" and "2 steps, 2 tool calls" in cell.shown
    assert kernel.value("mine.id, mine.status, mine.times_recovered") == f"('{run_id}', 'completed', 1)"
    assert run_id in kernel.run("%agent status").printed
    kinds = [output["type"] for output in cell.outputs if output["type"] in ("display_data", "update_display_data")]
    assert kinds[0] == "display_data" and set(kinds[1:]) <= {"update_display_data"}
    assert cell.shown.startswith("Done, not checked: 5 rounds, 2 tool calls and 4 todo updates, 2 of 2 todos")


def test_recovery_shows_a_live_card_to_a_person(kernel: Any) -> None:
    run_id = cut(kernel, "-t add")
    cell = kernel.run(f"%agent recover {run_id}", attended=True)
    assert cell.status == "ok", cell.error
    bundles = [output["data"] for output in cell.outputs if output["type"] == "display_data"]
    assert "application/vnd.jupyter.widget-view+json" in bundles[0]
    assert cell.shown.startswith("Done, not checked: 5 rounds, 2 tool calls and 4 todo updates, 2 of 2 todos")
    assert not [output for output in cell.outputs if output["type"] == "stream"], "a watcher failed"


@pytest.mark.parametrize("attended", [False, True])
def test_interrupt_ends_a_recovery_like_a_cell(kernel: Any, attended: bool) -> None:
    kernel.run("%%agent -t nap add -o dead\n- sleep `nap(0)`\n- add `add(1)`")
    kernel.run("cut_off(dead)")
    kernel.run(
        "def nap(seconds: float) -> str:\n    'Sleep.'\n    open('asleep', 'w').close()\n    time.sleep(60)\n    return ''"
    )
    asleep = kernel.folder / "asleep"
    cell = kernel.run("%agent recover", interrupt_when=lambda _: asleep.exists(), attended=attended)
    asleep.unlink()
    assert cell.status == "error" and cell.error.startswith("KeyboardInterrupt: the run was stopped and its log closed")
    assert kernel.value("dead.status, dead.times_recovered") == "('cancelled', 1)"
    assert kernel.value("__import__('agentnb').load_trace(f'.agentnb/runs/{dead.id}.jsonl') == dead") == "True"
    kernel.run(TOOLS)


def test_tools_of_recovered_runs_are_found_by_name(kernel: Any) -> None:
    kernel.run(
        "from agentnb import tool\n@tool(name='twice')\ndef double(a: int) -> int:\n    return 2 * a\n"
        "def triple(a: int) -> int:\n    return 3 * a\n"
    )
    calls = "[ToolCall('twice', {'a': 1}), ToolCall('triple', {'a': 1}), 'Done.']"
    kernel.run(f"model = ScriptedModel({calls})")
    run_id = cut(kernel, "-m model -t double triple ask_person -p minimal", "Go.")
    kernel.run("mine = [triple]\ndel triple, ask_person\ntwice = 3\n" + f"model = ScriptedModel({calls}[1:])")
    cell = kernel.run(f"%agent recover {run_id} -m model")
    assert cell.status == "ok", cell.error
    assert kernel.value("dead.status, dead.rounds[1].results[0].text") == "('completed', '3')"
    kernel.run("from agentnb import ask_person\ndel twice")


def test_missing_tools_are_named_with_a_suggestion(kernel: Any) -> None:
    kernel.run("def gone(a: int) -> int:\n    return a\nmodel = ScriptedModel([ToolCall('gone', {'a': 1}), 'Done.'])")
    run_id = cut(kernel, "-m model -t gone add -p minimal", "Go.")
    kernel.run("del gone\nmodel = ScriptedModel(['Done.'])")
    cell = kernel.run(f"%agent recover {run_id} -m model")
    assert cell.status == "error"
    assert cell.error == (
        f"UnknownTool: Run {run_id} had the tool gone, not defined in this notebook. Define it, then: %agent recover {run_id}"
    )
    kernel.run("def gone(a: int) -> int:\n    return a")
    cell = kernel.run(f"%agent recover {run_id}")
    assert cell.status == "error" and "a Python object. Pass it again: -m VARIABLE" in cell.error
    cell = kernel.run(f"%agent recover {run_id} -m modell")
    assert cell.status == "error" and "Did you mean model?" in cell.error
    assert kernel.run(f"%agent recover {run_id} -m model -t gone,add").status == "ok"


def test_guidance_set_of_the_session_is_found_by_name(kernel: Any) -> None:
    kernel.run("%%guidance terse\nSay little.")
    run_id = cut(kernel, "-t add -g terse")
    sets = "get_ipython()._agentnb_session.sets"
    kernel.run(f"del {sets}['terse']")
    kernel.run(f"path = Path('.agentnb/runs/{run_id}.jsonl')\ntext = path.read_text()")
    kernel.run(f"path.write_text(text.replace('\"schema\":{SCHEMA}', '\"schema\":4', 1)) and None")
    cell = kernel.run(f"%agent recover {run_id}")
    assert (
        cell.status == "error"
        and "guidance set terse, which is not available here. Write it again: %%guidance terse" in cell.error
    )
    kernel.run("%%guidance terse\nSay little.")
    assert kernel.run(f"%agent recover {run_id} --trust-log").status == "ok"
    given = "[event.guidance.text for event in dead.events if type(event).__name__ == 'GuidanceGiven']"
    assert kernel.value(f"'Say little.' in str({given})") == "True"


def test_missing_guidance_set_is_rebuilt_from_the_log(kernel: Any) -> None:
    kernel.run("%%guidance brief\nBe brief.")
    run_id = cut(kernel, "-t add -g brief")
    version = kernel.value("dead.settings['guidance']['version']")
    kernel.run("%%guidance brief\nWritten anew since then.")
    assert kernel.run(f"%agent recover {run_id}").status == "ok"
    given = "[event.guidance for event in dead.events if type(event).__name__ == 'GuidanceGiven']"
    value = kernel.value(f"str([(one.text, one.version) for one in {given} if one.cell != 'todo_list'])")
    assert "Be brief." in value and "anew" not in value and version.strip("'") in value


def test_recovered_run_keeps_its_limits(kernel: Any) -> None:
    kernel.run("model = ScriptedModel([ToolCall('add', {'a': n}) for n in range(3)] + ['Done.'])")
    kernel.run("%%agent -m model -t add -p minimal --max-rounds 3\nGo.")
    kernel.run("cut_off(run)\nmodel = ScriptedModel([ToolCall('add', {'a': n}) for n in range(3)] + ['Done.'])")
    cell = kernel.run("%agent recover -m model")
    assert cell.status == "ok" and cell.result == {}
    assert kernel.value("run.status, run.stop_reason, len(run.rounds)") == "('limited', 'max_rounds', 3)"


def replied(kernel: Any, code: str, reply: str) -> tuple[Any, str]:
    """Run the cell with this reply to its prompt; return the cell and the prompt."""
    cell = kernel.run(code, attended=True, reply=reply)
    return cell, cell.asked


@pytest.fixture
def mine(kernel: Any) -> Iterator[Any]:
    """Return the kernel of the notebook mine.ipynb in its folder."""
    kernel.run("__session__ = str(Path('mine.ipynb').absolute())\n%reload_ext agentnb")
    yield kernel
    kernel.run("del __session__\n%reload_ext agentnb")


def elsewhere(kernel: Any) -> str:
    """Return the id of an interrupted run of another notebook."""
    kernel.run("__session__ = str(Path('other.ipynb').absolute())\n%reload_ext agentnb")
    run_id = cut(kernel, "-t add")
    kernel.run("__session__ = str(Path('mine.ipynb').absolute())\n%reload_ext agentnb")
    return run_id


def edited(kernel: Any) -> str:
    """Return the id of an interrupted run whose log was changed."""
    run_id = cut(kernel, "-t add")
    kernel.run(f"path = Path('.agentnb/runs/{run_id}.jsonl')\ntext = path.read_text()")
    kernel.run("path.write_text(text.replace('b=4', 'b=5')) and None")
    return run_id


def test_changed_log_is_resumed_only_with_consent(mine: Any, subtests: pytest.Subtests) -> None:
    run_id = edited(mine)
    refused = mine.run(f"%agent recover {run_id}")
    assert "was not written by your agentnb, or has been edited since" in refused.error and "--trust-log" in refused.error
    cell, asked = replied(mine, f"%agent recover {run_id}", "")
    assert "SettingsError: Nothing was resumed" in cell.error
    for line in (
        f"The log of run {run_id} was not written by your agentnb",
        f"{'mode':<14} Tools that write, execute or use the network ask you",
        "tools ",
        "Answer (yes: accept this as yours",
    ):
        assert line in asked
    assert mine.value(f"__import__('agentnb').load_trace('.agentnb/runs/{run_id}.jsonl').status") == "interrupted"
    for code, reply, consent in (
        (f"%agent recover {run_id}", "yes", "taken"),
        (f"%agent recover {edited(mine)} --trust-log", None, "taken"),
        (f"%agent recover {edited(mine)} --no-trust-log", None, "refused"),
    ):
        with subtests.test(code):
            cell = mine.run(code) if reply is None else replied(mine, code, reply)[0]
            last = "[event.consent for event in dead.events if type(event).__name__ == 'RunRecovered']"
            assert mine.value(last) == f"['{consent}']", cell.error
            assert mine.value("dead.status") == ("completed" if consent == "taken" else "waiting_on_user")


def test_run_of_another_notebook_is_recovered_only_with_consent(mine: Any) -> None:
    run_id = elsewhere(mine)
    cell, asked = replied(mine, "%agent recover", "")
    assert cell.status == "ok" and cell.printed == "Nothing was recovered\n"
    assert asked == (
        f"Run {run_id} was started in other.ipynb. Recover it in mine.ipynb, with the functions defined here? [y/N] "
    )
    assert mine.value(f"__import__('agentnb').load_trace('.agentnb/runs/{run_id}.jsonl').status") == "interrupted"
    cell, _ = replied(mine, f"%agent recover …{run_id[-4:]}", "y")
    assert cell.status == "ok", cell.error
    assert mine.value("dead.id, dead.status") == f"('{run_id}', 'completed')"


def test_unattended_recovery_from_another_notebook_is_refused(mine: Any) -> None:
    run_id = elsewhere(mine)
    refused = mine.run("%agent recover")
    assert refused.error == (
        f"SettingsError: Run {run_id} was started in other.ipynb, not in mine.ipynb. "
        f"To recover it here: %agent recover {run_id} --here"
    )
    assert mine.run(f"%agent recover {run_id} --here").status == "ok"
    assert mine.value("dead.id, dead.status") == f"('{run_id}', 'completed')"


def test_runs_of_the_same_or_unknown_notebook_are_recovered_directly(mine: Any) -> None:
    run_id = cut(mine, "-t add")
    assert mine.run(f"%agent recover {run_id}").status == "ok"
    mine.run("__session__ = 'console-1-abc'\n%reload_ext agentnb")
    run_id = cut(mine, "-t add")
    mine.run("__session__ = str(Path('mine.ipynb').absolute())\n%reload_ext agentnb")
    assert mine.run(f"%agent recover {run_id}").status == "ok"
    run_id = elsewhere(mine)
    mine.run("del __session__\n%reload_ext agentnb")
    cell = mine.run(f"%agent recover {run_id}")
    assert cell.status == "ok" and cell.printed == f"Run {run_id} was started in other.ipynb\n"
    mine.run("__session__ = ''")


def test_run_list_shows_the_notebook_of_each_run(mine: Any) -> None:
    elsewhere(mine)
    listed = mine.run("%agent history other.ipynb").listing
    assert "(other.ipynb)" in listed["text/plain"] and "other.ipynb" in listed["text/html"]
    mine.run("run = await __import__('agentnb').Agent('simulated:disciplined', [add]).run('- `add(1)`')")
    assert mine.value("run.events[0].notebook") == "mine.ipynb"


def test_mistake_is_reported_in_one_line_with_a_suggestion(kernel: Any, subtests: pytest.Subtests) -> None:
    for line, expected in [
        ("nothing", "There is no run 'nothing'"),
        ("x y", "Unrecognized arguments: y. Write %agent recover [ID] [-m MODEL]"),
        ("x --modle m", "Did you mean --model"),
        ("x -o for", "is not a valid variable name"),
        ("'x", "No closing quotation"),
    ]:
        with subtests.test(line):
            cell = kernel.run(f"%agent recover {line}")
            assert cell.status == "error" and expected in cell.error and "\n" not in cell.error


def test_without_interrupted_runs_recovery_suggests_continuing(kernel: Any) -> None:
    kernel.run("%%agent\nhello")
    kernel.run("for path in Path('.agentnb/runs').glob('*.jsonl'):\n    run.id in path.name or path.unlink()")
    cell = kernel.run("%agent recover")
    assert cell.status == "error" and "No run in .agentnb/runs was interrupted. %agent history" in cell.error
    cell = kernel.run(f"%agent recover {kernel.value('run.id')}")
    assert (
        cell.status == "error" and "has ended (natural)" in cell.error and "conversation: %%agent --continue 20" in cell.error
    )
    assert "recover" not in kernel.run("%agent history").listing["text/plain"]


def test_history_and_loaded_run_explain_how_to_continue(kernel: Any) -> None:
    run_id = cut(kernel, "-t add")
    assert kernel.run("%agent history").listing["text/plain"].splitlines()[0].endswith(": %agent recover ID")
    kernel.run(f"%agent load {run_id}")
    printed = kernel.run("%agent status").printed
    assert printed.startswith(run_id) and printed.count("%agent recover ") == 1


def test_ids_of_interrupted_runs_and_options_are_completed(kernel: Any) -> None:
    run_id = cut(kernel, "-t add")
    kernel.run("%%agent -o whole\nhello")

    def complete(code: str) -> list[str]:
        return list(kernel.client.complete(code, len(code), reply=True, timeout=30)["content"]["matches"])

    offered = complete("%agent recover ")
    assert run_id in offered and kernel.value("whole.id") not in offered
    assert "--model" in complete(f"%agent recover {run_id} --m")
    assert "add" in complete(f"%agent recover {run_id} -t a")
    assert "simulated:disciplined" in complete(f"%agent recover {run_id} -m sim")


@pytest.mark.req("R1.42", "KX.5")
def test_question_of_an_interrupted_plan_is_answered_with_notebook_tools(kernel: Any) -> None:
    setup = """
from agentnb import Store, Workflow
weighed = []
def weigh(species: str) -> str:
    'Weigh the penguins of a species.'
    weighed.append(species)
    return species
asked = Workflow.planner([weigh]).run_sync(
    "- `weigh('Adelie')`\\n- `weigh()`", model="simulated:disciplined", answer=lambda question: {"species": "Gentoo"},
    store=Store(".agentnb/runs"), show=False,
)
path = Path(f'.agentnb/runs/{asked.id}.jsonl')
lines = path.read_bytes().splitlines(keepends=True)
place = next(place for place, line in enumerate(lines, 1) if line.startswith(b'{"kind":"question_asked"'))
path.write_bytes(b''.join(lines[:place]))
weighed.clear()
"""
    cell = kernel.run(setup)
    assert cell.status == "ok", cell.error
    cell = kernel.run(f"%agent answer {kernel.value('asked.id')} " + '{"species": "Chinstrap"}')
    assert cell.status == "ok", cell.error
    assert kernel.value("(run.status, weighed)") == "('completed', ['Chinstrap'])"
