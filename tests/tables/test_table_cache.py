"""Cached tables equal those of the logs, whatever happens to either."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from generated_runs import BY_HAND, Plan, plans, really_run
from hypothesis import given
from hypothesis import strategies as st
from property_settings import AT_NIGHT, examples, size
from pyarrow import parquet
from run_builder import RunBuilder, a_round, answered, called

from agentnb import Agent, Run, Store, load_traces, save_trace, settings, tables
from agentnb.core.log import events as e
from agentnb.core.log.logged_messages import LoggedMessages
from agentnb.core.log.well_formed import check_events
from agentnb.core.messages import Message, Text, ToolResult
from agentnb.core.run.fold import fold_events
from agentnb.errors import NotAvailable
from agentnb.models import ScriptedModel
from agentnb.store import regular_files
from agentnb.store.folder_cache import HOME
from agentnb.store.run_file import lock
from agentnb.tables import cache_parts as parts
from agentnb.tables import cache_shares, folders


def log_of(folder: Path, name: str, rounds: int = 2, *, ended: bool = False) -> Path:
    """Write a log with a tool call in each round."""
    story = RunBuilder(f"about {name}", run_id=name)
    for index in range(rounds):
        story.extend(*a_round(index, called("look", f"c{index}", place=name)))
    if ended:
        story.add(e.RunFinished, status="completed", stop_reason="natural")
    path = save_trace(Run.from_events(story.events), folder / f"{name}.jsonl")
    return Path(path)


def chat_of(folder: Path, name: str, *texts: str) -> Path:
    """Write a foreign trace with a run per text."""
    records = [{"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]} for text in texts]
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def check(source: str | Path | Store, *names: str) -> None:
    """Check that cached tables equal those of the logs, when made and when read."""
    for name in names or tables.NAMES:
        make = getattr(tables, name)
        expected = make(source, cache=False)
        for _ in range(2):
            pd.testing.assert_frame_equal(make(source, cache=True), expected, obj=name)


def written(folder: Path) -> dict[str, int]:
    """Return the parts of all caches with their modification times."""
    return {str(path): path.stat().st_mtime_ns for path in (folder / HOME).rglob("*.parquet")}


def index_of(folder: Path, name: str = "messages") -> Path:
    (found,) = (folder / HOME).glob(f"{name}-*/index.json")
    return found


@examples(100)
@given(plans, st.sets(st.sampled_from(tables.NAMES), min_size=1, max_size=2))
def test_cached_tables_equal_those_read_from_logs(plan: Plan, names: set[str]) -> None:
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        really_run(plan, store)
        check(store, *sorted(names))


@pytest.mark.slow("every table of each plan, three times")
def test_cached_tables_cover_every_kind_of_event(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for plan in BY_HAND.values():
        really_run(plan, store)
    check(store)
    check(store.folder, *(tables.NAMES if AT_NIGHT else ("runs", "messages")))


def test_tables_without_judgement_need_only_the_logged_facts(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path / "runs")
    for plan in BY_HAND.values():
        really_run(plan, store)
    for name in tables.NAMES:
        with subtests.test(name):
            make = getattr(tables, name)
            pd.testing.assert_frame_equal(make(store), make([*load_traces(store)]))


@examples(100)
@given(plans)
def test_logged_conversation_matches_that_of_the_replayed_run(plan: Plan) -> None:
    with TemporaryDirectory() as folder:
        for run in really_run(plan, Store(Path(folder) / "runs")):
            for length in range(1, len(run.events) + 1):
                whole, alone = fold_events(run.events[:length]), LoggedMessages(run.events[:length])
                assert (alone.messages, alone.pending) == (whole.messages, whole.pending)
                assert (alone.id, alone.inherited, alone.parent_id) == (whole.id, whole.inherited, whole.parent_id)
                assert alone.should_continue == whole.should_continue
                whole.mark_interrupted()
                alone.mark_interrupted()
                assert (alone.messages, alone.pending) == (whole.messages, whole.pending)


def test_folder_of_mixed_files_is_cached_with_order_and_problems(tmp_path: Path) -> None:
    log_of(tmp_path, "m-1")
    chat_of(tmp_path, "a.jsonl", "one", "two")
    (tmp_path / "within").mkdir()
    log_of(tmp_path / "within", "z-1", rounds=0)
    (tmp_path / "no_trace.json").write_text("{}")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.write(log_of(tmp_path, "b-1"), "b.jsonl")
        archive.writestr("broken.json", "{")
    with warnings.catch_warnings(record=True) as plain:
        warnings.simplefilter("always")
        expected = tables.messages(tmp_path, cache=False)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as kept:
            warnings.simplefilter("always")
            pd.testing.assert_frame_equal(tables.messages(tmp_path, cache=True), expected)
        assert [str(one.message) for one in kept] == [str(one.message) for one in plain] != []


def test_only_new_and_changed_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_ROWS", 8)  # a few logs per part
    monkeypatch.setattr(parts, "SMALL_ROWS", 4)
    names = [f"r-{number:02}" for number in range(12)]
    for name in names:
        log_of(tmp_path, name)
    check(tmp_path, "messages")
    before = written(tmp_path)
    assert len(before) > 2
    check(tmp_path, "messages")
    assert written(tmp_path) == before
    log_of(tmp_path, "r-99")
    check(tmp_path, "messages")
    assert before.keys() < written(tmp_path).keys()
    assert sum(written(tmp_path).get(path) == at for path, at in before.items()) >= len(before) - 1  # a small one is merged


def test_new_logs_are_opened_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    status = regular_files._status
    monkeypatch.setattr(regular_files, "_status", lambda path, *rest: [opened.append(Path(path).stem), status(path, *rest)][1])
    for source in (tmp_path / "folder", Store(tmp_path / "store")):
        folder = source.folder if isinstance(source, Store) else source
        folder.mkdir()
        for new in (["r-1", "r-2", "r-3"], [], ["r-4", "r-5"], []):
            for name in new:
                log_of(folder, name, ended=True)
            opened.clear()
            tables.runs(source, cache=True)
            assert [name for name in opened if name.startswith("r-")] == new, source


def test_small_log_that_is_no_run_is_skipped_by_name(tmp_path: Path) -> None:
    for name in ("r-1", "r-2", "r-3"):
        path = log_of(tmp_path, name, ended=True)
        if name == "r-2":
            path.write_bytes(path.read_bytes().replace(b'"index":1,"reason"', b'"index":0,"reason"'))
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"r-2.*round 0 begins, but round 1 was expected"):
            assert [*tables.runs(tmp_path, cache=True)["run_id"]] == ["r-1", "r-3"]


@pytest.mark.slow("processes that load pandas")
def test_workers_read_shares_of_large_folders(
    tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_shares, "SHARE_BYTES", 2_000)
    processes = size(2, nightly=3)
    monkeypatch.setattr(os, "process_cpu_count", lambda: processes, raising=False)
    commands = {"whole": sys.executable, "failing": shutil.which("false"), "missing": "/no/python"}
    for case, executable in commands.items():
        with subtests.test(case), monkeypatch.context() as patch:
            patch.setattr(sys, "executable", executable)
            folder = tmp_path / case
            folder.mkdir()
            for number in range(9):
                log_of(folder, f"r-{number}", ended=number != 4)
            chat_of(folder, "r-7b.jsonl", "One", f"My key is sk-{case}-0123456789")
            settings.keep_key("OPENAI_API_KEY", f"sk-{case}-0123456789")  # not in the environment
            (folder / "r-8b.jsonl").write_text("{}")
            with pytest.warns(UserWarning, match="r-8b"):
                check(folder, "runs")
            assert len(written(folder)) == (processes if case == "whole" else 1), "a part per process"
            assert index_of(folder, "runs_with_hidden").exists(), "no part contains the key"


DYING = """
import os, sys
from pathlib import Path
from agentnb import tables
Path.replace = lambda *_: os._exit(7)  # with the new index whole, and the old one in its place
tables.runs(sys.argv[1], cache=True)
"""


@pytest.mark.slow("a process that loads pandas")
def test_process_death_while_writing_keeps_the_previous_cache(tmp_path: Path) -> None:
    log_of(tmp_path, "r-1")
    check(tmp_path, "runs")
    before = index_of(tmp_path, "runs_with_hidden").read_bytes()
    log_of(tmp_path, "r-2")
    died = subprocess.run([sys.executable, "-c", DYING, str(tmp_path)], check=False)
    assert died.returncode == 7
    assert index_of(tmp_path, "runs_with_hidden").read_bytes() == before
    check(tmp_path, "runs")


def test_change_to_a_log_is_noticed(tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_ROWS", 8)
    for number in range(9):
        log_of(tmp_path, f"r-{number}")
    names = "runs", "messages", "patterns"
    check(tmp_path, *names)
    victim = tmp_path / "r-4.jsonl"
    whole = victim.read_bytes()

    def replaced() -> None:  # by one of the same size and time
        at = victim.stat()
        other = tmp_path / "other.tmp"
        other.write_bytes(whole.replace(b"about r-4", b"about you"))
        os.utime(other, ns=(at.st_atime_ns, at.st_mtime_ns))
        other.replace(victim)

    changes = {
        "it is cut off": lambda: victim.write_bytes(whole[: len(whole) // 2]),
        "it is damaged": lambda: victim.write_bytes(b"{" + whole[1:].replace(b'"seq":3', b'"seq":4')),
        "it is whole again": lambda: victim.write_bytes(whole),
        "it is replaced": replaced,
        "it is gone": victim.unlink,
        "one more is there": lambda: log_of(tmp_path, "r-3b"),
        "all but one are gone": lambda: [path.unlink() for path in sorted(tmp_path.glob("*.jsonl"))[1:]],
        "all are gone": lambda: [path.unlink() for path in tmp_path.glob("*.jsonl")],
        "there are some again": lambda: log_of(tmp_path, "r-5"),
    }
    for place, (name, change) in enumerate(changes.items()):
        with subtests.test(name):
            change()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(tmp_path, *(names if AT_NIGHT else [names[place % len(names)]]))


def test_growing_log_is_read_each_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for _ in range(3):
        Agent(ScriptedModel(["Done."])).run_sync("go", store=store)
    seen = []

    async def look() -> str:
        """Looks at the tables of its own run."""
        check(store, "runs", "rounds")
        seen.append([*tables.runs(store, cache=True).status])
        return "seen"

    model = ScriptedModel([called("look"), called("look"), "Done."])
    Agent(model, tools=[look]).run_sync("go", store=store)
    assert seen == [["completed"] * 3 + ["running"]] * 2
    assert [*tables.runs(store, cache=True).status] == ["completed"] * 4
    assert len(written(store.folder)) > 0


@pytest.mark.skipif(sys.platform == "win32", reason="nobody can tell there whether a log is being written")
def test_run_of_a_dead_process_is_not_shown_as_running(tmp_path: Path) -> None:
    log_of(tmp_path, "r-1")
    with log_of(tmp_path, "r-2").open("ab") as file:
        lock(file.fileno())
        assert [*tables.runs(tmp_path, cache=True).status] == ["interrupted", "running"]
    assert [*tables.runs(tmp_path, cache=True).status] == ["interrupted", "interrupted"]


def test_nested_call_reusing_an_id_adds_no_model_result() -> None:
    first, second = called("look", "a"), called("ask", "b")
    inner = ToolResult("a", "look", (Text("the inner one"),))
    story = RunBuilder("go").extend(
        (e.RoundStarted, {"index": 0, "reason": "prompt"}),
        (e.ModelReplied, {"message": Message("assistant", (first, second))}),
        *answered(first, "the outer one"),
        (e.ToolStarted, {"call": second}),
        (e.ToolStarted, {"call": first, "parent_call": "b"}),
        (e.ToolFinished, {"result": inner, "parent_call": "b", "seconds": 0.0}),
        (e.ToolFinished, {"result": ToolResult("b", "ask", (Text("done"),)), "seconds": 0.0}),
        (e.RoundFinished, {"index": 0, "status": "success", "seconds": 0.0}),
    )
    check_events(story.events, "r-1")
    assert LoggedMessages(story.events).messages == fold_events(story.events).messages


def test_broken_cache_is_rebuilt(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number in range(4):
        log_of(tmp_path, f"r-{number}")
    check(tmp_path, "messages")
    index = index_of(tmp_path)
    whole = index.read_bytes()

    def part() -> Path:
        return next(index.parent / part[0] for part in json.loads(index.read_bytes())["parts"])

    def changed(field: str, value: object) -> bytes:
        return json.dumps({**json.loads(whole), field: value}).encode()

    def flipped(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 0xFF
        path.write_bytes(data)

    damages = {
        "an index that is no JSON": lambda: index.write_bytes(whole[:-9]),
        "an index of something else": lambda: index.write_bytes(b'{"parts": 7}'),
        "an empty index": lambda: index.write_bytes(b""),
        "no index": index.unlink,
        "an index of another version": lambda: index.write_bytes(changed("made_by", "0")),
        "an index of another folder": lambda: index.write_bytes(changed("made_of", "/elsewhere 7")),
        "a part outside the cache": lambda: index.write_bytes(whole.replace(part().name.encode(), b"../../r-1.jsonl")),
        "a part that is gone": lambda: part().unlink(),
        "a part that is cut off": lambda: part().write_bytes(part().read_bytes()[:-20]),
        "a part with a changed byte": lambda: flipped(part()),
        "a part that is no Parquet": lambda: part().write_bytes(b"x" * part().stat().st_size),
        "a part with other columns": lambda: pd.DataFrame({"x": [1]}).to_parquet(part()),
    }
    for name, damage in damages.items():
        with subtests.test(name):
            damage()
            check(tmp_path, "messages")
            damage_to_merge = part()
            flipped(damage_to_merge)
            log_of(tmp_path, f"s-{len(name)}")  # the renewal copies the damaged part
            check(tmp_path, "messages")
            whole = index.read_bytes()


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    folder.chmod(0o500)
    yield
    folder.chmod(0o700)


def test_unwritable_folder_is_read_without_a_cache(tmp_path: Path) -> None:
    log_of(tmp_path, "r-1")
    (tmp_path / HOME).write_text("a file of somebody else")
    check(tmp_path, "messages", "runs")
    assert (tmp_path / HOME).read_text() == "a file of somebody else"
    (tmp_path / HOME).unlink()
    with unwritable(tmp_path):
        check(tmp_path, "messages", "runs")
    check(tmp_path, "messages")
    with unwritable(tmp_path / HOME), unwritable(index_of(tmp_path).parent):
        log_of(tmp_path, "r-2")
        check(tmp_path, "messages", "runs")


def test_cache_is_private_and_outside_the_folder(tmp_path: Path) -> None:
    log_of(tmp_path, "r-1")
    check(tmp_path, "runs", "messages", "rounds")
    check(tmp_path, "runs", "messages", "rounds")
    assert (tmp_path / HOME).stat().st_mode & 0o077 == 0
    assert (tmp_path / HOME / ".gitignore").read_text().endswith("\n*\n")
    assert len(load_traces(tmp_path)) == len(load_traces(Store(tmp_path))) == 1


def test_few_files_are_read_and_many_are_cached_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        log_of(tmp_path, f"r-{number}")
    tables.messages(tmp_path)
    assert not (tmp_path / HOME).exists()
    monkeypatch.setattr(folders, "MANY_FILES", 4)
    tables.messages(tmp_path, cache=False)
    tables.messages([tmp_path], cache=True)  # no folder, but a list
    assert not (tmp_path / HOME).exists()
    tables.messages(tmp_path)
    assert (tmp_path / HOME).exists()
    monkeypatch.setattr(folders, "MANY_FILES", 99)
    monkeypatch.setattr(folders, "MANY_BYTES", 100)
    tables.rounds(tmp_path)
    assert index_of(tmp_path, "rounds").exists()


def test_without_pyarrow_only_an_explicit_cache_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(tmp_path, "r-1")
    expected = tables.messages(tmp_path)
    monkeypatch.setattr(folders, "MANY_FILES", 1)
    monkeypatch.setattr(folders, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    pd.testing.assert_frame_equal(tables.messages(tmp_path), expected)
    with pytest.raises(NotAvailable, match=r"pyarrow.*agentnb\[scale\]"):
        tables.messages(tmp_path, cache=True)
    assert not (tmp_path / HOME).exists()


def test_cached_file_is_copied_between_parts_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BATCH_ROWS", 3)
    monkeypatch.setattr(parts, "MAX_ROWS", 30)
    chat_of(tmp_path, "m.jsonl", *(f"question {number}" for number in range(12)))
    for name in ("z", "a", "q"):
        log_of(tmp_path, name, rounds=4)
        check(tmp_path, "messages", "events")


def test_copied_rows_are_written_in_few_row_groups(tmp_path: Path) -> None:
    for names in (["r-1", "r-2", "r-3", "r-4", "r-5"], ["r-6"]):
        for name in names:
            log_of(tmp_path, name, ended=True)
        check(tmp_path, "runs")
    metadata = max(map(parquet.read_metadata, written(tmp_path)), key=lambda part: part.num_rows)
    assert (metadata.num_rows, metadata.num_row_groups) == (6, 2), "those copied, and the new one"


KERNEL = """
import sys
from agentnb import tables
for _ in range(8):
    frame = tables.messages(sys.argv[1], cache=True)
    print(len(frame), frame.run_id.nunique(), flush=True)
    if sys.argv[2] == "relation":
        counts = tables.relation("messages", sys.argv[1]).aggregate("count(*), count(distinct run_id)")
        print(*counts.fetchall()[0], flush=True)
"""


@pytest.mark.nightly("by day one process writes and reads the tables")
@pytest.mark.slow("three processes that load pandas")
def test_concurrent_processes_all_see_complete_tables(tmp_path: Path) -> None:
    for number in range(60):
        log_of(tmp_path, f"r-{number:03}")
    command = [sys.executable, "-c", KERNEL, str(tmp_path)]
    kinds = ["frames", "relation", "relation"]
    kernels = [subprocess.Popen([*command, kind], stdout=subprocess.PIPE, text=True) for kind in kinds]
    first = kernels[0].stdout.readline() if kernels[0].stdout else ""
    for number in range(60, 90):  # new logs come meanwhile
        log_of(tmp_path, f"r-{number:03}")
    outs = []
    for kernel in kernels:
        with kernel:  # `communicate` would drop lines that were read ahead
            outs.append(kernel.stdout.read() if kernel.stdout else "")
    assert [kernel.returncode for kernel in kernels] == [0, 0, 0]
    for out, count in zip([first + outs[0], *outs[1:]], [8, 16, 16], strict=True):
        found = [tuple(map(int, line.split())) for line in out.splitlines()]
        assert len(found) == count
        assert all(rows == 5 * runs and 60 <= runs <= 90 for rows, runs in found), found
    check(tmp_path, "messages")
