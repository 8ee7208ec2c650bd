"""``%agent delete``, and the costs in ``%agent status``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_kernel import TOOLS, Kernel

SETUP = '''
import asyncio, json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from agentnb import Agent, Store, ToolCall
from agentnb.models import ScriptedModel

async def rest() -> str:
    """Wait."""
    await asyncio.Event().wait()

async def fan_out(context) -> str:
    """Start a run."""
    return (await context.start_run(Agent(ScriptedModel(["Inner."]), todos=False), "Inner task.")).text
'''
PRICED = """
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.models import Reply

def priced(cost):
    used = Usage(input=10, output=5, cost=cost)
    return ScriptedModel([Reply(Message("assistant", (Text("Done."),)), usage=used, stop_reason="end_turn")])
"""


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in an empty folder."""
    kernel = Kernel(tmp_path)
    assert kernel.run(TOOLS + SETUP).status == "ok"
    yield kernel
    kernel.close()


def ids(kernel: Kernel) -> set[str]:
    return {path.stem for path in (kernel.folder / ".agentnb" / "runs").glob("*.jsonl")}


def made_old(kernel: Kernel, run_id: str, days: int) -> None:
    """Move the start of the run back by this many days."""
    path = kernel.folder / ".agentnb" / "runs" / f"{run_id}.jsonl"
    first, rest = path.read_text().split("\n", 1)
    then = kernel.value(f"(datetime.now(UTC) - timedelta(days={days})).isoformat()")
    path.write_text(re.sub(r'"at":"[^"]*"', f'"at":"{then}"', first, count=1) + "\n" + rest)


def test_delete_command_shows_the_freed_space_and_asks(clean: Kernel) -> None:
    clean.run("%%agent -o kept\nThis stays.")
    clean.run("%%agent -o gone\nThis goes.")
    kept, gone = clean.value("kept.id"), clean.value("gone.id")
    size = (clean.folder / ".agentnb" / "runs" / f"{gone}.jsonl").stat().st_size
    for reply, expected in (("", "Nothing was deleted"), ("y", f"1 run deleted, {size / 1000:.1f} kB freed")):
        cell = clean.run(f"%agent delete {gone[-8:]}", attended=True, reply=reply)
        lines = cell.printed.splitlines()
        assert lines[0] == f"1 run in .agentnb/runs, {size / 1000:.1f} kB"
        assert lines[1].startswith(gone) and "This goes." in lines[1] and lines[2:] == [expected]
        assert cell.asked == f"Delete 1 run? This frees {size / 1000:.1f} kB and cannot be undone. [y/N] "
        assert ids(clean) == ({kept, gone} if not reply else {kept})
    assert gone not in clean.run("%agent history").listing["text/plain"]


def test_old_and_failed_runs_are_deleted_with_nested_runs(clean: Kernel) -> None:
    clean.run("broken = ScriptedModel([RuntimeError('boom')])")
    found = {}
    for name, line in {"fine": "", "failed": "-m broken", "old": "", "old_failed": "-m broken"}.items():
        clean.run(f"%%agent -o {name} {line}\nTask.")
        found[name] = clean.value(f"{name}.id")
    for name in ("old", "old_failed"):
        made_old(clean, found[name], 31)
    clean.run("outer = ScriptedModel([ToolCall('fan_out'), 'Done.'])")
    for options, gone in {
        "--older-than 30d --failed": {"old_failed"},
        "--older-than=4w": {"old"},
        "--failed": {"failed"},
    }.items():
        before = ids(clean)
        assert "1 run deleted" in clean.run(f"%agent delete {options}", attended=True, reply="yes").printed
        assert before - ids(clean) == {found[name] for name in gone}
    assert clean.run("%agent delete --failed").printed == "No runs were deleted\n"


def test_nested_runs_are_deleted_only_with_their_parent(clean: Kernel) -> None:
    clean.run("%%workflow -o outer\nagents: {a: {instruction: Work.}}\nworkflow: [{id: one, type: agent, name: a}]")
    outer = clean.value("outer.id")
    (inner,) = ids(clean) - {outer}
    refused = clean.run(f"%agent delete {inner}").error
    assert refused.endswith(
        f"Run {inner} belongs to run {outer}, which started it. Delete the parent run: %agent delete {outer}"
    )
    cell = clean.run(f"%agent delete {outer}", attended=True, reply="y")
    assert cell.asked.startswith("Delete 1 run with 1 nested run? ") and ids(clean) == set()


def test_live_runs_are_kept_and_suspended_ones_go_by_id(clean: Kernel) -> None:
    clean.run("asks = ScriptedModel([ToolCall('add', {'a': 1}), 'Done.'])")
    clean.run("%%agent -m asks -t add --approve ask -o suspended\nGo.")
    clean.run("%%agent -t rest -o live --background\n- rest `rest()`")
    clean.run("while not live.id: pass")
    assert clean.value("suspended.status") == "waiting_on_user"
    live, suspended = clean.value("live.id"), clean.value("suspended.id")
    assert f"To discard a waiting run: %agent delete {suspended}" in clean.run("%agent status").printed
    for options, kept in {"--older-than 0h": {suspended, live}, f"{suspended} {live}": {live}}.items():
        clean.run("%%agent -o fine\nTask.")
        named = options if options.startswith("--") else f"{options} {clean.value('fine.id')}"
        cell = clean.run(f"%agent delete {named}", attended=True, reply="y")
        assert ids(clean) == kept
        reasons = cell.printed.split("Kept because they are live or waiting for you: ")[1]
        assert all(one in reasons for one in kept)
    clean.run("%agent stop --all")


def test_invalid_deletion_is_refused(clean: Kernel, subtests: pytest.Subtests) -> None:
    clean.run("%%agent\nTask.")
    run_id = clean.value("run.id")
    for words, expected in {
        "": "Which runs? Write: %agent delete ID ..., --older-than 30d, or --failed",
        f"{run_id} --failed": "Give either IDs or --older-than and --failed. Write: %agent delete ID ...",
        "--older-than 30": "--older-than needs an age, got 30. Write hours, days or weeks: --older-than 30d",
        "--older-than": "--older-than needs an age, got nothing",
        "--fail": "has no option --fail. Did you mean --failed?",
        "nothing": "There is no run 'nothing'",
        run_id: "Nothing was deleted: nobody can confirm it in this frontend. "
        f"To delete without a question: %agent delete {run_id} --yes",
    }.items():
        with subtests.test(words):
            assert expected in clean.run(f"%agent delete {words}").error and run_id in ids(clean)
    assert "1 run deleted" in clean.run(f"%agent delete {run_id} --yes").printed and run_id not in ids(clean)


def test_status_shows_costs_of_today_the_notebook_and_the_folder(clean: Kernel) -> None:
    assert clean.run(PRICED).status == "ok"
    assert "Cost" not in clean.run("%agent status").printed
    for notebook, cost, days in (("a.ipynb", 0.5, 0), ("b.ipynb", 0.25, 0), ("a.ipynb", 1.0, 3)):
        clean.run(f"__session__ = str(Path({notebook!r}).absolute())\n%reload_ext agentnb\nmodel = priced({cost})")
        done = clean.run("%%agent -m model\nTask.")
        assert done.status == "ok", done.error
        if days:
            made_old(clean, clean.value("run.id"), days)
    assert "Cost: $0.7500 today, $1.5000 in a.ipynb, $1.7500 in .agentnb/runs\n" in clean.run("%agent status").printed
