"""Files of a working folder are restored through descriptors, and nothing outside of it is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from asserted_sentences import Snapshot

from agentnb import settings
from agentnb.rerun.undo.undo_place import NotAllowed, Place, open_place
from agentnb.store.before_images.images import digest
from agentnb.store.before_images.records import ABSENT

Put = Callable[[Path], Path]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Create a working folder next to a file of the user."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("mine")
    work = tmp_path / "work"
    for folder in (work / "data", work / ".git", work / "sub" / ".Git", work / "runs", work / ".agentnb"):
        folder.mkdir(parents=True)
    return work


def linked(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def bare(repository: Path) -> Path:
    (repository / "objects").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/main")
    return repository


def git_file(tree: Path, target: Path) -> Path:
    """Create a git file that points to a folder next to it."""
    (target / ".git").write_text("gitdir: .")
    return target


REFUSED: dict[str, Put] = {
    "outside": lambda work: work.parent / "outside" / "a.txt",
    "through dots": lambda work: work / ".." / "outside" / "a.txt",
    "relative": lambda _: Path("a.txt"),
    "the folder itself": lambda work: work,
    "git": lambda work: work / ".git" / "config",
    "git in another spelling": lambda work: work / "sub" / ".GIT" / "hooks" / "x",
    "git with a dot": lambda work: work / ".git." / "config",
    "a file of a worktree": lambda work: work / "sub" / ".git",
    "short name of Windows": lambda work: work / "GIT~1" / "config",
    "a bare repository": lambda work: bare(work / "repo") / "hooks" / "x",
    "the target of a .git file": lambda work: git_file(work / "tree", work / "data") / "config",
    "the store": lambda work: work / "runs" / "r.jsonl",
    "the person's folder": lambda work: work / "own" / "allowed-urls.txt",
    "a new bare repository": lambda work: (bare(work / "new") / "HEAD").unlink() or work / "new" / "HEAD",
    "agentnb": lambda work: work / ".agentnb" / "x",
    "a folder that is a link": lambda work: linked(work / "link", work.parent / "outside") / "a.txt",
    "a link to a folder within": lambda work: linked(work / "link2", work / "data") / "a.txt",
    "a file for a folder": lambda work: (work / "file").write_text("x") and work / "file" / "a.txt",
}


def test_unwritable_paths_are_refused(
    work: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    monkeypatch.setattr(settings, "personal_folder", lambda: work / "own")
    (work / "own").mkdir()
    for name, put in REFUSED.items():
        with subtests.test(name), pytest.raises(NotAllowed) as refused, open_place(put(work), work, work / "runs"):
            pass
        assert str(refused.value) == snapshot(name)
    assert (work.parent / "outside" / "a.txt").read_text() == "mine"


def test_working_folder_since_replaced_by_a_link_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "outside" / "work").mkdir(parents=True)
    for name in ("itself", "the folder around it"):
        with subtests.test(name):
            work = tmp_path / name / "work"
            link = work if name == "itself" else work.parent
            link.parent.mkdir(exist_ok=True)
            linked(link, tmp_path / "outside")
            with pytest.raises(NotAllowed), open_place(work / "a.txt", work, work / "runs"):
                pass


def test_only_regular_files_can_be_undone(work: Path, subtests: pytest.Subtests) -> None:
    (work / "folder").mkdir()
    os.mkfifo(work / "pipe")
    linked(work / "link", work.parent / "outside" / "a.txt")
    for name in ("folder", "pipe", "link"):
        with subtests.test(name), open_place(work / name, work, work / "runs") as place:
            with pytest.raises((NotAllowed, IsADirectoryError)):
                place.digest()


def test_folder_swapped_for_a_link_while_open_is_not_followed(work: Path) -> None:
    (work / "data" / "a.txt").write_text("old")
    with open_place(work / "data" / "a.txt", work, work / "runs") as place:
        assert place.digest() == digest(b"old")
        (work / "data").rename(work / "moved")
        linked(work / "data", work.parent / "outside")
        place.put(b"new", 0o600)
    assert (work / "moved" / "a.txt").read_text() == "new" and (work.parent / "outside" / "a.txt").read_text() == "mine"


def test_link_swapped_in_for_an_open_file_is_itself_replaced(work: Path) -> None:
    with open_place(work / "a.txt", work, work / "runs") as place:
        linked(work / "a.txt", work.parent / "outside" / "a.txt")
        place.put(b"new", 0o600)
    assert not (work / "a.txt").is_symlink() and (work.parent / "outside" / "a.txt").read_text() == "mine"


def test_file_content_and_permissions_are_restored_without_leftovers(work: Path, subtests: pytest.Subtests) -> None:
    path = work / "data" / "run.sh"
    path.write_text("new")
    for mode, now, expected in (
        (0o754, 0o777, 0o754),
        (0o4777, 0o4777, 0o777),
        (None, 0o700, 0o700),
        (0o644, 0o600, 0o600),
        (0o666, 0o640, 0o640),
    ):
        path.chmod(now)
        with subtests.test(f"{mode} {now}"), open_place(path, work, work / "runs") as place:
            place.put(b"\x00\xff\r\n", mode)
            assert path.read_bytes() == b"\x00\xff\r\n" and stat.S_IMODE(path.stat().st_mode) == expected
    assert [file.name for file in (work / "data").iterdir()] == ["run.sh"]


def test_failed_write_leaves_the_file_unchanged(work: Path) -> None:
    path = work / "data" / "a.txt"
    path.write_text("new")
    with open_place(path, work, work / "runs") as place, pytest.raises(TypeError):
        place.put(None, 0o600)  # type: ignore[arg-type]  # what no file takes
    assert path.read_text() == "new" and [file.name for file in (work / "data").iterdir()] == ["a.txt"]


def test_read_only_file_is_not_changed_by_undo(work: Path) -> None:
    (work / "a.txt").write_text("new")
    for mode in (0o444, 0o464):
        (work / "a.txt").chmod(mode)
        with open_place(work / "a.txt", work, work / "runs") as place, pytest.raises(NotAllowed):
            place.digest()


def test_file_in_a_missing_folder_counts_as_absent(work: Path, subtests: pytest.Subtests) -> None:
    gone = work.parent / "gone"
    for path, folder in ((work / "no" / "such" / "a.txt", work), (gone / "a.txt", gone)):
        with subtests.test(str(path)), open_place(path, folder, work / "runs") as place:
            assert isinstance(place, Place) and place.digest() == ABSENT
