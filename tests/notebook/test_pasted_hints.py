"""Suggested commands can be pasted: each runs in a kernel in the state that suggested it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from real_kernel import PATIENCE, TOOLS, Kernel

SETUP = '''
from agentnb import ToolCall
from agentnb.models import ScriptedModel

def ask_first(call, run):
    return None

def flaky() -> str:
    """Fail until it is mended."""
    if not mended:
        raise ValueError("the server is down")
    return "it answered"

def told(run):
    from agentnb.advice import Command
    from agentnb.display.texts.states import closing_pieces
    import json
    return print(json.dumps([one for line in closing_pieces(run) for one in line if isinstance(one, Command)]))

mended = False
places = {"station": "brest"}
'''
STEPS = """
inputs: {station: oban}
workflow:
  - {id: sum, type: tool, name: add, args: {a: 1}}
  - {id: server, type: tool, name: flaky}
  - {id: last, type: agent, name: writer}
agents: {writer: {instruction: "Write of {{ $inputs.station }}."}}
"""


def told(kernel: Any, variable: str) -> list[str]:
    """Return the commands on the card of the run in this variable."""
    printed = kernel.run(f"told({variable})").printed
    found: list[str] = json.loads(printed)
    return found


def paste(kernel: Any, commands: list[str], body: str = "Go on.") -> Any:
    """Run each command as a cell, cell magics with this body; return the last cell."""
    for command in commands:
        cell = kernel.run(f"{command}\n{body}" if command.startswith("%%") else command)
        assert cell.status == "ok", f"{command}: {cell.error}"
    return cell


def test_pasted_hint_continues_a_conversation(kernel: Any, subtests: pytest.Subtests) -> None:
    scripted = "ScriptedModel([ToolCall('add', {'a': 1}), ToolCall('add', {'a': 2}), 'Done.'])"
    cases = {
        "a limit": ("%%agent -t add -o kept --max-rounds 1", ["%%agent --continue -t add -o kept --max-rounds 2"]),
        "a list of tools": ("%%agent -t several --max-rounds 1", ["%%agent --continue -t several --max-rounds 2"]),
        "an object as model, and a gate": (
            "%%agent -t add nap -m scripted -o kept --gate ask_first --max-rounds 1",
            ["%%agent --continue -t add nap -m scripted --gate ask_first -o kept --max-rounds 2"],
        ),
        "guidance": (
            "%%agent -t add -g off --max-tool-calls 1",
            ["%%agent --continue -t add -g off --max-tool-calls 2"],
        ),
    }
    for name, (line, commands) in cases.items():
        with subtests.test(name):
            out = "kept" if "-o kept" in line else "run"
            kernel.run(f"scripted, several = {scripted}, [add, nap]")
            assert kernel.run(f"{line}\n- one `add(1)`\n- two `add(2)`").status == "ok"
            before = kernel.value(f"{out}.id")
            if out == "kept":  # otherwise the command means the last run
                kernel.run("%%agent -o another\nSomething else.")
            assert told(kernel, out) == commands
            paste(kernel, commands)
            assert kernel.value(f"{out}.continued_from, bool({out}.own_tools)") == f"('{before}', True)"


def test_stopped_cell_explains_how_to_continue_it(kernel: Any, snapshot: Snapshot) -> None:
    kernel.run("import signal\ndef interrupt() -> str:\n    'Interrupts.'\n    signal.raise_signal(signal.SIGINT)")
    cell = kernel.run("%%agent -t interrupt -o stopped\n- go `interrupt()`")
    command = cell.error.rpartition("Continue with ")[2]
    assert command == snapshot and [command] == told(kernel, "stopped")
    before = kernel.value("stopped.id")
    paste(kernel, [command], "Leave it.")
    assert kernel.value("stopped.continued_from") == before


def test_failed_run_explains_how_to_retry(kernel: Any, snapshot: Snapshot) -> None:
    kernel.run("from agentnb.advice import TryAgain\nfrom agentnb.errors import ProviderTrouble")
    kernel.run("trouble = ProviderTrouble('It fails', TryAgain(lead='Try again'))")
    kernel.run("failing = ScriptedModel([ToolCall('add', {'a': 1}), trouble, 'Done.'])")
    assert kernel.run("%%agent -m failing -t add -o failed\nGo.").status == "error"
    assert told(kernel, "failed") == snapshot
    paste(kernel, told(kernel, "failed"))
    assert kernel.value("failed.text") == "Done."


def test_pasted_hint_reruns_a_workflow(kernel: Any) -> None:
    for inputs, again in {"-i places": "-i places", '-i \'{"station": "brest"}\'': '-i \'{"station": "brest"}\''}.items():
        kernel.run("mended = False")
        line = f"%%workflow -t add flaky -m simulated:disciplined -o flow --gate ask_first {inputs}"
        begun = kernel.run(f"{line}\n{STEPS}")
        assert begun.status == "error" and "server is down" in begun.error, begun.error
        kernel.run("%%agent\nSomething else.")
        kernel.run("mended = True")
        command = "%%workflow --rerun-from server -t add flaky -m simulated:disciplined --gate ask_first "
        assert told(kernel, "flow") == [f"{command}{again} -o flow"]
        paste(kernel, told(kernel, "flow"), STEPS)
        assert kernel.value("flow.status, flow.steps['server']['output']") == "('completed', 'it answered')"


def test_pasted_hint_recovers_a_dead_run_into_its_variable(tmp_path: Path) -> None:
    first = Kernel(tmp_path)
    try:
        first.run(TOOLS + SETUP)
        first.run("speaker = ScriptedModel([ToolCall('nap', {'seconds': 60}), 'Done.'])")
        first.run("%%agent -t nap -m speaker -o bg --background\nSleep.")
        waited = time.monotonic() + PATIENCE
        while first.value("[type(one).__name__ for one in bg.events].count('ToolStarted')") != "1":
            assert time.monotonic() < waited
        page = first.value(
            "get_ipython().user_ns and __import__('agentnb.display.card.lost_kernel').display.card.lost_kernel"
            ".remains_html(bg.id)"
        )
        first.manager.signal_kernel(signal.SIGKILL)
    finally:
        first.close()
    second = Kernel(tmp_path)
    try:
        second.run(TOOLS.replace("%load_ext agentnb", "") + SETUP.replace("from agentnb", "from agentnb"))
        second.run("speaker = ScriptedModel(['Done.'])")
        commands = [part.partition("</code>")[0].rpartition(">")[2] for part in page.split("<code")[1:]]
        assert commands[0] == "%load_ext agentnb" and commands[1].startswith("%agent recover ")
        assert second.run(commands[0]).status == "ok"
        status = second.run("%agent status").printed
        assert status.startswith("Run ") and "was interrupted. To resume it: %agent recover " in status
        refused = second.run(commands[1])
        assert "-m VARIABLE" in refused.error
        assert second.run(f"{commands[1]} -m speaker").status == "ok"
        assert second.value("bg.text, 'run' in dir()") == "('Done.', False)"
    finally:
        second.close()
