"""Paths are confined to the working directory, even if a link is swapped in after the check."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from file_desk import SECRET, FileDesk
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

TOOLS: dict[str, dict[str, Any]] = {
    "read_file": {},
    "write_file": {"content": "mine"},
    "edit_file": {"old": "outside", "new": "mine"},
    "list_files": {},
    "search_files": {"pattern": "."},
}


def test_paths_outside_the_working_directory_are_refused(subtests: pytest.Subtests, desk: FileDesk) -> None:
    desk.put({"in.txt": "in\n", "sub/x.txt": "x\n"})
    (desk.folder / "out").symlink_to(desk.outside)
    (desk.folder / "out.txt").symlink_to(desk.outside / "secret.txt")
    (desk.folder / "twice").symlink_to("out/secret.txt")
    (desk.folder / "new.txt").symlink_to(desk.outside / "new.txt")
    (desk.folder.parent / "work-not").mkdir()
    before = desk.tree()
    outside = str(desk.outside)
    paths = [
        "../outside/secret.txt",
        f"{outside}/secret.txt",
        "out/secret.txt",
        "out.txt",
        "twice",
        "sub/../../outside/secret.txt",
    ]
    paths += ["out/new.txt", "new.txt", "sub/../../new.txt", "../work-not/new.txt", "..", "/", "out", "out/new/new.txt"]
    for path in paths:
        for name, arguments in TOOLS.items():
            with subtests.test(f"{name} {path}"):
                outcome = desk.call(name, path=path, **arguments)
                assert outcome.error_code == "outside_work_dir" and SECRET not in outcome.text
                assert outcome.problem == f"path is outside working directory: {path}"
    assert desk.tree() == before


@pytest.mark.req("R2.20")
def test_unusual_paths_inside_the_working_directory_are_read(subtests: pytest.Subtests, desk: FileDesk) -> None:
    desk.put({"..foo": "dots\n", "sub/...": "three\n", "a b/ c.txt": "spaces\n", "sub/in.txt": "in\n", "~": "home\n"})
    (desk.folder / "link").symlink_to(desk.folder / "sub")
    (desk.folder / "to.txt").symlink_to("link/in.txt")
    (desk.folder.parent / "named").symlink_to(desk.folder)
    inside = {
        "..foo": "dots\n",
        "sub/...": "three\n",
        "a b/ c.txt": "spaces\n",
        "~": "home\n",
        "link/in.txt": "in\n",
        "to.txt": "in\n",
        "./sub//in.txt": "in\n",
        "sub/../..foo": "dots\n",
        f"../{desk.folder.name}/..foo": "dots\n",
        f"{desk.folder}/sub/in.txt": "in\n",
        f"{desk.folder.parent}/named/sub/in.txt": "in\n",
    }
    for path, text in inside.items():
        with subtests.test(path):
            assert desk.text("read_file", path=path) == text
    assert desk.text("write_file", path="..bar", content="x") and (desk.folder / "..bar").read_text() == "x"


def test_invalid_paths_and_symlink_loops_are_refused(subtests: pytest.Subtests, desk: FileDesk) -> None:
    (desk.folder / "circle").symlink_to("circle")
    codes = {"a\0b": "invalid_path", "\ud800": "invalid_path", "n" * 300: "invalid_path", "circle": "link_changed"}
    codes |= {"circle/a.txt": "link_changed"}
    for path, code in codes.items():
        for name, arguments in TOOLS.items():
            with subtests.test(f"{name} {path[:9]!a}"):
                assert desk.code(name, path=path, **arguments) in {code, "not_found" if len(path) > 255 else code}


def test_missing_working_directory_is_reported(subtests: pytest.Subtests, desk: FileDesk) -> None:
    shutil.rmtree(desk.folder)
    for is_file in (False, True):
        if is_file:
            desk.folder.write_text("")
        for name, arguments in TOOLS.items():
            with subtests.test(f"{name} {is_file}"):
                outcome = desk.call(name, path="a.txt", **arguments)
                assert outcome.error_code == "no_work_dir" and "working directory not set" in outcome.text
    assert not desk.folder.is_dir()


def swapping(name: str, swap: Callable[[], Any], original: Callable[..., int]) -> Callable[..., int]:
    """Return an ``os.open`` that swaps right before a name is first opened."""
    left = [swap]

    def opened(path: Any, flags: int, *rest: Any, **settings: Any) -> int:
        if path == name and left:
            left.pop()()
        return original(path, flags, *rest, **settings)

    return opened


def test_link_swapped_in_after_the_check_is_not_followed(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap_folder() -> None:
        shutil.move(desk.folder / "sub", desk.folder / "old")
        (desk.folder / "sub").symlink_to(desk.outside)

    def swap_file() -> None:
        (desk.folder / "sub" / "secret.txt").unlink()
        (desk.folder / "sub" / "secret.txt").symlink_to(desk.outside / "secret.txt")

    (desk.folder / "kept").symlink_to("sub")
    outside = {path.name: path.read_text() for path in desk.outside.iterdir()}
    for opened, swap in (("sub", swap_folder), ("secret.txt", swap_file)):
        for by in ("sub", "kept", str(desk.folder / "sub")):
            for name, arguments in TOOLS.items():
                if name in ("list_files", "search_files") and opened != "sub":
                    continue
                path = by if name == "list_files" else f"{by}/secret.txt"
                with subtests.test(f"{name} {by} {opened}"), monkeypatch.context() as patch:
                    for old in ("sub", "old"):
                        link = desk.folder / old
                        link.unlink() if link.is_symlink() else shutil.rmtree(link, ignore_errors=True)
                    desk.put({"sub/secret.txt": "inside: outside\n"})
                    patch.setattr(os, "open", swapping(opened, swap, os.open))
                    outcome = desk.call(name, path=path, **arguments)
                    assert outcome.error_code in {"link_changed", "outside_work_dir"}
                    assert SECRET not in outcome.text and {p.name: p.read_text() for p in desk.outside.iterdir()} == outside


def test_pipe_swapped_in_after_the_check_does_not_block(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (desk.folder / "a.txt").unlink()
        os.mkfifo(desk.folder / "a.txt")

    for name in ("read_file", "write_file", "edit_file"):
        with subtests.test(name), monkeypatch.context() as patch:
            (desk.folder / "a.txt").unlink(missing_ok=True)
            desk.put({"a.txt": "outside"})
            patch.setattr(os, "open", swapping("a.txt", swap, os.open))
            assert desk.code(name, path="a.txt", **TOOLS[name]) == "not_regular"


def test_folder_swapped_in_before_replacing_is_not_written_to(desk: FileDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.put({"sub/secret.txt": "inside\n"})
    replace = os.replace

    def swap(*paths: Any, **folders: int) -> None:
        shutil.move(desk.folder / "sub", desk.folder / "old")
        (desk.folder / "sub").symlink_to(desk.outside)
        replace(*paths, **folders)

    monkeypatch.setattr(os, "replace", swap)
    desk.call("write_file", path="sub/secret.txt", content="mine")
    assert [path.name for path in desk.outside.iterdir()] == ["secret.txt"]
    assert (desk.outside / "secret.txt").read_text() == SECRET
    assert (desk.folder / "old" / "secret.txt").read_text() == "mine"


NAMES = st.sampled_from(["a", "b", "..", ".", "..a", "secret.txt", "work", "outside"])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
TREES = st.lists(st.tuples(st.sampled_from(["file", "folder", "link", "absolute link"]), PATHS, PATHS), max_size=8)


def plant(desk: FileDesk, tree: list[tuple[str, str, str]]) -> None:
    """Create files, folders and links in the working directory, where possible."""
    for kind, path, target in tree:
        place = Path(os.path.normpath(desk.folder / path))
        if not os.path.realpath(place.parent).startswith(f"{desk.folder}"):
            continue
        try:
            if kind == "file":
                place.write_text("inside\n")
            elif kind == "folder":
                place.mkdir()
            else:
                place.symlink_to(target if kind == "link" else desk.folder.parent / target)
        except OSError:
            continue


@examples(400)
@given(tree=TREES, path=PATHS, is_absolute=st.booleans())
def test_nothing_outside_the_working_directory_is_accessed(
    tmp_path_factory: pytest.TempPathFactory, tree: list[tuple[str, str, str]], path: str, is_absolute: bool
) -> None:
    desk = FileDesk(tmp_path_factory.mktemp("tree").resolve())
    plant(desk, tree)

    def outside() -> dict[str, bytes | str]:
        return {name: data for name, data in desk.tree().items() if not name.startswith("work/")}

    before, text = outside(), f"{desk.folder.parent}/{path}" if is_absolute else path
    real = os.path.realpath(desk.folder / text)
    is_inside = real == str(desk.folder) or real.startswith(f"{desk.folder}/")
    for name in ("read_file", "list_files", "write_file", "edit_file"):
        outcome = desk.call(name, path=text, **TOOLS[name])
        assert SECRET not in outcome.text and "outside:" not in outcome.text
        assert (outcome.error_code == "outside_work_dir") == (not is_inside), (name, outcome.text)
    assert outside() == before
