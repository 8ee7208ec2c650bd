"""A notebook session over time: load, continue, reload, interrupt, lose the kernel."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from real_kernel import TOOLS, Kernel

PLAN = "- first `add(1)`\n- second `add(a=3, b=4)`\n"
BACKGROUND = "%%agent --background -t add -m simulated:disciplined?delay=0.05\n- first `add(1)` and many more words to say\n"


def test_dry_run_shows_the_conversation_to_continue(kernel: Any) -> None:
    kernel.run("%%agent\nhello there")
    printed = kernel.run("%%agent --dry --continue\nAnd now?").printed
    assert "hello there" in printed and "And now?" in printed and "--- assistant" in printed


def test_new_run_replaces_a_loaded_one_for_continue(kernel: Any) -> None:
    kernel.run("%%agent -o first\none")
    kernel.run("%%agent -o second\ntwo")
    kernel.run(f"%agent load {kernel.value('first.id')}")
    kernel.run("%%agent -o third\nthree")
    kernel.run("%%agent --continue\nfour")
    assert kernel.value("run.continued_from == third.id") == "True"


def test_background_run_shows_its_answer_in_its_display(kernel: Any) -> None:
    kernel.run("from agentnb.models import ScriptedModel\nanswering = ScriptedModel(['The answer is 42.'])")
    kernel.run("%%agent --background -m answering\nGo.\n")
    cell = kernel.run("import time\nwhile run.should_continue: time.sleep(0.01)\nrun")
    assert "The answer is 42." in cell.result["text/html"]


def test_extension_reload_keeps_live_runs(kernel: Any) -> None:
    kernel.run(BACKGROUND)
    kernel.run("%reload_ext agentnb")
    stopped = kernel.run(f"%agent stop {kernel.value('run.id')}")
    assert stopped.status == "ok", stopped.error
    kernel.run("while run.should_continue: time.sleep(0.01)")
    assert kernel.value("run.status") == "cancelled"
    matchers = "[one for one in get_ipython().Completer.custom_matchers if one.__name__ == 'agentnb_matcher']"
    assert kernel.value(f"len({matchers})") == "1"


def test_stop_with_an_id_stops_that_run(kernel: Any) -> None:
    kernel.run(BACKGROUND.replace("--background", "--background -o one"))
    kernel.run(BACKGROUND.replace("--background", "--background -o two"))
    kernel.run(f"%agent stop {kernel.value('one.id')}")
    kernel.run("while one.should_continue: time.sleep(0.01)")
    assert kernel.value("one.status") == "cancelled"
    assert kernel.value("any(type(event).__name__ == 'CommandReceived' for event in two.events)") == "False"
    kernel.run("%agent stop")


def test_live_run_is_listed_as_running(kernel: Any) -> None:
    kernel.run(BACKGROUND)
    listing = kernel.run("%agent history").listing
    assert f"{kernel.value('run.id')}  Running" in listing["text/plain"]
    assert "</span> Running</b>" in listing["text/html"]
    loaded = kernel.run("from agentnb import load_trace\nprint(load_trace(f'.agentnb/runs/{run.id}.jsonl').status)")
    assert loaded.printed.strip() == "running"
    kernel.run("%agent stop")


def test_unloading_removes_the_magics(kernel: Any) -> None:
    kernel.run("%unload_ext agentnb")
    assert kernel.run("%agent status").status == "error"
    assert kernel.run("%load_ext agentnb").status == "ok"
    assert kernel.run("%agent history").status == "ok"


def test_interrupt_ends_an_awaited_run_before_its_tool_would(kernel: Any) -> None:
    kernel.run("import asyncio\nfrom agentnb import Agent, ToolCall\nfrom agentnb.models import ScriptedModel")
    kernel.run("async def wait() -> None:\n    'Wait.'\n    display('I wait')\n    await asyncio.sleep(50)")
    cell = kernel.run(
        "await Agent(ScriptedModel([ToolCall('wait')]), tools=[wait]).run('go')",
        interrupt_when=lambda cell: "I wait" in str(cell.outputs),
    )
    assert cell.status == "error"  # the kernel fixture fails a cell that takes 60 seconds


def test_input_in_a_tool_asks_the_person(kernel: Any) -> None:
    kernel.run("def ask() -> str:\n    'Ask.'\n    return 'Hello ' + input('Name? ')")
    request = kernel.client.execute("%%agent -m simulated:disciplined -t ask\n- `ask()`", allow_stdin=True)
    question = kernel.client.get_stdin_msg(timeout=60)
    assert question["content"]["prompt"] == "Name? "
    kernel.client.input("Ada")
    while kernel.client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] != request:
        pass
    assert "Hello Ada" in kernel.value("run.text")


@pytest.mark.req("KX.11")
def test_run_of_a_killed_kernel_can_be_continued(tmp_path: Path) -> None:
    first = Kernel(tmp_path)
    first.run(TOOLS)
    first.client.execute("%%agent -m simulated:disciplined -t nap add\n- `nap(60)`\n- `add(1)`")
    logs = tmp_path / ".agentnb" / "runs"
    # The call is logged before the one beside it has marked its todo: wait for that too.
    while not any(_is_napping(log.read_bytes()) for log in logs.glob("*.jsonl")):
        pass
    first.manager.signal_kernel(signal.SIGKILL)  # closing the kernel would interrupt it first
    first.close()
    second = Kernel(tmp_path)
    try:
        second.run(TOOLS)
        (log,) = logs.glob("*.jsonl")
        second.run(f"%agent load {log.stem}")
        assert second.value("run.status") == "interrupted"
        second.run("from agentnb.models import ScriptedModel\nmodel = ScriptedModel(['Fine.'])")
        assert second.value("[todo.status for todo in run.todos]") == "['in-progress', 'not-started']"
        assert second.run("%%agent -m model -g off --continue\nGo on.").status == "ok"
        sent = second.value("[(one.role, [type(part).__name__ for part in one.parts]) for one in model.requests[0].messages]")
        listed = "('user', ['Text']), ('assistant', ['Text', 'ToolCall']), ('tool', ['ToolResult'])"
        assert sent == (
            f"[{listed}, ('assistant', ['Text', 'ToolCall', 'ToolCall']), ('tool', ['ToolResult', 'ToolResult', 'Text'])]"
        )
    finally:
        second.close()


def test_cell_reports_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / ".agentnb").write_text("a file where the folder should be")
    kernel = Kernel(tmp_path)
    try:
        kernel.run("%load_ext agentnb")
        cell = kernel.run("%%agent -m simulated:disciplined\nhello")
        assert "This folder is not writable: run logs go to" in cell.printed and cell.status == "ok"
    finally:
        kernel.close()


def test_next_cell_works_after_a_tool_blocks_its_loop(kernel: Any) -> None:
    kernel.run("async def hold() -> str:\n    'Hold.'\n    display('I hold')\n    time.sleep(20)")
    held = kernel.run(
        "%%agent -m simulated:disciplined -t hold\n- `hold()`", interrupt_when=lambda cell: "I hold" in str(cell.outputs)
    )
    assert "the run is stopping" in held.error
    following = kernel.run("%%agent -m simulated:disciplined -t add\n- `add(1)`\n\nis it there?")
    assert following.status == "ok"
    assert kernel.value("[one.run.status for one in " + SESSION + ".running()]") == "['running']"  # it is still blocked


NAPPING = re.compile(rb'^{"kind":"tool_started".*"name":"nap"', re.MULTILINE)
SESSION = "get_ipython()._agentnb_session"


def _is_napping(log: bytes) -> bool:
    return bool(NAPPING.search(log)) and log.count(b'{"kind":"todos_changed"') == 2
