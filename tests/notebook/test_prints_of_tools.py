"""Prints of tools: kept with their calls and shown only there."""

from __future__ import annotations

import pytest
from real_kernel import Kernel

SETUP = """
%load_ext agentnb
import asyncio, sys, threading
from agentnb import Agent, ToolCall, tool
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

def made(*replies, tools=(), **settings):
    return Agent(ScriptedModel(list(replies)), list(tools), guidance='off', todos=False, **settings)

def plain(n: int) -> str:
    "Print on the main thread."
    print("plain", n)
    print("error", n, file=sys.stderr)
    return f"did {n}"

both = threading.Barrier(2, timeout=30)

@tool(parallel_safe=True)
def beside(n: int) -> str:
    "Print in a thread, in turns with another call."
    for step in range(3):
        both.wait()
        print(f"beside {n}:{step}")
    return f"did {n}"

gate = asyncio.Event()

@tool(parallel_safe=True)
async def coroutine(n: int) -> str:
    "Print on the event loop."
    print("coroutine", n)
    await asyncio.sleep(0)
    print("again", n)
    return f"did {n}"

def calls(name): return [ToolCall(name, {"n": n}) for n in (1, 2)]
def printed(run): return [one.printed for one in run.rounds[0].records]
"""
EXPECTED = {
    "plain": ["plain 1\nerror 1\n", "plain 2\nerror 2\n"],
    "beside": ["beside 1:0\nbeside 1:1\nbeside 1:2\n", "beside 2:0\nbeside 2:1\nbeside 2:2\n"],
    "coroutine": ["coroutine 1\nagain 1\n", "coroutine 2\nagain 2\n"],
}


def test_prints_of_a_tool_are_shown_at_its_call(kernel: Kernel, subtests: pytest.Subtests) -> None:
    ways = {
        "awaited": "run = await {agent}.run('go')",
        "blocking": "run = {agent}.run_sync('go')",
        "background": "live = {agent}.start('go')\nrun = await live",
        "cell": "%%agent -m model -t {name} --guidance off\ngo",
    }
    for name, expected in EXPECTED.items():
        agent = f"made(calls('{name}'), 'Done.', tools=[{name}])"
        for way, code in ways.items():
            with subtests.test(name, way=way):
                kernel.run(f"model = ScriptedModel([calls('{name}'), 'Done.'])")
                cell = kernel.run(code.format(agent=agent, name=name))
                assert (cell.status, cell.printed) == ("ok", "")
                html = cell.displays[-1]["text/html"]
                assert all(text.rstrip() in html for text in expected)
                assert f"| {expected[0].splitlines()[0]}" in cell.shown
                assert kernel.run("print(printed(run))").printed == f"{expected}\n"


def test_other_prints_are_not_redirected(kernel: Kernel, subtests: pytest.Subtests) -> None:
    run = "run = await made(*calls('plain')[:1], 'Done.', tools=[plain]).run('go'{})"
    cases = {
        "no call": ("print('here')", "here\n"),
        "no card": (run.format(", show=False"), "plain 1\nerror 1\n"),
        "own watcher": (run.format(", watch=lambda item: None"), "plain 1\nerror 1\n"),
        "more runs than cards": (
            "runs = await asyncio.gather(*[made(ToolCall('late', {}), 'Done.', tools=[late]).run('go') for n in range(6)])",
            "late\n" * 6,
        ),
        "after the call": ("run = await made(ToolCall('leaves', {}), 'Done.', tools=[leaves]).run('go')\nawait left", "left\n"),
    }
    kernel.run(
        "async def late() -> None:\n    'Print late.'\n    await asyncio.sleep(0.3)\n    print('late')\n"
        "async def leave():\n    await asyncio.sleep(0.3)\n    print('left')\n"
        "async def leaves() -> None:\n    'Leave a task.'\n    global left\n    left = asyncio.ensure_future(leave())"
    )
    for name, (code, expected) in cases.items():
        with subtests.test(name):
            cell = kernel.run(code)
            assert cell.status == "ok" and sorted(cell.printed.splitlines()) == sorted(expected.splitlines())


def test_prints_of_inner_calls_and_nested_runs_are_separate(kernel: Kernel) -> None:
    kernel.run(
        "async def outer(context: ToolContext) -> str:\n    'Use others.'\n    print('before')\n"
        "    await context.call('plain', {'n': 1})\n"
        "    inner = await made(ToolCall('plain', {'n': 2}), 'Inner.', tools=[plain]).run('inner')\n    return inner.text"
    )
    cell = kernel.run("run = await made(ToolCall('outer', {}), 'Done.', tools=[outer, plain]).run('go')")
    assert (cell.status, cell.printed) == ("ok", "")
    printed = kernel.run("(record,) = run.rounds[0].records\nprint([record.printed, record.inner[0].printed])").printed
    assert printed == str(["before\nplain 2\nerror 2\n", "plain 1\nerror 1\n"]) + "\n"


def test_stopped_call_keeps_prints_and_unloading_restores_the_streams(kernel: Kernel) -> None:
    kernel.run("async def rest() -> None:\n    'Rest.'\n    print('resting')\n    begun.set()\n    await asyncio.sleep(50)")
    begin = "begun = threading.Event()\nlive = made(ToolCall('rest', {}), tools=[rest]).start('go')\nbegun.wait(30)"
    cell = kernel.run(f"{begin}\nlive.stop()\nrun = await live\nrun.status")
    assert "cancelled" in str(cell.result) and cell.printed == ""
    assert kernel.run("print(printed(run))").printed == "['resting\\n']\n"
    kernel.run("%unload_ext agentnb")
    assert kernel.run("print(type(sys.stdout).__name__, type(sys.stderr).__name__)").printed == "OutStream OutStream\n"
    kernel.run("%load_ext agentnb")
