"""Reading files exactly, and listing directories."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from file_desk import FileDesk

from agentnb.tools.builtin.files import confined, read_file
from agentnb.tools.defaults import MAX_FILE_BYTES


@pytest.mark.req("R2.18")
def test_small_and_large_texts_are_read_exactly(subtests: pytest.Subtests, desk: FileDesk) -> None:
    texts = {
        "empty.txt": "",
        "lines.txt": "a\r\nb\rc\n\n",
        "mark.txt": "\ufeffBOM\n",
        "zero.txt": "a\0b",
        "wide.txt": "é漢😀",
        "edge.txt": "x" * read_file.MAX_INLINE_BYTES,
        "large.txt": "é" * read_file.MAX_INLINE_BYTES,
    }
    desk.put(texts)
    for path, text in texts.items():
        with subtests.test(path):
            assert desk.text("read_file", path=path) == text


def test_non_text_files_are_refused_with_the_reason(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    desk.put(
        {"a.bin": b"ab\xff", "large.bin": b"\xff" * 70_000, "large.txt": "x" * 101, "data/brest.csv": "", "data/rest.csv": ""}
    )
    os.mkfifo(desk.folder / "pipe")
    os.chdir(desk.folder)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (desk.folder / "to_pipe").symlink_to("pipe")
    monkeypatch.setattr(confined, "MAX_FILE_BYTES", 100_000)
    codes = {
        "a.bin": "not_text",
        "large.bin": "not_text",
        "data": "not_regular",
        ".": "not_regular",
        "pipe": "not_regular",
        "to_pipe": "not_regular",
        "socket": "not_regular",
        "data/brst.csv": "not_found",
        "nothing/like/it": "not_found",
        "data/brest.csv/x": "not_a_directory",
    }
    for path, code in codes.items():
        with subtests.test(path):
            outcome = desk.call("read_file", path=path)
            assert outcome.error_code == code
            assert outcome.text == snapshot(path)


def test_reading_a_device_is_refused(desk: FileDesk) -> None:
    desk.context = desk.context.__class__("r-1", "c", Path("/dev"), desk.context.run_plain)
    assert desk.call("read_file", path="null").problem == "null is a device"
    assert desk.code("write_file", path="null", content="x") == "not_regular"


def test_large_file_is_refused_with_an_alternative(desk: FileDesk, snapshot: Snapshot) -> None:
    with (desk.folder / "large.txt").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    for name, arguments in {"read_file": {}, "write_file": {"content": "x"}, "edit_file": {"old": "a", "new": "b"}}.items():
        outcome = desk.call(name, path="large.txt", **arguments)
        assert outcome.error_code == "too_large"
    assert outcome.text == snapshot
    assert (desk.folder / "large.txt").stat().st_size == MAX_FILE_BYTES + 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all files")
def test_file_without_permission_is_an_error(desk: FileDesk) -> None:
    desk.put({"a.txt": "x"})
    (desk.folder / "a.txt").chmod(0)
    assert desk.code("read_file", path="a.txt") == "not_permitted"


@pytest.mark.req("R2.18")
def test_directory_listing_is_sorted_and_marks_folders_with_slash(desk: FileDesk, snapshot: Snapshot) -> None:
    desk.put({"b.txt": "", "B.txt": "", "a/x.txt": "", ".env": "", "..foo": "", "two\nlines": ""})
    (desk.folder / "to_a").symlink_to("a")
    (desk.folder / "to_outside").symlink_to(desk.outside)
    (desk.folder / "to_nothing").symlink_to("nothing")
    (desk.folder / "empty").mkdir()
    assert desk.text("list_files") == snapshot
    assert desk.text("list_files", path="to_a") == desk.text("list_files", path="a/") == "x.txt"
    assert desk.text("list_files", path="empty") == "(empty directory)"
    assert desk.code("list_files", path="b.txt") == "not_a_directory"
    assert desk.code("list_files", path="c") == "not_found"


def test_long_listing_is_truncated_with_a_note(desk: FileDesk, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    desk.put({f"{number}.txt": "" for number in range(5)})
    monkeypatch.setattr(read_file, "MAX_NAMES", 2)
    assert desk.text("list_files") == snapshot
    monkeypatch.setattr(read_file, "MAX_ENTRIES", 3)
    assert "1 or more" in desk.text("list_files")
