"""Searching files: matches, bounds, and notes about cut results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from asserted_sentences import Snapshot
from file_desk import SECRET, FileDesk

from agentnb.tools.builtin.files import search_files

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets limits of searches."""
    yield lambda **limits: monkeypatch.setattr(search_files, "LIMITS", search_files.LIMITS._replace(**limits))


def test_lines_and_names_are_found(subtests: pytest.Subtests, desk: FileDesk, snapshot: Snapshot) -> None:
    desk.put(
        {
            "a.py": "import os\n\ndef f():\n    return os.getcwd()\n",
            "data/b.csv": "x,y\r\n1,2\r\n",
            "data/deep/c.csv": "x,y\n3,4\n",
            "README.md": "Nothing here.\n",
        }
    )
    searches = {
        "everywhere": {"pattern": r"\bos\b"},
        "a glob of names": {"pattern": "x", "glob": "*.csv"},
        "a glob of paths": {"pattern": "x", "glob": "data/*.csv"},
        "a path": {"pattern": r"^\d,\d$", "path": "data"},
        "a file": {"pattern": "import", "path": "a.py"},
        "names alone": {"glob": "*.csv"},
        "names below a path": {"glob": "**/*.csv", "path": "data"},
        "all names": {},
        "no line": {"pattern": "nowhere"},
        "no name": {"glob": "*.xyz"},
        "without letter case": {"pattern": "(?i)NOTHING"},
    }
    for name, arguments in searches.items():
        with subtests.test(name):
            assert desk.text("search_files", **arguments) == snapshot(name)


def test_skipped_files_are_reported(desk: FileDesk, snapshot: Snapshot) -> None:
    hidden = ["\u002eenv", "sub/id_rsa", ".git/config", "node_modules/x.js", "sub/__pycache__/x.py", ".agentnb/runs/r.jsonl"]
    desk.put(
        {**dict.fromkeys(hidden, "needle\n"), "a.txt": "needle\n", "b.bin": b"needle\xff", "large.txt": "needle" * 2_000_000}
    )
    (desk.folder / "out").symlink_to(desk.outside)
    (desk.folder / "secret.txt").symlink_to(desk.outside / "secret.txt")
    os.mkfifo(desk.folder / "pipe")
    assert desk.text("search_files", pattern="needle|outside") == snapshot("lines")
    assert desk.text("search_files") == snapshot("names")
    assert desk.text("search_files", pattern="needle", path=".env") == snapshot("a key file")
    assert desk.text("search_files", pattern="needle", path=".git") == snapshot("a folder that is asked for")


def test_results_over_a_limit_are_truncated_with_a_note(desk: FileDesk, limit: Any, snapshot: Snapshot) -> None:
    desk.put({f"{number}.txt": f"{number} {'x' * number * 100}\n" for number in range(6)})
    limit(matches=2)
    assert desk.text("search_files", pattern="^.") == snapshot("matches")
    assert desk.text("search_files", glob="*.txt") == snapshot("names")
    limit(matches=200, files=3)
    assert desk.text("search_files", glob="*.txt") == snapshot("files")
    limit(files=100, line=10)
    assert desk.text("search_files", pattern="^[45]") == snapshot("long lines")


def test_runaway_pattern_is_terminated(desk: FileDesk, limit: Any, snapshot: Snapshot) -> None:
    desk.put({"a.txt": "found aaa\n", "b.txt": "a" * 60 + "!\n"})
    limit(seconds=0.5)
    assert desk.text("search_files", pattern="found|(a+)+$") == snapshot


def test_pattern_that_exhausts_memory_is_terminated(desk: FileDesk, limit: Any) -> None:
    limit(memory=100_000_000, seconds=1.5)
    desk.put({"a.txt": "a\n"})
    assert desk.code("search_files", pattern="((((a{999}){999}){999}){999}){999}") in {"invalid_pattern", "search_ended", None}


def test_unresponsive_search_process_is_terminated(
    desk: FileDesk, limit: Any, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    worker = desk.folder / "worker.py"
    worker.write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(search_files.search_worker, "__file__", str(worker))
    monkeypatch.setattr(search_files, "GRACE", 0.1)
    limit(seconds=0.1)
    outcome = desk.call("search_files", pattern="a")
    assert (outcome.error_code, outcome.text) == ("search_ended", snapshot)


def test_cancelled_search_leaves_no_process(desk: FileDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = desk.folder / "worker.py"
    worker.write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(search_files.search_worker, "__file__", str(worker))
    processes: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def cancelled() -> None:
        begun = asyncio.Event()

        async def started(*command: Any, **settings: Any) -> Any:
            processes.append(await start(*command, **settings))
            begun.set()
            return processes[0]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
        task = asyncio.ensure_future(desk.tools["search_files"].run({"pattern": "a"}, desk.context))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert processes[0].returncode is not None


def test_invalid_patterns_are_errors(subtests: pytest.Subtests, desk: FileDesk, snapshot: Snapshot) -> None:
    for name, arguments in {"pattern": {"pattern": "a("}, "glob": {"glob": "[z-a]"}}.items():
        with subtests.test(name):
            outcome = desk.call("search_files", **arguments)
            assert (outcome.error_code, outcome.text) == ("invalid_pattern", snapshot(name))
    assert desk.code("search_files", pattern="a", path="nothing") == "not_found"


def test_key_cannot_be_guessed_letter_by_letter(desk: FileDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    desk.put({"a.ini": f"key = {KEY}\n"})
    for pattern in ("key = sk", KEY[:6], KEY[-6:], "sk-t.*f$"):
        assert "a.ini" not in desk.text("search_files", pattern=pattern)
    assert desk.text("search_files", pattern="^key") == "a.ini:1: key = [key]"


def test_search_process_receives_no_key_in_environment_or_arguments(desk: FileDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    worker = desk.folder / "worker.py"
    worker.write_text("import json, os, sys\nprint(json.dumps({'wrong': str(dict(os.environ)) + str(sys.argv)}))\n")
    monkeypatch.setattr(search_files.search_worker, "__file__", str(worker))
    text = desk.call("search_files", pattern="a").text
    assert KEY not in text and "OPENAI" not in text


def test_link_in_the_searched_folder_is_not_followed(desk: FileDesk) -> None:
    (desk.folder / "sub").mkdir()
    (desk.folder / "sub" / "out").symlink_to(desk.outside)
    (desk.folder / "sub" / "secret.txt").symlink_to(desk.outside / "secret.txt")
    for arguments in ({"path": "sub"}, {"path": "."}, {"glob": "**"}):
        assert SECRET.strip() not in desk.text("search_files", pattern="outside", **arguments)
    for path in ("sub/out", "sub/secret.txt"):
        assert desk.code("search_files", pattern="outside", path=path) == "outside_work_dir"
