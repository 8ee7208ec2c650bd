"""Writing files: exact bytes, all or nothing, and no mark over a key."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from file_desk import FileDesk
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb import settings

KEY = "sk-test-0123456789abcdef"


@pytest.mark.req("R2.18")
def test_bytes_are_written_exactly_and_counted_as_utf_8(subtests: pytest.Subtests, desk: FileDesk) -> None:
    for path, text in {"a.txt": "a\r\nb\rc\n", "é/漢.txt": "é漢😀", "deep/er/and/deeper.txt": "", "a.txt ": "\ufeff\0"}.items():
        with subtests.test(path):
            size = len(text.encode())
            assert desk.text("write_file", path=path, content=text) == f"Successfully wrote {size} bytes to {path}"
            assert (desk.folder / path).read_bytes() == text.encode()
            assert desk.text("read_file", path=path) == text
    assert desk.code("write_file", path="new/half.txt", content="\ud800") == "not_text"
    assert not (desk.folder / "new").exists()


@examples(200)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_written_text_is_read_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    desk = FileDesk(tmp_path_factory.mktemp("written"))
    desk.text("write_file", path="a.txt", content=text)
    assert desk.text("read_file", path="a.txt") == text


def test_file_keeps_its_mode_and_a_link_stays_a_link(desk: FileDesk) -> None:
    desk.put({"run.sh": "old", "plain.txt": "old"})
    (desk.folder / "run.sh").chmod(0o7750)
    (desk.folder / "to_run").symlink_to("run.sh")
    (desk.folder / "to_new").symlink_to("new.txt")
    desk.text("write_file", path="to_run", content="new")
    desk.text("write_file", path="to_new", content="new")
    assert stat.S_IMODE((desk.folder / "run.sh").stat().st_mode) == 0o750
    assert (desk.folder / "run.sh").read_text() == (desk.folder / "new.txt").read_text() == "new"
    assert (desk.folder / "to_run").is_symlink() and (desk.folder / "to_new").is_symlink()
    usual = stat.S_IMODE((desk.folder / "plain.txt").stat().st_mode)
    assert stat.S_IMODE((desk.folder / "new.txt").stat().st_mode) == usual


def test_hard_link_to_a_file_outside_is_replaced(desk: FileDesk) -> None:
    (desk.folder / "a.txt").hardlink_to(desk.outside / "secret.txt")
    before = (desk.outside / "secret.txt").read_bytes()
    desk.text("write_file", path="a.txt", content="new")
    assert (desk.outside / "secret.txt").read_bytes() == before and (desk.folder / "a.txt").read_text() == "new"


def test_irreplaceable_targets_are_refused(subtests: pytest.Subtests, desk: FileDesk, snapshot: Snapshot) -> None:
    desk.put({"read.txt": "kept\n", "sub/x.txt": "x\n"})
    (desk.folder / "read.txt").chmod(0o464)
    os.mkfifo(desk.folder / "pipe")
    codes = {
        "read.txt": "read_only",
        "sub": "not_regular",
        ".": "not_regular",
        "pipe": "not_regular",
        "sub/x.txt/y": "not_a_directory",
    }
    before = sorted(desk.folder.rglob("*"))
    for path, code in codes.items():
        for name, arguments in {"write_file": {"content": "new"}, "edit_file": {"old": "k", "new": "n"}}.items():
            with subtests.test(f"{name} {path}"):
                outcome = desk.call(name, path=path, **arguments)
                assert (outcome.error_code, outcome.text) == (code, snapshot(f"{name} {path}"))
    assert sorted(desk.folder.rglob("*")) == before and (desk.folder / "read.txt").read_text() == "kept\n"


def test_failing_disk_leaves_no_partly_written_file(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.put({"a.txt": "old\n"})
    before = desk.tree()

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    for function in ("write", "replace", "fchmod"):
        with subtests.test(function), monkeypatch.context() as patch:
            patch.setattr(os, function, fail)
            assert desk.code("write_file", path="a.txt", content="new") == "system_error"
        assert desk.tree() == before


def test_file_that_changes_during_a_write_is_left_alone(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = b"theirs, longer\n"

    def change(call_id: str, path: Path, before: bytes | None, after: bytes) -> None:
        path.write_bytes(theirs)

    monkeypatch.setattr(desk.services, "keep_before", change)
    for path, old in {"a.txt": "old\n", "new.txt": ""}.items():
        with subtests.test(path):
            if old:
                desk.put({path: old})
            assert desk.code("write_file", path=path, content="mine") == "changed_meanwhile"
            assert (desk.folder / path).read_bytes() == theirs
    assert {path.name for path in desk.folder.iterdir()} == {"a.txt", "new.txt"}


def test_backup_is_made_right_before_a_change(desk: FileDesk) -> None:
    desk.put({"a.txt": b"\xff old"})
    (desk.folder / "to_a").symlink_to("a.txt")
    desk.text("write_file", path="to_a", content="one")
    desk.text("edit_file", path="a.txt", old="one", new="two")
    desk.text("write_file", path="new/b.txt", content="")
    assert desk.code("edit_file", path="a.txt", old="one", new="two") == "no_match"
    a, b = (Path(os.path.realpath(desk.folder / path)) for path in ("a.txt", "new/b.txt"))
    assert desk.services.kept == [(a, b"\xff old", b"one"), (a, b"one", b"two"), (b, None, b"")]


def test_nothing_is_written_without_a_backup(desk: FileDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.put({"a.txt": "old\n"})

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk.services, "keep_before", fail)
    assert desk.code("write_file", path="a.txt", content="new") == "system_error"
    assert [path.name for path in desk.folder.iterdir()] == ["a.txt"] and (desk.folder / "a.txt").read_text() == "old\n"


def test_redaction_mark_never_overwrites_a_key(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY in settings.secrets()
    holding = {"conf.ini": f"key = {KEY}\nmode = a\n", "odd.bin": b"\xff " + KEY.encode(), "cut.txt": f"{KEY[:-2]}\n"}
    desk.put({**holding, "plain.txt": "mode = [key]\n"})
    for path in holding:
        with subtests.test(path):
            assert desk.code("write_file", path=path, content="key = [key]\nmode = b\n") == "key_mark"
    refused = desk.call("edit_file", path="conf.ini", old="mode = a", new="mode = [key]")
    missing = desk.call("edit_file", path="conf.ini", old="key = [key]", new="key = none")
    assert (refused.error_code, missing.error_code) == ("key_mark", "no_match")
    assert [refused.text, missing.text] == snapshot
    desk.text("edit_file", path="conf.ini", old="mode = a", new="mode = b")
    desk.text("edit_file", path="plain.txt", old="[key]", new="[key]!")
    desk.text("write_file", path="plain.txt", content="[key]")
    desk.text("write_file", path="new.txt", content="[key]")
    assert (desk.folder / "conf.ini").read_text() == f"key = {KEY}\nmode = b\n"
    assert (desk.folder / "odd.bin").read_bytes() == holding["odd.bin"]
