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


def test_a_run_is_a_file_named_by_its_id_which_begins_with_the_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "runs")
    run = do(store)
    assert [path.name for path in store.folder.iterdir()] == [f"{run.id}.jsonl"]
    assert re.fullmatch(r"\d{8}-\d{6}-\d{3}[0-9a-f]{8}", run.id)
    assert run.started_at is not None and run.id.startswith(run.started_at.strftime("%Y%m%d-%H%M"))


def test_a_store_makes_its_folder_only_when_a_run_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    assert (store.ids(), store.summaries(), store.folder.exists()) == ([], [], False)


def test_a_store_may_be_in_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert Store("~/runs").folder == tmp_path / "runs"


def test_a_log_can_be_read_by_a_person(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, "Grüße 👀")
    lines = store.path(run.id).read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(run.events) and any('"text":"Grüße 👀"' in line for line in lines)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
def test_only_the_owner_may_read_a_log(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    assert stat.S_IMODE(store.path(run.id).stat().st_mode) == 0o600


def test_the_folder_of_agentnb_keeps_itself_out_of_the_repository(tmp_path: Path) -> None:
    do(Store(tmp_path / ".agentnb" / "runs"))
    assert (tmp_path / ".agentnb" / ".gitignore").read_text().splitlines()[-1] == "*"


def test_a_gitignore_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".agentnb").mkdir()
    (tmp_path / ".agentnb" / ".gitignore").write_text("mine\n")
    do(Store(tmp_path / ".agentnb" / "runs"))
    assert (tmp_path / ".agentnb" / ".gitignore").read_text() == "mine\n"


def test_another_folder_gets_no_gitignore(tmp_path: Path) -> None:
    do(Store(tmp_path / "mine" / "runs"))
    assert not list(tmp_path.rglob(".gitignore"))


def test_a_run_is_loaded_by_its_id_or_its_beginning_or_its_end(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    for part in (run.id, run.id[:-3], run.id[-5:], f"…{run.id[-8:]}", f"...{run.id[-4:]}", f"{run.id[:15]}…"):
        assert store.find(part) == run.id and store.load(part) == run


def test_part_of_an_id_that_two_runs_have_is_ambiguous(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("a-1", "a-2", "b-2", "a-2-more"):
        store.path(name).write_text("")
    assert store.find("a-2") == "a-2"
    for part, count in (("a", 3), ("2", 2)):
        with pytest.raises(StoreError, match=f"^{count} runs match '{part}'"):
            store.find(part)


@pytest.mark.parametrize("part", ["", "nothing", "-", "…", "..."])
def test_a_run_there_is_not_is_said_with_what_there_is(tmp_path: Path, part: str) -> None:
    store = Store(tmp_path)
    run = do(store)
    with pytest.raises(StoreError, match=f"There is no run '{part}' in .* {run.id}"):
        store.load(part)


def test_an_empty_store_points_to_the_list(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no run 'x' in ") as caught:
        Store(tmp_path / "none").load("x")
    assert error_in_notebook(caught.value).endswith("%agent history lists the runs")


BAD_IDS = ["../x", "..", ".", "", "a/b", "a\\b", "/etc/passwd", "a b", "a\n", "x" * 101, "ä", "a.b", "*", "\x00"]


def test_what_leads_out_of_the_folder_is_no_id(subtests: pytest.Subtests, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    do(store)
    (tmp_path / "x.jsonl").write_text("secret")
    before = sorted(tmp_path.rglob("*"))
    for bad in BAD_IDS:
        with subtests.test(bad=bad):
            with pytest.raises(StoreError, match="is not the id of a run"):
                store.path(bad)
            with pytest.raises(StoreError):
                store.load(bad)
            with pytest.raises(StoreError):
                asyncio.run(store.open(bad))
            assert sorted(tmp_path.rglob("*")) == before


def test_an_id_that_cannot_be_is_called_so_when_a_run_is_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"'\.\./x' is not the id of a run"):
        asyncio.run(Store(tmp_path).open("../x"))


def test_a_second_run_of_the_same_id_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    before = store.path(run.id).read_bytes()
    with pytest.raises(StoreError, match="cannot be created in"):
        asyncio.run(store.open(run.id))
    assert store.path(run.id).read_bytes() == before


def test_a_folder_that_cannot_be_made_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be created in .*Choose a folder you may write to"):
        do(Store(tmp_path / "file" / "runs"))


def test_summaries_stand_newest_first_and_say_how_runs_ended(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = [do(store, f"Answer {n}.", prompt=f"Question {n}") for n in range(3)]
    runs.append(do(store, [ToolCall("gone")], prompt="Long", max_rounds=1))
    runs.sort(key=lambda run: run.id)
    found = store.summaries()
    assert [one.id for one in found] == [run.id for run in runs[::-1]]
    for one, run in zip(found, runs[::-1], strict=True):
        assert (one.status, one.stop_reason, one.rounds) == (run.status, run.stop_reason, len(run.rounds))
        assert (one.prompt, one.model, one.started_at, one.seconds) == (run.prompt, run.model, run.started_at, run.seconds)
    assert [one.id for one in store.summaries(2)] == [one.id for one in found[:2]] and store.summaries(0) == []


def replied(cost: float | None, tokens: int | None = 3) -> Reply:
    return Reply(Message("assistant", (ToolCall("gone"),)), Usage(tokens, tokens, cost=cost), "tool_use", {})


def test_a_summary_adds_up_tokens_and_cost_as_the_run_does(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases = [
        ([(0.1, 3), (0.2, 4)], 14, 0.1 + 0.2),
        ([(0.1, 3), (None, 4)], 14, None),
        ([(None, None)], None, None),
        ([(0.0, None), (0.0, 4)], 8, 0.0),
    ]
    for number, (usages, tokens, cost) in enumerate(cases):
        with subtests.test(usages=usages):
            store = Store(tmp_path / str(number))
            run = do(store, *[replied(*one) for one in usages], max_rounds=len(usages))
            (one,) = store.summaries()
            assert (one.tokens, one.cost) == (tokens, cost) == (tokens, run.cost)


def test_of_a_run_that_called_no_model_the_summary_says_it_cost_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    cut_log(store.path(run.id), 2)
    (one,) = store.summaries()
    assert (one.tokens, one.cost) == (0, 0.0) and store.load(run.id).cost == 0.0


def test_a_reply_that_was_cut_off_within_its_line_is_not_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, replied(0.1), replied(0.2), max_rounds=2)
    lines = store.path(run.id).read_bytes().splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if line.startswith(b'{"kind":"model_replied"'))
    store.path(run.id).write_bytes(b"".join(lines[:last]) + lines[last][:-9])
    (one,) = store.summaries()
    assert (one.tokens, one.cost) == (6, 0.1) == (6, store.load(run.id).cost)


def test_a_reply_that_cannot_be_read_makes_the_cost_unknown(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, replied(0.1), replied(0.2), max_rounds=2)
    data = store.path(run.id).read_bytes()
    store.path(run.id).write_bytes(data.replace(b'"cost":0.1', b'"cost":0.1x', 1))
    (one,) = store.summaries()
    assert (one.tokens, one.cost, one.status) == (6, None, "limited")


def test_a_run_whose_process_died_is_shown_as_interrupted(subtests: pytest.Subtests, tmp_path: Path) -> None:
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


def test_a_run_cut_within_an_event_is_summarised_and_loaded_without_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store)
    path = store.path(run.id)
    path.write_bytes(path.read_bytes()[:-20])
    assert store.summaries()[0].status == store.load(run.id).status == "interrupted"
    assert store.load(run.id).events == run.events[:-1]


def test_words_that_look_like_events_do_not_deceive_the_summary(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = do(store, '\n{"kind":"round_started"\n{"kind":"run_finished"}\n')
    (one,) = store.summaries()
    assert (one.rounds, one.status) == (1, "completed") and store.load(run.id) == run


def test_files_that_are_no_run_logs_are_left_out_of_the_list(tmp_path: Path) -> None:
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
    assert [one.id for one in store.summaries()] == [run.id] == [one.id for one in store.summaries(1)]
    assert store.load(run.id) == run


def test_a_foreign_file_named_by_its_id_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "zz.jsonl").write_bytes(b"hello\n")
    with pytest.raises(TraceError, match=r"zz\.jsonl is not a run log of agentnb"):
        Store(tmp_path).load("zz")


def test_rounds_can_be_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr("agentnb.store.run_file._sync", forced.append)
    run = do(Store(tmp_path, fsync="round"))
    assert len(forced) == sum(isinstance(event, RoundFinished) for event in run.events) + 1


# Many runs at once

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
    agents = [Agent(ScriptedModel([ToolCall("nap"), ToolCall("nap"), "Done."]), tools=[nap]) for _ in range(300)]
    return await asyncio.gather(*(agent.run("Go", store=store) for agent in agents))

runs = asyncio.run(main())
assert {run.status for run in runs} == {"completed"}
assert all(store.load(run.id) == run for run in runs)
print(len(store.ids()), {one.status for one in store.summaries()})
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of open files to lower")
def test_three_hundred_runs_at_once_get_by_with_two_hundred_open_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY, str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "300 {'completed'}\n", done.stderr


async def opens(store: Store, run_id: str, **how: Any) -> bool:
    """Whether the log can be opened now, without waiting for another to be closed."""
    task = asyncio.ensure_future(store.open(run_id, **how))
    for _ in range(5):
        await asyncio.sleep(0)
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
        return False
    task.result().close()
    return True


def test_at_most_so_many_logs_are_open_at_once_and_a_closed_one_makes_room(tmp_path: Path) -> None:
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


def test_a_run_inside_a_run_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_place_is_given_back_when_the_log_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_OPEN", 1)

    async def main() -> None:
        store = Store(tmp_path)
        for _ in range(3):
            with pytest.raises(StoreError):
                async with asyncio.timeout(20):
                    await store.open("not an id")
        assert await opens(store, "good")

    asyncio.run(main())


def test_one_store_serves_several_event_loops(tmp_path: Path) -> None:
    store = Store(tmp_path)
    agents = [Agent(ScriptedModel(["Done."])) for _ in range(4)]
    lives = [agent.start("Go", store=store) for agent in agents]
    runs = [live.result(60) for live in lives] + [do(store)]
    assert sorted(store.ids()) == sorted(run.id for run in runs)
    assert all(store.load(run.id) == run for run in runs)


def test_a_summary_holds_one_line_of_a_log_at_a_time() -> None:
    run = Agent(ScriptedModel(["Done."])).run_sync("go")
    first, *_, last = [encode(event) for event in run.events]
    long = encode(Warned(seq=1, at=None, run_id=run.id, message="x" * 100_000))

    def lines() -> Iterator[bytes]:
        yield first
        for _ in range(500):
            yield bytes(bytearray(long))  # another one each time
        yield last

    tracemalloc.start()
    try:
        found = summary(lines(), "interrupted")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.status == "completed" and most < 2_000_000
