"""Processes of git: bounded output, time limit, and no process left after a stop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentnb.tools.builtin.git import git_process
from agentnb.tools.builtin.git.git_process import run_process
from agentnb.tools.tool import ToolRefused

ENVIRONMENT: Mapping[str, str] = {"PATH": os.environ["PATH"]}
HERE = Path()
WITH_CHILD = "exec 3>alive; sh -c 'echo go >&3; exec sleep 1000' & wait"
CLEANS_UP = f"trap 'touch cleaned; exit' TERM; {WITH_CHILD}"
"""A script that holds the pipe ``alive`` open, like its child."""
IGNORES = f"trap '' TERM; {WITH_CHILD}"


def test_process_returns_its_code_and_output() -> None:
    script = "cat; echo down >&2; exit 3"
    result = asyncio.run(run_process(["sh", "-c", script], HERE, ENVIRONMENT, b"up"))
    assert (result.code, bytes(result.output.head), result.error) == (3, b"up", "down")


def test_process_that_does_not_read_its_input_succeeds() -> None:
    result = asyncio.run(run_process(["true"], HERE, ENVIRONMENT, b"x" * 1_000_000))
    assert result.code == 0


def test_program_that_cannot_be_started_is_an_error() -> None:
    with pytest.raises(ToolRefused) as refused:
        asyncio.run(run_process(["true"], HERE / "nothing", ENVIRONMENT))
    assert refused.value.outcome.error_code == "git_error"


def read_pipe(pipe: int) -> bytes:
    """Wait for the next bytes of a pipe: empty when no process holds its other end."""
    os.set_blocking(pipe, True)
    return os.read(pipe, 10)


async def stop_when_running(script: str) -> None:
    pipe = os.open("alive", os.O_RDONLY | os.O_NONBLOCK)
    task = asyncio.create_task(run_process(["sh", "-c", script], HERE, ENVIRONMENT))
    while not (first := await asyncio.to_thread(read_pipe, pipe)):
        await asyncio.sleep(0)  # nobody has opened the pipe yet
    assert first == b"go\n"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(read_pipe, pipe) == b"", "the whole group has ended"
    os.close(pipe)


def test_stop_ends_the_process_group_after_its_cleanup() -> None:
    os.mkfifo("alive")
    asyncio.run(stop_when_running(CLEANS_UP))
    assert Path("cleaned").exists()


def test_process_that_ignores_a_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentnb.tools.builtin.git.git_process.SECONDS_TO_CLEAN_UP", 0.01)
    os.mkfifo("alive")
    asyncio.run(stop_when_running(IGNORES))


def test_time_limit_ends_the_process_group() -> None:
    os.mkfifo("alive")
    pipe = os.open("alive", os.O_RDWR)
    with pytest.raises(ToolRefused) as refused:
        asyncio.run(run_process(["sh", "-c", CLEANS_UP], HERE, ENVIRONMENT, seconds=0.01))
    assert refused.value.outcome.error_code == "timeout"
    os.close(pipe)


@pytest.mark.skipif(sys.platform != "linux", reason="where a process waits is known on Linux only")
def test_git_does_not_wait_for_named_pipes(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "LOOK_SECONDS", 0.02)
    subprocess.run(
        "git init -q . && touch f && git add f && git -c user.name=a -c user.email=b commit -qm one", shell=True, check=True
    )
    for name, command in (
        (".gitignore", "status"),
        (".gitattributes", "diff"),
        (".mailmap", "log"),
        (".git/info/exclude", "status"),
    ):
        with subtests.test(name):
            Path("f").write_text(name)
            Path(name).unlink(missing_ok=True)
            os.mkfifo(name)
            with pytest.raises(ToolRefused) as refused:
                asyncio.run(run_process(["git", command], HERE, ENVIRONMENT))
            assert git_process.WAITS in refused.value.outcome.text
            Path(name).unlink()
    Path("f").unlink()
    os.mkfifo("f")
    assert asyncio.run(run_process(["git", "diff"], HERE, ENVIRONMENT)).code == 0, "a tracked name is not opened"


def test_hanging_helper_program_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentnb.tools.builtin.git.git_process.SECONDS_TO_CLEAN_UP", 0.01)
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    (tmp_path / "setpriv").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "setpriv").chmod(0o755)
    assert git_process._death_signal_prefix.__wrapped__() == ()


@pytest.mark.skipif(not git_process._death_signal_prefix(), reason="needs setpriv of util-linux")
def test_process_dies_with_its_parent() -> None:
    os.mkfifo("alive")
    program = f"""
import asyncio
from pathlib import Path
from agentnb.tools.builtin.git.git_process import run_process
asyncio.run(run_process(["sh", "-c", "exec 3>alive; echo go >&3; exec sleep 1000"], Path(), {dict(ENVIRONMENT)!r}))
"""
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        pipe = os.open("alive", os.O_RDONLY)
        assert read_pipe(pipe) == b"go\n"
        parent.kill()
    assert read_pipe(pipe) == b"", "no process holds the pipe"
    os.close(pipe)
