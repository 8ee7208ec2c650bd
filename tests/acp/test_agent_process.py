"""Agent processes: none survives the run, a stop, or the kernel."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from bash_calls import skip_without_sandbox
from fork_server import ForkServer
from killed_kernels import Kernel, experiments, runs
from msgspec.structs import replace
from property_settings import size
from waiting import wait_until

from agentnb import Agent, Store
from agentnb.acp.acp_model import AcpModel
from agentnb.acp.acp_session import SECONDS_TO_ANSWER, SECONDS_TO_CANCEL, SECONDS_TO_STOP
from agentnb.acp.agent_process import PASSED, SECONDS_TO_EXIT, AgentProcess
from agentnb.acp.known_agents import KnownAgent
from agentnb.acp.terminals import Terminals
from agentnb.core.log.events import TextDelta
from agentnb.errors import ModelError

SECONDS = 10
HEARD = 21
"""Lines printed by the kernel before the agent ignores everything."""


def marked(word: str) -> list[int]:
    """Return the processes whose environment holds this word; a process that starts a program has none for a moment."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and word.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until_gone(word: str) -> list[int]:
    """Wait until no process has this word; return the remaining ones on timeout."""
    until = time.monotonic() + SECONDS
    while (left := marked(word)) and time.monotonic() < until:
        time.sleep(0.02)
    return left


@pytest.fixture
def word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A word in the environment of all processes that the test begins."""
    made = f"mark-{tmp_path.name}-{os.getpid()}"
    monkeypatch.setenv("LANG", made)
    return made


def programs(word: str) -> set[str]:
    """Return the names of the programs, and of scripts after ``python -I -S``, that the processes with this word run."""
    names = set[str]()
    for pid in marked(word):
        with suppress(OSError):  # it has ended meanwhile
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            names |= {Path(name).name for name in (words[0], *words[3:4])}
    return names


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc to look at")


def test_agent_may_store_its_conversation_after_the_last_turn(fake: Callable[..., Agent], tmp_path: Path) -> None:
    fake().run_sync(f"store {tmp_path / 'conversation'}")
    assert (tmp_path / "conversation").exists()


def test_agent_is_given_one_second_to_end() -> None:
    before_the_kill = SECONDS_TO_ANSWER + max(SECONDS_TO_CANCEL, SECONDS_TO_EXIT)
    assert before_the_kill < SECONDS_TO_STOP == AcpModel.seconds_to_end <= 1


@needs_proc
@pytest.mark.parametrize("prompt", ["sleep", "deaf", "hello"])
def test_no_process_survives_a_stop_or_an_end(
    fake: Callable[..., Agent], word: str, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remaining, end = list[float](), AgentProcess.end

    async def note(process: AgentProcess, until: float) -> None:
        remaining.append(until - asyncio.get_running_loop().time())
        await end(process, until)

    monkeypatch.setattr(AgentProcess, "end", note)
    live = fake().start(prompt, watch=lambda item: live.stop() if isinstance(item, TextDelta) and prompt != "hello" else None)
    run = live.result(SECONDS)
    assert run.status == ("completed" if prompt == "hello" else "cancelled")
    assert remaining[0] < SECONDS_TO_STOP - (SECONDS_TO_CANCEL if prompt == "deaf" else 0)
    assert not wait_until_gone(word)


@needs_proc
@pytest.mark.slow("at night two hundred kernels, each killed at another place")
def test_killing_the_kernel_leaves_no_process_and_loses_no_data(kernels: ForkServer, word: str, tmp_path: Path) -> None:
    kills = size(1, nightly=200)
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = HEARD if number == 0 else 1 + number * HEARD // kills
        kernel = Kernel(kernels, runs, folder, "write two unasked deaf", {"LANG": word})
        heard = [kernel.told.readline() for _ in range(lines)]
        if number == 0:
            wait_until(lambda: len(marked(word)) >= 3)  # the guard, the agent, and its detached process
        heard += kernel.kill()
        assert not wait_until_gone(word)
        store = Store(folder / "runs")
        kept = {event.seq for run_id in store.ids() for event in store.load(run_id).events}
        assert {int(seq) for line in heard for seq in line.split()[1:]} <= kept


TREE = "export LANG={word}; setsid sh -c 'echo > ready; exec /bin/sleep 600' & wait"
"""A command whose detached process reports its start."""


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A file that is read once a command of the test has written it."""
    os.mkfifo(path := tmp_path / "ready")
    return path


@needs_proc
def test_no_process_of_a_command_survives_a_stop(fake: Callable[..., Agent], word: str, ready: Path) -> None:
    live = fake().start("shell " + TREE.format(word=word), approve="auto")
    ready.read_text()
    wait_until(lambda: len(marked(word)) >= 3)  # the guard, the agent, and the detached process of the command
    live.stop()
    assert live.result(SECONDS).status == "cancelled"
    assert not wait_until_gone(word)


@needs_proc
def test_no_process_of_a_command_survives_killing_the_kernel(
    kernels: ForkServer, word: str, tmp_path: Path, ready: Path
) -> None:
    kernel = Kernel(kernels, runs, tmp_path, "shell " + TREE.format(word=word), {"LANG": word})
    ready.read_text()
    wait_until(lambda: len(marked(word)) >= 3)
    kernel.kill()
    assert not wait_until_gone(word)


@needs_proc
def test_no_process_in_a_sandbox_survives_killing_the_kernel(kernels: ForkServer, word: str, tmp_path: Path) -> None:
    skip_without_sandbox()
    (tmp_path / "task").mkdir()
    with TemporaryDirectory() as left:
        kernel = Kernel(kernels, experiments, tmp_path, "deaf", {"LANG": word, "TMPDIR": left})
        wait_until(lambda: {"bridge.py", "sleep"} <= programs(word))
        kernel.kill()
        assert not wait_until_gone(word)


@needs_proc
def test_command_still_running_ends_with_the_run(fake: Callable[..., Agent], word: str) -> None:
    run = fake().run_sync(f"leave export LANG={word}; echo out; exec tail -f /dev/null", approve="auto")
    (record,) = run.rounds[0].records
    assert record.result is not None
    assert (run.status, record.result.text) == ("completed", "out\n[The command is still running.]")
    assert not wait_until_gone(word)


@needs_proc
def test_agent_that_never_reads_is_stopped(fake: Callable[..., Agent], table: dict[str, KnownAgent], word: str) -> None:
    table["fake"] = replace(table["fake"], command=(*table["fake"].command, "unread"))
    live = fake().start("x" * 2**20, watch=lambda item: live.stop() if isinstance(item, TextDelta) else None)
    assert live.result(SECONDS).status == "cancelled"
    assert not wait_until_gone(word)


@needs_proc
def test_agent_ends_even_if_closing_its_terminals_fails(
    fake: Callable[..., Agent], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def close(terminals: Terminals) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(Terminals, "close", close)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(fake().run("hello"))
    assert not wait_until_gone(word)


def test_only_named_environment_variables_are_passed_to_the_agent(
    fake: Callable[..., Agent], table: dict[str, KnownAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANTED", "UNNAMED", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "kept-to-itself")
    table["fake"] = replace(table["fake"], keys=("WANTED",), env={"OF_ITS_ROW": "1"})
    names = {*fake().run_sync("environment").text.split()}
    assert {"WANTED", "OF_ITS_ROW"} <= names <= {"WANTED", "OF_ITS_ROW", *PASSED, "LC_CTYPE", "PWD", "SHLVL", "_"}


def test_missing_program_error_has_installation_instructions(fake: Callable[..., Agent], table: dict[str, KnownAgent]) -> None:
    table["fake"] = replace(table["fake"], command=("no-such-agent",))
    with pytest.raises(ModelError, match="Install it: nothing to install"):
        fake().run_sync("hello")
