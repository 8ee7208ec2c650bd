"""A folder of run logs."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from scripted_runs import play

from agentnb import Agent, Run, Store, ToolCall
from agentnb.core.log.events import RoundFinished, Warned
from agentnb.core.log.wire import encode
from agentnb.core.messages import Message
from agentnb.core.usage import Usage
from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import StoreError, TraceError
from agentnb.models import Reply, ScriptedModel
from agentnb.store import store as store_module
from agentnb.store.summaries import summary
from agentnb.tools.tool import ToolContext


def do(store: Any, *replies: Any, prompt: str = "Go", **how: Any) -> Run:
    return play(*(replies or ["Done."]), prompt=prompt, store=store, **how)


def test_run_file_is_named_by_its_timestamped_id(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "runs")
    run = do(store)
    assert [path.name for path in store.folder.iterdir()] == [f"{run.id}.jsonl"]
    assert re.fullmatch(r"\d{8}-\d{6}-\d{3}[0-9a-f]{8}", run.id)
    assert run.started_at is not None and run.id.startswith(run.started_at.strftime("%Y%m%d-%H%M"))


def test_store_creates_its_folder_with_the_first_stored_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    assert (store.ids(), store.summaries(), store.folder.exists()) == ([], [], False)


def test_store_folder_may_start_with_a_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert Store("~/runs").folder == tmp_path / "runs"


def test_log_is_human_readable(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, "Grüße 👀")
    lines = store.path(run.id).read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(run.events) and any('"text":"Grüße 👀"' in line for line in lines)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
def test_only_the_owner_may_read_a_log(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    assert stat.S_IMODE(store.path(run.id).stat().st_mode) == 0o600


def test_agentnb_folder_is_ignored_by_git(tmp_path: Path) -> None:
    do(Store(tmp_path / ".agentnb" / "runs"))
    assert (tmp_path / ".agentnb" / ".gitignore").read_text().splitlines()[-1] == "*"


def test_existing_gitignore_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / ".agentnb").mkdir()
    (tmp_path / ".agentnb" / ".gitignore").write_text("mine\n")
    do(Store(tmp_path / ".agentnb" / "runs"))
    assert (tmp_path / ".agentnb" / ".gitignore").read_text() == "mine\n"


def test_custom_folder_gets_no_gitignore(tmp_path: Path) -> None:
    do(Store(tmp_path / "mine" / "runs"))
    assert not list(tmp_path.rglob(".gitignore"))


def test_run_is_loaded_by_id_prefix_or_suffix(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    for part in (run.id, run.id[:-3], run.id[-5:], f"…{run.id[-8:]}", f"...{run.id[-4:]}", f"{run.id[:15]}…"):
        assert store.find(part) == run.id and store.load(part) == run


def test_id_part_shared_by_several_runs_is_ambiguous(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("a-1", "a-2", "b-2", "a-2-more"):
        store.path(name).write_text("")
    assert store.find("a-2") == "a-2"
    for part, count in (("a", 3), ("2", 2)):
        with pytest.raises(StoreError, match=f"^{count} runs match '{part}'"):
            store.find(part)
    for index in range(11):
        store.path(f"c-{index:02}").write_bytes(store.path(do(store, prompt=f"Task {index}\nof many").id).read_bytes())
    with pytest.raises(StoreError, match=r"\n  c-10  Task 10 of many\n(?s:.*)\n  c-01  Task 1 of many\n  and 1 more$"):
        store.find("c-")


@pytest.mark.parametrize("part", ["", "nothing", "-", "…", "..."])
def test_missing_run_is_reported_with_the_existing_ones(tmp_path: Path, part: str) -> None:
    store = Store(tmp_path)
    run = do(store)
    with pytest.raises(StoreError, match=f"There is no run '{part}' in .* {run.id}"):
        store.load(part)


def test_error_for_an_empty_store_suggests_the_list(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no run 'x' in ") as caught:
        Store(tmp_path / "none").load("x")
    assert error_in_notebook(caught.value).endswith("%agent history lists the runs")


BAD_IDS = ["../x", "..", ".", "", "a/b", "a\\b", "/etc/passwd", "a b", "a\n", "x" * 101, "ä", "a.b", "*", "\x00"]


def test_path_outside_the_folder_is_not_an_id(subtests: pytest.Subtests, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    do(store)
    (tmp_path / "x.jsonl").write_text("secret")
    before = sorted(tmp_path.rglob("*"))
    for bad in BAD_IDS:
        with subtests.test(bad=bad):
            with pytest.raises(StoreError, match="is not a run id"):
                store.path(bad)
            with pytest.raises(StoreError):
                store.load(bad)
            with pytest.raises(StoreError):
                asyncio.run(store.open(bad))
            assert sorted(tmp_path.rglob("*")) == before


def test_invalid_id_is_named_when_a_run_is_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"'\.\./x' is not a run id"):
        asyncio.run(Store(tmp_path).open("../x"))


def test_second_run_with_an_existing_id_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    before = store.path(run.id).read_bytes()
    with pytest.raises(StoreError, match="cannot be created in"):
        asyncio.run(store.open(run.id))
    assert store.path(run.id).read_bytes() == before


def test_uncreatable_folder_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be created in .*Choose a writable folder"):
        do(Store(tmp_path / "file" / "runs"))


def test_summaries_are_newest_first_with_their_status(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = [do(store, f"Answer {n}.", prompt=f"Question {n}") for n in range(3)]
    runs.append(do(store, [ToolCall("gone")], prompt="Long", max_rounds=1))
    runs.sort(key=lambda run: run.id)
    summaries = store.summaries()
    assert [one.id for one in summaries] == [run.id for run in runs[::-1]]
    for one, run in zip(summaries, runs[::-1], strict=True):
        assert (one.status, one.stop_reason, one.rounds) == (run.status, run.stop_reason, len(run.rounds))
        assert (one.prompt, one.model, one.started_at, one.seconds) == (run.prompt, run.model, run.started_at, run.seconds)
    assert [summary.id for summary in store.summaries(2)] == [one.id for one in summaries[:2]] and store.summaries(0) == []


def replied(cost: float | None, tokens: int | None = 3) -> Reply:
    return Reply(Message("assistant", (ToolCall("gone"),)), Usage(tokens, tokens, cost=cost), "tool_use", {})


def test_summary_tokens_and_cost_equal_those_of_the_run(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases = [
        ([(0.1, 3), (0.2, 4)], 14, 0.1 + 0.2),
        ([(0.1, 3), (None, 4)], 14, None),
        ([(None, None)], None, None),
        ([(0.0, None), (0.0, 4)], 8, 0.0),
    ]
    for number, (usages, tokens, cost) in enumerate(cases):
        with subtests.test(usages=usages):
            store = Store(tmp_path / str(number))
            run = do(store, *[replied(*usage) for usage in usages], max_rounds=len(usages))
            (one,) = store.summaries()
            assert (one.tokens, one.cost) == (tokens, cost) == (tokens, run.cost)


def test_summary_of_a_run_without_model_calls_costs_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    cut_log(store.path(run.id), 2)
    (one,) = store.summaries()
    assert (one.tokens, one.cost) == (0, 0.0) and store.load(run.id).cost == 0.0


def test_reply_truncated_within_its_line_is_not_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, replied(0.1), replied(0.2), max_rounds=2)
    lines = store.path(run.id).read_bytes().splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if line.startswith(b'{"kind":"model_replied"'))
    store.path(run.id).write_bytes(b"".join(lines[:last]) + lines[last][:-9])
    (one,) = store.summaries()
    assert (one.tokens, one.cost) == (6, 0.1) == (6, store.load(run.id).cost)


def test_unreadable_reply_makes_the_cost_unknown(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, replied(0.1), replied(0.2), max_rounds=2)
    data = store.path(run.id).read_bytes()
    store.path(run.id).write_bytes(data.replace(b'"cost":0.1', b'"cost":0.1x', 1))
    (one,) = store.summaries()
    assert (one.tokens, one.cost, one.status) == (6, None, "limited")


def test_run_of_a_dead_process_is_shown_as_interrupted(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for events in [1, 2, 3, 4]:
        with subtests.test(events=events):
            store = Store(tmp_path / str(events))
            run = do(store)
            assert len(run.events) == 5
            cut_log(store.path(run.id), events)
            (one,) = store.summaries()
            assert (one.status, one.stop_reason, one.seconds) == ("interrupted", "interrupted", None)
            assert one.rounds == int(events > 1)
            loaded = store.load(run.id)
            assert (loaded.status, loaded.stop_reason, loaded.events) == ("interrupted", "interrupted", run.events[:events])


def test_log_truncated_within_an_event_loads_without_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    path = store.path(run.id)
    path.write_bytes(path.read_bytes()[:-20])
    assert store.summaries()[0].status == store.load(run.id).status == "interrupted"
    assert store.load(run.id).events == run.events[:-1]


def test_text_resembling_events_does_not_affect_the_summary(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, '\n{"kind":"round_started"\n{"kind":"run_finished"}\n')
    (one,) = store.summaries()
    assert (one.rounds, one.status) == (1, "completed") and store.load(run.id) == run


def test_foreign_files_are_omitted_from_the_list(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    for name, data in {
        "zz.jsonl": b"",
        "zy.jsonl": b"hello\n",
        "zx.jsonl": b"\x00\xff\n",
        "zw.jsonl": b'{"a":1}\n',
        "zv.jsonl": store.path(run.id).read_bytes().splitlines(keepends=True)[1],
        "not an id!.jsonl": b"hello",
        "notes.txt": b"hello",
    }.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "zu.jsonl").mkdir()
    assert [summary.id for summary in store.summaries()] == [run.id] == [summary.id for summary in store.summaries(1)]
    assert store.load(run.id) == run


def test_foreign_file_opened_by_id_is_an_error_naming_it(tmp_path: Path) -> None:
    (tmp_path / "zz.jsonl").write_bytes(b"hello\n")
    with pytest.raises(TraceError, match=r"zz\.jsonl is not an agentnb run log"):
        Store(tmp_path).load("zz")


def test_rounds_can_be_synced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr("agentnb.store.run_file._sync", forced.append)
    run = do(Store(tmp_path, fsync="round"))
    assert len(forced) == sum(isinstance(event, RoundFinished) for event in run.events) + 1


# Many concurrent runs

MANY = """
import asyncio, resource, sys
from agentnb import Agent, Store, ToolCall
from agentnb.models import ScriptedModel

resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
store = Store(sys.argv[1])

async def nap() -> str:
    "Lets the others run."
    await asyncio.sleep(0)
    return "rested"

async def main():
    agents = [Agent(ScriptedModel([ToolCall("nap"), "Done."]), tools=[nap]) for _ in range(300)]
    return await asyncio.gather(*(agent.run("Go", store=store) for agent in agents))

runs = asyncio.run(main())
assert {run.status for run in runs} == {"completed"}
assert all(store.load(run.id) == run for run in runs)
print(len(store.ids()), {one.status for one in store.summaries()})
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of open files to lower")
def test_three_hundred_concurrent_runs_open_at_most_two_hundred_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY, str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "300 {'completed'}\n", done.stderr


async def opens(store: Store, run_id: str, **how: Any) -> bool:
    """Return True if the log can be opened now, without waiting for another to be closed."""
    task = asyncio.ensure_future(store.open(run_id, **how))
    for _ in range(5):
        await asyncio.sleep(0)
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
        return False
    task.result().close()
    return True


def test_open_logs_are_limited_and_closing_frees_slots(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path)
        files = [await store.open(f"r{n}") for n in range(store_module.MAX_OPEN)]
        assert not await opens(store, "waiting")
        files[0].close()
        assert await opens(store, "now")
        for file in files:
            file.close()
        assert await opens(store, "later")

    asyncio.run(main())


def test_nested_run_does_not_wait_for_a_free_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_OPEN", 2)
    store = Store(tmp_path)
    both_hold_a_place = asyncio.Barrier(2)

    async def delegate(context: ToolContext) -> str:
        """Starts a run of its own."""
        await both_hold_a_place.wait()
        inner = await Agent(ScriptedModel(["Inner."])).run("Do", store=store, parent_id=context.run_id)
        return inner.text

    async def main() -> list[Run]:
        agents = [Agent(ScriptedModel([ToolCall("delegate"), "Outer."]), tools=[delegate]) for _ in range(6)]
        async with asyncio.timeout(20):
            return await asyncio.gather(*(agent.run("Go", store=store) for agent in agents))

    runs = asyncio.run(main())
    assert [run.rounds[0].results[0].text for run in runs] == ["Inner."] * 6
    assert len(store.ids()) == 12
    parents = [store.load(run_id).parent_id for run_id in store.ids()]
    assert sorted(parent for parent in parents if parent) == sorted(run.id for run in runs)


def test_slot_is_released_when_the_log_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_OPEN", 1)

    async def main() -> None:
        store = Store(tmp_path)
        for _ in range(3):
            with pytest.raises(StoreError):
                async with asyncio.timeout(20):
                    await store.open("not an id")
        assert await opens(store, "good")

    asyncio.run(main())


def test_store_serves_several_event_loops(tmp_path: Path) -> None:
    store = Store(tmp_path)
    agents = [Agent(ScriptedModel(["Done."])) for _ in range(4)]
    lives = [agent.start("Go", store=store) for agent in agents]
    runs = [live.result(60) for live in lives] + [do(store)]
    assert sorted(store.ids()) == sorted(run.id for run in runs)
    assert all(store.load(run.id) == run for run in runs)


def test_summary_reads_one_log_line_at_a_time() -> None:
    run = Agent(ScriptedModel(["Done."])).run_sync("go")
    first, *_, last = [encode(event) for event in run.events]
    long = encode(Warned(seq=1, at=None, run_id=run.id, message="x" * 100_000))

    def lines() -> Iterator[bytes]:
        yield first
        for _ in range(500):
            yield bytes(bytearray(long))  # a different one each time
        yield last

    tracemalloc.start()
    try:
        found = summary(lines(), "interrupted")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.status == "completed" and most < 2_000_000
