"""Runs that Python code in a cell starts: displayed below it, known to the session, stopped by it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from real_kernel import Kernel

from agentnb import Agent, Store, ToolCall
from agentnb.models import ScriptedModel
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.cells.cell_host import CellHost
from agentnb.runtime.host.host import use_host
from agentnb.session.session import Session

SETUP = """
%load_ext agentnb
import asyncio
from agentnb import Agent, Store, ToolCall, ask_person
from agentnb.models import ScriptedModel

def made(*replies, tools=(), **settings):
    return Agent(ScriptedModel(list(replies)), list(tools), guidance='off', todos=False, **settings)

async def delegate(count: int) -> str:
    "Begin runs."
    runs = await asyncio.gather(*[made(f"inner {n}", name="helper").run(f"part {n}") for n in range(count)])
    return ", ".join(run.text for run in runs)

async def rest() -> str:
    "Wait."
    await asyncio.Event().wait()
"""


def test_awaited_run_is_shown_once_and_leaves_no_log(kernel: Kernel) -> None:
    cell = kernel.run("from pathlib import Path\nawait made('Four <b>.').run('Two and two?')")
    assert cell.status == "ok" and "Four &lt;b&gt;" in cell.displays[-1]["text/html"]
    for form in ("text/html", "text/plain"):
        assert "shown above" in cell.result[form] and "Four" not in cell.result[form]
    assert "%agent load" not in cell.displays[0]["text/html"]
    assert kernel.run("print(Path('.agentnb/runs').exists())").printed == "False\n"
    printed = kernel.run("%agent status").printed
    assert "No %%agent cell has run yet" in printed and "Nothing has run" not in printed
    refused = kernel.run("%agent todos").error
    assert "no %%agent cell has run yet" in refused and "run.todos" in refused and "no tools" not in refused
    again = kernel.run("run = await made('Four.').run('Two and two?')\nNone")
    assert len(again.displays) >= 1 and not again.result
    assert (
        "Transcript, "
        in kernel.run("await made(ToolCall('x', {}), 'Four.').run('go', watch=lambda item: None)").result["text/html"]
    )


def test_every_way_to_run_shows_a_card_unless_disabled(kernel: Kernel, subtests: pytest.Subtests) -> None:
    ways = {
        "run": "run = await made('Four.').run('Two?'{})",
        "run_sync": "run = made('Four.').run_sync('Two?'{})",
        "live": "live = made('Four.').start('Two?'{})\nrun = await live",
    }
    for name, code in ways.items():
        for attended in (False, True):
            with subtests.test(name, attended=attended):
                cell = kernel.run(code.format(""), attended=attended)
                assert cell.status == "ok" and "Four." in cell.displays[-1]["text/html"]
                hidden = kernel.run(code.format(", show=False"), attended=attended)
                assert (hidden.status, hidden.displays) == ("ok", []) and kernel.run("print(run.text)").printed == "Four.\n"


def test_handle_shows_its_run_in_later_cells(kernel: Kernel) -> None:
    kernel.run("from agentnb.core.log.events import ToolStarted")
    waits = "while not any(isinstance(one, ToolStarted) for one in live.run.events): await asyncio.sleep(0.01)"
    begun = kernel.run(f"live = made(ToolCall('rest', {{}}), tools=[rest]).start('Rest.')\n{waits}\nlive")
    assert "shown above" in begun.result["text/html"] and begun.displays
    later = kernel.run("live")
    assert "as it was when this cell ran" in later.result["text/html"] and "rest" in later.result["text/html"]
    kernel.run("live.stop()\nrun = await live")
    ended = kernel.run("live").result["text/html"]
    assert "Transcript" in ended and "As it was" not in ended


def test_background_run_is_counted_in_status_and_can_be_stopped(kernel: Kernel) -> None:
    begun = kernel.run("live = made(ToolCall('rest', {}), tools=[rest]).start('Rest.')\nlive.run_id")
    assert begun.status == "ok"
    kernel.run("while not live.run.rounds: await asyncio.sleep(0.01)")
    assert kernel.run("print(live.run_id)").printed.strip() in kernel.run("%agent status").printed
    assert "Stopping run" in kernel.run("%agent stop").printed
    assert kernel.run("print((await live).status)").printed == "cancelled\n"


def test_five_or_more_runs_of_a_cell_share_one_line(kernel: Kernel) -> None:
    at_once = "await asyncio.gather(*[made('Done.').run(f'part {n}') for n in range(9)])\nNone"
    cell = kernel.run(at_once)
    assert cell.displays[-1]["text/plain"].startswith("9 runs: 9 done · ")
    assert len([output for output in cell.outputs if output["type"] == "display_data"]) == 1
    in_turn = kernel.run("for n in range(7):\n    await made('Done.').run(f'part {n}')\n    await asyncio.sleep(0.1)")
    shown = [output["data"]["text/plain"] for output in in_turn.outputs if output["type"] == "display_data"]
    assert len(shown) == 5 and in_turn.displays[-1]["text/plain"].startswith("3 runs: 3 done · ")


def test_nested_runs_are_saved_and_stored_with_their_parent(kernel: Kernel) -> None:
    kernel.run("outer = ScriptedModel([ToolCall('delegate', {'count': 2}), ToolCall('delegate', {'count': 6}), 'Done.'])")
    cell = kernel.run("%%agent -m outer -t delegate\nAsk them.")
    kept = cell.displays[-1]["text/html"]
    assert kept.count("agentnb-nested-summary") == 2 and kept.count(">helper<") == 2 and "inner 1" in kept
    assert "6 runs" in kept and "6 done" in kept
    assert kernel.run("print(len(list(Path('.agentnb/runs').iterdir())))").printed == "9\n"
    listed = kernel.run("%agent history").listing["text/plain"]
    assert "8 nested" in listed and "part 1" not in listed


def test_agent_variable_is_a_tool_with_a_nested_card(kernel: Kernel) -> None:
    kernel.run("researcher = made('Found it.', system='You look things up. Be brief.')")
    kernel.run("boss = ScriptedModel([ToolCall('researcher', {'prompt': 'Find it.'}), 'Done.'])")
    kept = kernel.run("%%agent -m boss -t researcher\nAsk it.").displays[-1]["text/html"]
    assert kept.count("agentnb-nested-summary") == 1 and "Found it." in kept
    assert kernel.run("print(run.own_tools)").printed == "['researcher']\n"
    printed = kernel.run("%agent tools researcher").printed
    assert "You look things up." in printed and "docstring" not in printed and "Be brief" not in printed
    assert "researcher" in kernel.run("%agent tools").printed.split()


def test_nested_runs_that_start_at_once_are_shown(kernel: Kernel) -> None:
    cell = kernel.run("run = await made(ToolCall('delegate', {'count': 2}), 'Done.', tools=[delegate]).run('Ask them.')")
    assert cell.displays[-1]["text/html"].count("agentnb-nested-summary") == 2


def test_forked_run_is_shown_with_its_repeated_rounds(kernel: Kernel) -> None:
    for code in (
        "forked = await fork(old, 4, model=ScriptedModel(['Here.']))",
        "forked = fork_sync(old, 4, model=ScriptedModel(['Here.']))",
    ):
        cell = kernel.run(f"from agentnb import fork, fork_sync, load_trace\nold = load_trace('complex-fails')\n{code}")
        assert cell.status == "ok" and "Error" not in cell.printed, cell.error
        assert "One point is still open" in cell.displays[-1]["text/html"]


def test_runs_are_not_shown_without_the_extension(kernel: Kernel) -> None:
    kernel.run("%unload_ext agentnb")
    cell = kernel.run("run = await made('Four.').run('Two and two?')\nprint(run.text)")
    assert cell.printed == "Four.\n" and not cell.displays
    assert kernel.run("%load_ext agentnb\nrun = await made('Four.').run('Two and two?')").displays


def test_terminal_does_not_mix_lines_of_two_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def rest() -> str:
        """Let others work."""
        await asyncio.sleep(0)
        return "rested"

    def made(text: str) -> Agent:
        return Agent(ScriptedModel([ToolCall("rest", {}), text]), [rest], guidance="off", todos=False)

    async def main() -> None:
        await asyncio.gather(made("first").run("go"), made("second").run("go"))
        await made("third").run("go")

    with use_host(CellHost(SimpleNamespace(kernel=None), Session(Store(tmp_path)), OpenWidgets()).host()):
        asyncio.run(main())
    printed = capsys.readouterr().out
    assert "first" in printed and "second" not in printed and "third" in printed
