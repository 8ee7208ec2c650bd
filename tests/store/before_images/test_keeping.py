"""Before-images of changed files: contents, permissions, bounds and exceptions."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept_files import Desk, write_tool, writes
from own_folder import use_own_folder

from agentnb import Store, ToolCall, settings
from agentnb.core.log.stores import MAX_KEPT_FILE_BYTES, FileBefore
from agentnb.interchange.files import load_traces
from agentnb.store.before_images import images as stored_images
from agentnb.store.before_images import keeping
from agentnb.store.before_images.images import digest, listed_changes, note_undone, read_image
from agentnb.store.before_images.keeping import BeforeImages
from agentnb.store.before_images.records import ABSENT, FileChanged
from agentnb.tools.function import FunctionTool
from agentnb.tools.tool import ToolContext

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def images(tmp_path: Path) -> BeforeImages:
    return BeforeImages(tmp_path / "r-1.jsonl")


def file_before(path: Path, before: bytes | None, after: bytes = b"new") -> FileBefore:
    return FileBefore("c-1", path.parent, path, before, after)


def changes(folder: Path, run_id: str = "r-1") -> tuple[FileChanged, ...]:
    return listed_changes(folder, run_id).changes


def test_exact_bytes_are_kept_private_to_the_user(desk: Desk) -> None:
    before = bytes(range(256)) + b"\r\n\xff"
    desk.write("data.bin", before, 0o640)
    run = desk.run(writes("data.bin", "new"))
    (change,) = changes(desk.store.folder, run.id)
    assert read_image(desk.store.folder, change) == before
    assert (change.path, change.work_dir) == (str(desk.folder / "data.bin"), str(desk.folder))
    assert (change.before, change.after) == (digest(before), digest(b"new"))
    assert (change.size, change.mode, change.not_kept) == (len(before), 0o640, "")
    assert change.call_id == run.rounds[0].calls[0].id
    folder = desk.kept(run)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_change_is_recorded_before_the_file_is_changed(desk: Desk) -> None:
    from_before: list[tuple[str, int]] = []

    def look(path: Path) -> None:
        (folder,) = desk.store.folder.glob(".before-*")
        listed = changes(desk.store.folder, folder.name.removeprefix(".before-"))
        from_before.append((path.read_text(), len(listed)))

    desk.write("a.txt", "old")
    desk.run(writes("a.txt", "new", "slow_write"), tools=[write_tool("slow_write", look)])
    assert from_before == [("old", 1)]


def test_chain_of_changes_keeps_one_image(images: BeforeImages, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for before, after in ((b"1", b"2"), (b"2", b"3"), (b"3", b"3"), (b"other", b"4")):
        images.keep(file_before(path, before, after))
    assert [change.not_kept for change in changes(tmp_path)] == ["", "earlier", "earlier", ""]
    again = BeforeImages(tmp_path / "r-1.jsonl")  # in the process that resumes the run
    again.keep(file_before(path, b"4", b"5"))
    note_undone(tmp_path, "r-1", range(5))
    BeforeImages(tmp_path / "r-1.jsonl").keep(file_before(path, b"5", b"6"))
    assert [(change.number, change.not_kept) for change in changes(tmp_path)[4:]] == [(4, "earlier"), (5, "")]


def test_kept_bytes_per_file_and_run_are_limited(
    images: BeforeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(keeping, "MAX_RUN_BYTES", 100)
    cases = {
        "a new file": (None, "new_file"),
        "fits": (b"x" * 60, ""),
        "too much for the run": (b"y" * 60, "run_full"),
        "still fits": (b"z" * 40, ""),
        "too large": (b"x" * (MAX_KEPT_FILE_BYTES + 1), "too_large"),
    }
    for name, (before, not_kept) in cases.items():
        with subtests.test(name):
            images.keep(file_before(tmp_path / name, before))
            change = changes(tmp_path)[-1]
            assert change.not_kept == not_kept and bool(change.image) == (not_kept == "")
    with subtests.test("after a restart"):
        BeforeImages(tmp_path / "r-1.jsonl").keep(file_before(tmp_path / "more", b"m"))
        assert changes(tmp_path)[-1].not_kept == "run_full"


@pytest.mark.req("R2.38")
def test_file_with_a_key_is_not_kept(
    images: BeforeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    cases: dict[str, tuple[str, bytes | None, bytes]] = {
        "before": ("a.txt", f"key={KEY}".encode(), b"new"),
        "after": ("b.txt", b"old", f"key={KEY}".encode()),
        "new": ("c.txt", None, KEY.encode()),
        "in bytes": ("d.bin", b"\xff\xfe\x00" + KEY.encode() + b"\x80", b"new"),
        "in wide letters": ("e.txt", KEY.encode("utf-16"), b"new"),
        "escaped": ("f.json", b'{"key": "%s"}' % KEY.replace("-", "\\u002d").encode(), b"new"),
        "in its name": (f"{KEY}.txt", b"old", b"new"),
    }
    for name, (path, before, after) in cases.items():
        with subtests.test(name):
            images.keep(file_before(tmp_path / path, before, after))
            change = changes(tmp_path)[-1]
            assert (change.not_kept, change.image, change.before, change.after, change.size) == ("holds_key", "", "", "", 0)
    held = b"".join(file.read_bytes() for file in (tmp_path / ".before-r-1").iterdir())
    assert KEY.encode() not in held


def test_file_with_a_key_learned_later_is_not_kept(
    images: BeforeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images.keep(file_before(tmp_path / "a.txt", b"old"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY in settings.secrets()
    images.keep(file_before(tmp_path / "a.txt", b"new", KEY.encode()))
    assert [change.not_kept for change in changes(tmp_path)] == ["", "holds_key"]


def test_threads_can_keep_files_concurrently(images: BeforeImages, tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def keep(number: int) -> None:
        barrier.wait()
        for place in range(10):
            images.keep(file_before(tmp_path / f"{number}-{place}", f"{number} {place}".encode()))

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listed = changes(tmp_path)
    assert [change.number for change in listed] == list(range(80))
    assert all(read_image(tmp_path, change) == Path(change.path).name.replace("-", " ").encode() for change in listed)


def test_run_without_a_store_keeps_no_images(desk: Desk) -> None:
    desk.write("a.txt", "old")
    run = desk.agent(writes("a.txt", "new")).run_sync("Go.")
    assert run.status == "completed" and desk.contents() == {"a.txt": "new"}
    assert not list(desk.folder.rglob(".before*"))


def test_links_replacing_the_folder_and_its_files_are_not_followed(
    tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    def as_folder(store: Path) -> None:
        (store / ".before-r-1").symlink_to(outside)

    def as_list(store: Path) -> None:
        (store / ".before-r-1").mkdir()
        (store / ".before-r-1" / "changes.jsonl").symlink_to(outside / "list")

    for name, put in {"the folder": as_folder, "the list": as_list}.items():
        with subtests.test(name):
            store = tmp_path / name
            store.mkdir()
            put(store)
            with pytest.raises(OSError):
                BeforeImages(store / "r-1.jsonl").keep(file_before(tmp_path / "a.txt", b"old"))
            assert list(outside.iterdir()) == []


def test_folder_readable_by_others_is_made_private(images: BeforeImages, tmp_path: Path) -> None:
    folder = tmp_path / ".before-r-1"
    folder.mkdir()
    folder.chmod(0o755)
    images.keep(file_before(tmp_path / "a.txt", b"old"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


class FullDisk:
    """A system whose disk has space for this many bytes of images and lists."""

    def __init__(self, room: int) -> None:
        self.room = room

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        taken = data[: self.room]
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(taken)
        return os.write(descriptor, taken)


def test_file_that_cannot_be_kept_is_not_changed(desk: Desk, subtests: pytest.Subtests) -> None:
    old = "old " * 1_000
    for name, room in {"no room": 0, "room for a part": 2_500, "room for the image": 4_100}.items():
        with subtests.test(name), pytest.MonkeyPatch.context() as patch:
            desk.write("a.txt", old)
            patch.setattr(stored_images, "os", FullDisk(room))
            run = desk.run(writes("a.txt", "new"))
            (result,) = run.rounds[0].results
            assert run.status == "completed" and result.error_code == "not_kept" and desk.contents() == {"a.txt": old}
            assert "a.txt was not changed" in result.text and os.strerror(errno.ENOSPC) in result.text
            assert changes(desk.store.folder, run.id) == ()
            sizes = {path.name: path.stat().st_size for path in desk.kept(run).iterdir()}
            assert sizes.items() <= {"changes.jsonl": 0, ".gitignore": 2}.items(), "nothing torn stays"


def test_next_call_can_write_after_space_is_freed(desk: Desk) -> None:
    desk.write("a.txt", "old")
    full = pytest.MonkeyPatch()
    full.setattr(stored_images, "os", FullDisk(0))

    def make_room(command: str) -> str:
        """Make room."""
        full.undo()
        return "done"

    run = desk.run(writes("a.txt", "new"), ToolCall("make_room", {"command": "x"}), writes("a.txt", "newer"), tools=[make_room])
    full.undo()
    assert [round_.results[0].is_error for round_ in run.rounds[:3]] == [True, False, False]
    (change,) = changes(desk.store.folder, run.id)
    assert read_image(desk.store.folder, change) == b"old" and desk.contents() == {"a.txt": "newer"}


def test_truncated_line_of_a_killed_process_is_skipped(images: BeforeImages, tmp_path: Path) -> None:
    images.keep(file_before(tmp_path / "a.txt", b"old"))
    path = tmp_path / ".before-r-1" / "changes.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    BeforeImages(tmp_path / "r-1.jsonl").keep(file_before(tmp_path / "b.txt", b"old"))
    listed = listed_changes(tmp_path, "r-1")
    assert [Path(change.path).name for change in listed.changes] == ["a.txt", "b.txt"] and listed.foreign == 0


LIES: dict[str, Callable[[bytes], bytes]] = {
    "another path": lambda line: line.replace(b"a.txt", b"b.txt"),
    "another folder": lambda line: line.replace(b'"work_dir":"', b'"work_dir":"/x'),
    "no mark": lambda line: line.split(b',"_mark"')[0] + b"}\n",
}


def test_lines_written_by_another_user_are_ignored(images: BeforeImages, tmp_path: Path, subtests: pytest.Subtests) -> None:
    images.keep(file_before(tmp_path / "a.txt", b"old"))
    path = tmp_path / ".before-r-1" / "changes.jsonl"
    whole = path.read_bytes()
    for name, lie in LIES.items():
        with subtests.test(name):
            path.write_bytes(lie(whole))
            listed = listed_changes(tmp_path, "r-1")
            assert listed.changes == () and listed.foreign == 1
    with subtests.test("the list of another run"):
        path.write_bytes(whole)
        (tmp_path / ".before-r-1").rename(tmp_path / ".before-r-2")
        assert listed_changes(tmp_path, "r-2").changes == () and listed_changes(tmp_path, "r-2").foreign == 1


def test_list_written_by_another_user_is_ignored(images: BeforeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images.keep(file_before(tmp_path / "a.txt", b"old"))
    use_own_folder(monkeypatch, tmp_path / "home")
    assert listed_changes(tmp_path, "r-1").foreign == 1


def test_modified_image_is_refused(images: BeforeImages, tmp_path: Path, subtests: pytest.Subtests) -> None:
    images.keep(file_before(tmp_path / "a.txt", b"old"))
    (change,) = changes(tmp_path)
    image = tmp_path / ".before-r-1" / change.image
    (tmp_path / "elsewhere").write_bytes(b"old")

    def as_link() -> None:
        image.unlink()
        image.symlink_to(tmp_path / "elsewhere")

    for name, spoil in {"changed": lambda: image.write_bytes(b"bad"), "a link": as_link, "gone": image.unlink}.items():
        with subtests.test(name):
            spoil()
            with pytest.raises(OSError):
                read_image(tmp_path, change)


def test_deleting_a_run_deletes_its_images_and_counts_them(desk: Desk) -> None:
    desk.write("a.txt", "old" * 1_000)
    run = desk.run(writes("a.txt", "new"))
    log = desk.store.path(run.id).stat().st_size
    images = sum(file.stat().st_size for file in desk.kept(run).iterdir())
    assert images > 3_000 and desk.store.size(run.id) == log + images
    assert desk.store.delete(run.id) == log + images and not desk.kept(run).exists()
    assert list(desk.store.folder.iterdir()) == []


def test_deleting_a_run_keeps_link_targets(desk: Desk) -> None:
    run = desk.run()
    desk.write("mine/a.txt", "mine")
    desk.kept(run).symlink_to(desk.folder / "mine")
    desk.store.delete(run.id)
    assert desk.contents() == {"mine/a.txt": "mine"} and not desk.kept(run).is_symlink()


def test_folder_readers_skip_images(desk: Desk, subtests: pytest.Subtests) -> None:
    desk.write("log.jsonl", '{"kind":"run_started"}\n')
    run = desk.run(writes("log.jsonl", "new"))
    with subtests.test("the list of runs"):
        left_out: list[str] = []
        assert [one.id for one in desk.store.each_summary(left_out)] == [run.id] and left_out == []
    with subtests.test("the store"):
        assert desk.store.ids() == [run.id] and [one.id for one in load_traces(desk.store)] == [run.id]
    with subtests.test("any folder"):
        assert [one.id for one in load_traces(desk.folder / ".agentnb")] == [run.id]
    with subtests.test("git"):
        assert (desk.kept(run) / ".gitignore").read_text() == "*\n"


def test_abandoned_call_no_longer_changes_its_file(desk: Desk) -> None:
    seen: list[BaseException] = []
    wait, over = threading.Event(), threading.Event()

    async def slow(context: ToolContext) -> str:
        """Write late."""

        def write() -> None:
            wait.wait(20)
            try:
                context.keep_before(desk.folder / "a.txt", b"old", b"late")
                desk.write("a.txt", "late")
            except BaseException as error:
                seen.append(error)
            over.set()

        await asyncio.to_thread(write)
        return "written"

    desk.write("a.txt", "old")
    tool = FunctionTool(slow, timeout=0.05)

    def go_on() -> str:
        """Let it go on."""
        wait.set()
        over.wait(20)
        return "went on"

    run = desk.run(ToolCall("slow"), ToolCall("go_on"), tools=[tool, go_on])
    assert run.rounds[0].results[0].error_code == "timeout" and len(seen) == 1
    assert desk.contents() == {"a.txt": "old"} and not desk.kept(run).exists()


def test_digest_of_a_missing_file_matches_no_file() -> None:
    assert digest(None) == ABSENT != digest(b"")


def test_custom_store_keeps_no_images(desk: Desk) -> None:
    class Memory:
        def append(self, event: Any) -> None: ...

        def close(self) -> None: ...

    class Own(Store):
        async def open(self, run_id: str, *, nested: bool = False) -> Any:
            return Memory()

    desk.write("a.txt", "old")
    run = desk.agent(writes("a.txt", "new")).run_sync("Go.", store=Own(desk.folder / "own"))
    assert run.status == "completed" and desk.contents() == {"a.txt": "new"}
