"""Ways out of the sandbox, each tried by a command inside it. Each also runs without a sandbox if it leads out there.

Commands are harmless on a machine where they lead out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from bash_calls import call_bash, has_ended, skip_without_sandbox

from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.shell import sandbox_view
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.tool import ToolContext

SHELL, OPEN, NETWORK = Shell(sandbox="bwrap"), Shell(), Shell(sandbox="bwrap", network=True)
SECRET = "secret of the person"
PYTHON = f"{shlex.quote(sys.executable)} -IS"


@pytest.fixture(autouse=True)
def sandbox() -> None:
    skip_without_sandbox()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project folder in the home of the person, beside a secret."""
    work = tmp_path / "home" / "project"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "secret.txt").write_text(SECRET)
    return work


def tried(folder: Path, command: str, shell: Shell = SHELL) -> str:
    """Run a command and return its output, failed or not."""
    return call_bash(shell, folder, command).text


def repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run("git config user.name Me; git config user.email me@example.org", shell=True, cwd=folder, check=True)
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_symlinks_and_dot_dot_paths_cannot_leave_the_folder(work: Path, subtests: pytest.Subtests) -> None:
    secret = work.parent / "secret.txt"
    (work / "given").symlink_to(secret)
    for case, command in {
        "dots": "cat ../secret.txt",
        "absolute": f"cat {secret}",
        "a link": "cat given",
        "a link of its own": "ln -s ../secret.txt made; cat made",
        "the root of another process": f"cat /proc/$PPID/root{secret}; cat /proc/1/root{secret} /proc/1/cwd/../secret.txt",
    }.items():
        with subtests.test(case):
            assert SECRET in tried(work, command, OPEN)
            (work / "made").unlink(missing_ok=True)
            assert SECRET not in tried(work, command)


def test_command_cannot_write_outside_the_folder(work: Path, subtests: pytest.Subtests) -> None:
    name = f"agentnb-{uuid.uuid4().hex}"
    for folder in (work.parent, Path("/tmp"), Path("/var/tmp"), Path("/etc"), Path("/usr"), Path(sys.prefix), Path("/dev/shm")):
        with subtests.test(str(folder)):
            tried(work, f"touch {folder}/{name}; ln -s {folder} link; touch link/{name}")
            assert not (folder / name).exists()


def test_kernel_processes_are_invisible(work: Path) -> None:
    key = f"sk-{uuid.uuid4().hex}"
    with subprocess.Popen(["sleep", "999"], env={"API_KEY": key}) as other:
        try:
            reading = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep API_KEY="
            assert key in tried(work, reading, OPEN)
            text = tried(work, f"{reading}; kill -9 {other.pid}; ls -d /proc/[0-9]*")
            assert other.poll() is None
        finally:
            other.kill()
    assert key not in text
    assert len([line for line in text.splitlines() if line.startswith("/proc/")]) < 10


def test_keys_in_the_kernel_environment_are_hidden_from_commands(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    assert "0123456789abcdef" not in tried(work, "env; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ")


def test_root_cannot_change_mounts(work: Path, subtests: pytest.Subtests) -> None:
    name = f"agentnb-{uuid.uuid4().hex}"
    home, mark = work.parent, Path("/usr") / name
    for case, command in {
        "remount": f"mount -o remount,rw,bind /; mount -o remount,rw /; touch {mark}",
        "unmount": f"umount {home}; umount -l {home}; cat {home}/secret.txt",
        "a user namespace": f"unshare -Urm sh -c 'umount {home}; mount -o remount,rw /; touch {mark}; cat {home}/secret.txt'",
        "the disk": "mknod disk b $(stat -c '%Hd %Ld' / 2>/dev/null || echo 8 0); head -c 4096 disk",
        "settings of the kernel": ": <> /proc/sys/kernel/core_pattern && echo opened",
        "the pressure": ": <> /proc/pressure/cpu && echo opened",
        "keys of the kernel": ": >> /proc/sysrq-trigger && echo opened",
        "devices": ": >> /sys/kernel/mm/transparent_hugepage/enabled && echo opened",
    }.items():
        with subtests.test(case):
            text = tried(work, command)
            assert SECRET not in text and not mark.exists() and "opened" not in text
    assert {line.split()[1] for line in tried(work, "grep ^Cap /proc/self/status").splitlines()} == {"0" * 16}


def test_no_background_process_outlives_its_command(work: Path, subtests: pytest.Subtests) -> None:
    apart = (
        f'{PYTHON} -c \'import subprocess; subprocess.Popen(["sleep", "{{}}"], start_new_session=True, stdout=-3, stderr=-3)\''
    )
    for case, command in {
        "background": "sleep {} &",
        "session": "setsid -f sleep {} >/dev/null 2>&1",
        "no descriptors": apart,
    }.items():
        with subtests.test(case):
            seconds = f"{uuid.uuid4().int % 10**8 + 10**6}"
            assert call_bash(SHELL, work, command.format(seconds)).ok
            assert not running(seconds)


def test_no_background_process_survives_a_stop(work: Path) -> None:
    seconds = f"{uuid.uuid4().int % 10**8 + 10**6}"
    fifo = work / "fifo"
    os.mkfifo(fifo)
    command = f"setsid -f sleep {seconds} >/dev/null 2>&1; echo begun > fifo; sleep 999"

    async def stopped() -> list[int]:
        context = ToolContext("r-1", "toolu_1", work, call_in_thread)
        task = asyncio.create_task(SHELL.tools[0].run({"command": command}, context))
        assert await asyncio.to_thread(fifo.read_text) == "begun\n"
        while not (numbers := running(seconds)):  # a process has no arguments while it begins another program
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return numbers

    assert all(map(has_ended, asyncio.run(stopped())))


def running(argument: str) -> list[int]:
    """Return the processes with this argument."""
    result = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in path.read_bytes().split(b"\0"):
                result.append(int(path.parent.name))
    return result


@contextlib.contextmanager
def listening(family: int, address: str | tuple[str, int]) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen()
        yield server


def test_network_is_unreachable(work: Path) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert tried(work, command, OPEN) == tried(work, command, NETWORK) == "connected\n"
        assert "connected" not in tried(work, command)
    interfaces = {line.split(":")[0].strip() for line in tried(work, "tail -n +3 /proc/net/dev").splitlines()}
    assert interfaces <= {"lo", "sit0", "tunl0", "ip6tnl0", "gre0", "erspan0", "gretap0"}


def test_kernel_sockets_are_unreachable(work: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    top = repository(tmp_path / "home" / "t")
    part = top / "p"
    (part / "node_modules").mkdir(parents=True)
    for case, address in {
        "among temporary files": str(tmp_path / "s"),
        "in the folder": str(part / "s"),
        "in the repository": str(top / "s"),
        "among packages": str(part / "node_modules" / "s"),  # an address has 107 bytes
        "abstract": f"\0agentnb-{uuid.uuid4().hex}",
    }.items():
        with subtests.test(case), listening(socket.AF_UNIX, address):
            connect = f'import socket; socket.socket(socket.AF_UNIX).connect({address!r}); print("connected")'
            command = f"{PYTHON} -c '{connect.replace(chr(39), chr(34))}'"
            assert tried(part, command, OPEN) == "connected\n"
            assert "connected\n" not in tried(part, command)


def test_socket_of_another_container_is_unreachable(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_view, "SOCKETS", Path("/dev/null"))  # the list of another network has it
    with listening(socket.AF_UNIX, str(work / "s")):
        connect = 'import socket; socket.socket(socket.AF_UNIX).connect("s"); print("connected")'
        assert "connected\n" not in tried(work, f"{PYTHON} -c '{connect}'")


def test_kernel_key_is_hidden(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = work / "kernel-1.json"
    file.write_text(json.dumps({"shell_port": 1, "key": SECRET}))
    monkeypatch.setattr(sys, "argv", ["ipykernel_launcher", f"--f={file}"])
    assert tried(work, f"cat {file}") == "(no output)"
    runtime = work / "runtime"
    runtime.mkdir()
    (runtime / "kernel-2.json").write_text(SECRET)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(runtime))
    assert SECRET not in tried(work, "cat runtime/*")


def test_files_that_git_runs_outside_cannot_be_changed(work: Path, subtests: pytest.Subtests) -> None:
    for case in ("a repository", "without hooks", "the folder of a repository", "no repository"):
        folder = work / case.replace(" ", "-")
        folder.mkdir()
        top = folder if case == "no repository" else repository(folder)
        if case == "without hooks":
            subprocess.run(["rm", "-rf", folder / ".git" / "hooks"], check=True)
        inside = folder / "part" if case == "the folder of a repository" else folder
        inside.mkdir(exist_ok=True)
        before = contents(top / ".git")
        with subtests.test(case):
            git = top / ".git"
            tries = [
                f"echo x >> {git}/config; git config core.fsmonitor /bin/x; rm -f {git}/config; mv {git}/hooks {git}/h",
                f"mkdir -p {git}/hooks; echo x > {git}/hooks/pre-commit; rm -rf {git}/hooks; rm -rf {git}/hooks/*",
                f"mkdir -p evil/hooks; printf '../evil\\n' > {git}/commondir; git init -q . --template=evil",
                f"mv {git} {git}2; cp -r {git}2 {git}; echo x >> {git}/config; echo x > {git}; rmdir {git}",
            ]
            tried(inside, "\n".join(tries))
            after = contents(git)
            changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
            assert {name for name in changed if name.startswith(("config", "hooks", "commondir"))} == set()
            assert git.is_dir() == (case != "no repository")


def test_nested_repositories_and_the_store_cannot_be_changed(work: Path) -> None:
    inner = repository(work / "vendor" / "inner")
    (work / ".agentnb").mkdir()
    (work / ".agentnb" / "log").write_text("log")
    before = contents(work)
    tried(
        work, "echo x >> vendor/inner/.git/config; echo x > vendor/inner/.git/hooks/pre-commit; rm -f vendor/inner/.git/config"
    )
    tried(work, "echo x > .agentnb/log; touch .agentnb/x; rm -rf .agentnb/*; mv .agentnb y")
    assert contents(work) == before and inner.exists()


def test_store_cannot_be_created(work: Path) -> None:
    tried(work, "mkdir .agentnb; echo x > .agentnb/x; rmdir .agentnb; ln -s /tmp .agentnb")
    assert contents(work) == {} and not (work / ".agentnb").exists()


def test_git_file_does_not_expose_another_repository(work: Path, subtests: pytest.Subtests) -> None:
    other = repository(work.parent / "other")
    subprocess.run("git commit -q --allow-empty -m x; git worktree add -q ../tree", shell=True, cwd=other, check=True)
    (other / ".git" / "secret.txt").write_text(SECRET)
    (other / ".git" / "worktrees" / "tree" / "secret.txt").write_text(SECRET)
    (work / "part").mkdir()
    for case, target in {"a repository": other / ".git", "a worktree": other / ".git" / "worktrees" / "tree"}.items():
        with subtests.test(case):
            (work / ".git").write_text(f"gitdir: {target}\n")
            assert SECRET not in tried(work / "part", f"cat {target}/secret.txt; touch {target}/x")
            assert not (target / "x").exists()


def test_command_has_its_own_session_and_shared_memory(work: Path) -> None:
    assert tried(work, f"{PYTHON} -c 'import os; print(os.getsid(0) > 0)'") == "True\n", "not in the kernel's terminal session"
    assert tried(work, "readlink /proc/self/ns/ipc").strip() not in ("", str(Path("/proc/self/ns/ipc").readlink()))
