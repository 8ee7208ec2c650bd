"""``%agent undo`` in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_kernel import TOOLS, Kernel

SETUP = '''
import asyncio
from agentnb import Agent, ToolCall
from agentnb.models import ScriptedModel
from pathlib import Path

def writes(path, content):
    return ToolCall("write_file", {"path": path, "content": content})

async def rest() -> str:
    """Wait."""
    await asyncio.Event().wait()

def model(*calls):
    return ScriptedModel([*calls, "Done."])
'''
LINE = "-t write_file bash rest --approve auto"


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in an empty folder."""
    kernel = Kernel(tmp_path)
    try:
        assert kernel.run(TOOLS + SETUP).status == "ok"
        yield kernel
    finally:
        kernel.close()


def test_newest_run_that_changed_files_is_undone(clean: Kernel) -> None:
    path = clean.folder / "a.txt"
    path.write_text("old")
    assert "No run in this notebook changed a file" in clean.run("%agent undo").error
    clean.run("m = model(writes('a.txt', 'first'))")
    assert clean.run(f"%%agent -m m -o first {LINE}\nGo.").status == "ok"
    clean.run("m = model(writes('a.txt', 'new'), writes('b.txt', 'new'), ToolCall('bash', {'command': 'echo > c.txt'}))")
    clean.run(f"%%agent -m m -o second {LINE}\nGo.")
    clean.run("%%agent -o other\nThis changes nothing.")
    first, second = clean.value("first.id"), clean.value("second.id")
    assert clean.run("%agent undo").printed.splitlines() == [
        f"Run {second}:",
        "  Deleted (created by the run): b.txt",
        "  Restored: a.txt",
        "What bash did is not undone: 1 call",
        '  bash {"command":"echo > c.txt"}',
    ]
    assert path.read_text() == "first" and not (clean.folder / "b.txt").exists()
    assert clean.run("%agent undo").printed == f"Nothing is left to undo in run {second}\n"
    assert "Restored: a.txt" in clean.run(f"%agent undo {first[-8:]}").printed and path.read_text() == "old"
    offered = clean.value("get_ipython().complete('', '%agent undo ', 12)[1]")
    assert first in offered and second in offered and clean.value("other.id") not in offered
    assert "undo      [ID]: restore" in clean.run("%agent help").printed


def test_run_that_waited_is_undone_for_its_later_change(clean: Kernel) -> None:
    clean.run("early = model(writes('a.txt', 'new')); late = model(writes('b.txt', 'new'))")
    clean.run(f"%%agent -m early -o waited {LINE} --rule write_file=ask\nGo.")
    waited = clean.value("waited.id")
    clean.run(f"%%agent -m late {LINE}\nGo.")
    assert clean.run(f"%agent answer {waited} -m early approve").status == "ok"
    assert clean.run("%agent undo").printed == f"Run {waited}:\n  Deleted (created by the run): a.txt\n"


def test_live_and_unknown_runs_are_not_undone(clean: Kernel) -> None:
    (clean.folder / "a.txt").write_text("old")
    clean.run("m = model(writes('a.txt', 'new'), ToolCall('rest'))")
    clean.run(f"%%agent -m m -o live {LINE} --background\nGo.")
    clean.wait_for("Path('a.txt').read_text() == 'new'")
    run_id = clean.value("live.id")
    refused = clean.run("%agent undo").error
    assert f"Run {run_id} is running" in refused and f"%agent stop {run_id}" in refused
    assert (clean.folder / "a.txt").read_text() == "new"
    clean.run("%agent stop")
    assert "Restored: a.txt" in clean.run("%agent undo").printed
    assert "There is no run 'nothing'" in clean.run("%agent undo nothing").error


def test_run_of_another_notebook_is_undone_only_by_id(clean: Kernel) -> None:
    (clean.folder / "a.txt").write_text("old")
    notebook = "__session__ = str(Path({!r}).absolute())\n%reload_ext agentnb"
    clean.run(notebook.format("a.ipynb"))
    clean.run("m = model(writes('a.txt', 'new'))")
    assert clean.run(f"%%agent -m m -o theirs {LINE}\nGo.").status == "ok"
    run_id = clean.value("theirs.id")
    clean.run(notebook.format("b.ipynb"))
    assert "No run in this notebook changed a file" in clean.run("%agent undo").error
    assert (clean.folder / "a.txt").read_text() == "new"
    assert "Restored: a.txt" in clean.run(f"%agent undo {run_id}").printed
