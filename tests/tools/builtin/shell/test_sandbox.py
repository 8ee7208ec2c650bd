"""Commands that work in the sandbox, and their view of the system."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shlex
import subprocess
import sys
import threading
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bash_calls import call_bash, skip_without_sandbox

from agentnb import settings
from agentnb.tools.builtin.shell import sandbox_view
from agentnb.tools.builtin.shell.sandbox import Sandbox
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.tool import ToolOutcome

SHELL = Shell(sandbox="bwrap", timeout=120)
GIT = "git -c init.defaultBranch=main -c user.name=Me -c user.email=me@example.org"


@pytest.fixture(autouse=True)
def sandbox() -> None:
    skip_without_sandbox()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project folder beside the home of the person."""
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    (home / ".gitconfig").write_text('[user]\n\tname = "Ada \\"Countess\\" Lovelace"\n\temail = ada@example.org\n')
    (home / "diary.txt").write_text("dear diary")
    monkeypatch.setenv("HOME", str(home))
    return home / "project"


def bash(folder: Path, command: str, shell: Shell = SHELL) -> ToolOutcome:
    return call_bash(shell, folder, command)


def shown(folder: Path, command: str, shell: Shell = SHELL) -> str:
    outcome = bash(folder, command, shell)
    assert outcome.ok, outcome.text
    return outcome.text


def git(folder: Path, command: str) -> str:
    done = subprocess.run(f"{GIT} {command}", shell=True, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_sandboxed_command_can_write_inside_the_folder(work: Path) -> None:
    assert shown(work, "pwd; echo text > new.txt; mkdir sub && mv new.txt sub/; cat sub/new.txt") == f"{work}\ntext\n"
    assert (work / "sub" / "new.txt").read_text() == "text\n"


def test_sandboxed_command_leaves_no_extra_files(work: Path) -> None:
    assert shown(work, "true") == "(no output)"
    assert names(work) == set()
    git(work, "init -q .")
    before = names(work)
    shown(work, "true")
    assert names(work) == before


def test_git_commit_uses_the_name_and_address_of_the_user(work: Path, subtests: pytest.Subtests) -> None:
    git(work, "init -q .")
    (work / "part").mkdir()
    git(work, "worktree add -q --orphan -b side ../side 2>/dev/null || " + f"{GIT} commit -q --allow-empty -m first")
    if not (work.parent / "side").exists():
        git(work, "worktree add -q -b side ../side")
    for case, folder in {"at the top": work, "in a folder below": work / "part", "in a worktree": work.parent / "side"}.items():
        with subtests.test(case):
            shown(folder, "echo a > a.txt && git add . && git commit -q -m 'A change'")
            assert git(folder, "log -1 --format='%an <%ae> %cn %s'") == (
                'Ada "Countess" Lovelace <ada@example.org> Ada "Countess" Lovelace A change\n'
            )
            assert git(folder, "status --porcelain -uno") == ""


def test_repository_settings_override_user_settings(work: Path) -> None:
    git(work, "init -q . && git config user.name 'Project'")
    shown(work, "git commit -q --allow-empty -m x")
    assert git(work, "log -1 --format='%an <%ae>'") == "Project <ada@example.org>\n"


@pytest.mark.slow("imports pandas")
def test_kernel_python_imports_pandas(work: Path) -> None:
    shell = Shell(sandbox="bwrap", env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}, timeout=120)
    assert shown(work, 'python -c "import pandas; print(pandas.Series([1, 2]).sum())"', shell) == "3\n"


def test_python_in_the_home_folder_is_readable(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = work.parent / "python"
    (prefix / "bin").mkdir(parents=True)
    (work.parent / "links").mkdir()
    (work.parent / "links" / "python3").symlink_to("../python/bin/python3")
    (prefix / "bin" / "python3").write_text("#!/bin/sh\necho here\n")
    (prefix / "bin" / "python3").chmod(0o755)
    (work.parent / "env").symlink_to("python")
    for name in ("prefix", "exec_prefix"):
        monkeypatch.setattr(sys, name, str(work.parent / "env"))
    monkeypatch.setattr(sys, "executable", str(work.parent / "links" / "python3"))
    text = shown(
        work, "../links/python3; ../env/bin/python3; ../python/bin/python3; ls -A ..; touch ../env/x 2>/dev/null || echo no"
    )
    assert text.split() == ["here"] * 3 + [".gitconfig", "env", "links", "project", "python", "no"]


def test_kernel_python_inside_the_folder_cannot_be_changed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = work / "envs" / "mine"
    (prefix / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    text = shown(work, "touch envs/mine/bin/python || echo kept; mv envs other || echo kept; touch envs/new && echo free")
    assert [line for line in text.splitlines() if line in ("kept", "free")] == ["kept", "kept", "free"]
    assert names(work) == {"envs", "envs/mine", "envs/mine/bin", "envs/new"}


def test_repository_around_the_folder_is_readable(work: Path) -> None:
    (work.parent / "other").mkdir()
    git(work, "init -q .")
    (work / "top.txt").write_text("top")
    (work / ".env").write_text("KEY=1")
    (work / "part").mkdir()
    text = shown(work / "part", "cat ../top.txt ../.env; touch ../x 2>/dev/null || echo no; ls -A ../..")
    assert text.split() == ["topno", ".gitconfig", "project"]


def test_home_folder_that_is_a_repository_stays_hidden(work: Path) -> None:
    git(work.parent, "init -q .")
    assert shown(work, "ls -A ..; git status 2>&1 | head -c 5") == ".gitconfig\nproject\nfatal"


def test_home_and_temporary_folders_are_hidden_but_writable(work: Path) -> None:
    name = uuid.uuid4().hex
    text = shown(
        work,
        f"cat ../diary.txt ~/diary.txt 2>/dev/null; for d in ~ /tmp /var/tmp; do echo x > $d/{name} && cat $d/{name}; done",
    )
    assert text == "x\nx\nx\n"
    assert not (work.parent / name).exists() and not Path("/tmp", name).exists()
    assert shown(work, "ls -A /run /home") == "/home:\n\n/run:\n"


def test_key_files_appear_empty_in_the_sandbox(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = work / "a" / "b"
    deep.mkdir(parents=True)
    (work / "envs" / "lib").mkdir(parents=True)
    (work / "envs" / "pyvenv.cfg").touch()
    (work / "envs" / "lib" / "cacert.pem").write_text("BEGIN CERTIFICATE public")
    for name in (".env", ".env.local", "server.pem", "a/id_rsa", "a/b/.netrc", "real.key"):
        (work / name).write_text("secret")
    (work / "link.pem").symlink_to("plain.txt")
    for name in (".env.example", "a/id_rsa.pub", "plain.txt"):
        (work / name).write_text("open")
    command = "cat .env .env.local server.pem a/id_rsa a/b/.netrc real.key link.pem plain.txt"
    assert shown(work, f"{command}; cat .env.example a/id_rsa.pub envs/lib/*") == "openopenBEGIN CERTIFICATE public"
    assert not bash(work, "echo x > .env || rm .env || mv .env y").ok
    assert (work / ".env").read_text() == "secret"


def test_no_command_runs_if_key_files_cannot_be_found(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_view, "MAX_ENTRIES", 3)
    (work / "a" / "b").mkdir(parents=True)
    for name in (".env", "a/.env", "a/b/.env"):
        (work / name).write_text("secret")
    outcome = bash(work, "cat a/b/.env")
    assert (outcome.error_code, "secret" in outcome.text) == ("not_sandboxed", False)


def test_no_command_can_reveal_hidden_key_files(work: Path, subtests: pytest.Subtests) -> None:
    git(work, "init -q .")
    (work / "cfg").mkdir()
    for name in (".env", "cfg/.env"):
        (work / name).write_text("secret")
    (work / ".agentnb" / "runs" / ".before-1").mkdir(parents=True)
    (work / ".agentnb" / "runs" / ".before-1" / "0").write_text("secret")
    for command in (
        "touch pyvenv.cfg; true",
        "mv cfg node_modules",
        "mkdir s; mv node_modules s/.git",
        "mv s/.git s/.agentnb",
        "mv s/.agentnb .git/cfg",
        "cat .agentnb/runs/.before-*/0",
    ):
        with subtests.test(command):
            bash(work, command)
            assert "secret" not in bash(work, "grep -r secret . 2>/dev/null; cat $(find . -name .env) 2>/dev/null; true").text


def test_folder_cannot_become_a_repository(work: Path) -> None:
    git(work, "init -q .")
    (work / "part").mkdir()
    for folder in (work / "part", work.parent / "other"):
        folder.mkdir(exist_ok=True)
        bash(folder, "mkdir -p objects refs; printf 'ref: refs/heads/main' > HEAD; printf '[core]' > config")
        assert not (folder / "HEAD").exists() and "objects" in names(folder)


def test_hooks_and_settings_in_the_folder_cannot_be_changed(work: Path) -> None:
    git(work, "init -q . && git config core.hooksPath .husky && git config include.path ../team.cfg")
    (work / ".husky").mkdir()
    (work / "team.cfg").write_text("[user]\n")
    text = shown(work, "echo x > .husky/pre-commit || echo kept; echo x > team.cfg || echo kept; echo free > new && cat new")
    assert [line for line in text.splitlines() if line in ("kept", "free")] == ["kept", "kept", "free"]
    assert names(work / ".husky") == set() and (work / "team.cfg").read_text() == "[user]\n"


def test_folder_hidden_by_the_sandbox_is_refused(work: Path) -> None:
    for folder in (work.parent, Path("/tmp"), Path("/")):
        outcome = bash(folder, "echo")
        assert (outcome.ok, outcome.error_code) == (False, "not_sandboxed"), folder


def test_sandboxed_command_has_the_usual_environment_variables(work: Path) -> None:
    lines = shown(work, "env", Shell(sandbox="bwrap", env={"REGION": "brest"})).splitlines()
    assert {line.partition("=")[0] for line in lines} - {"PWD", "SHLVL", "_"} == {"PATH", "HOME", "REGION"}


def test_programs_written_by_a_command_do_not_start_the_sandbox(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = settings.program_variables()
    monkeypatch.setenv("PATH", f"{work / 'bin'}:{variables['PATH']}")
    shown(work, f"mkdir bin; for p in bwrap git; do printf '#!/bin/sh\\ntouch {work}/ran' > bin/$p; chmod +x bin/$p; done")
    shown(work, "true")
    Sandbox(work, settings.program_variables(), has_network=False)
    assert not (work / "ran").exists()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wheel(folder: Path) -> None:
    """Write a package without a build tool."""
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny-1.0-py3-none-any.whl", "w") as file:
        file.writestr("tiny.py", "SIZE = 3\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.mark.slow("makes an environment and installs into it")
def test_pip_installs_into_an_environment_in_the_folder(work: Path, tmp_path: Path) -> None:
    skip_without_sandbox(has_network=True)
    (tmp_path / "index").mkdir()
    wheel(tmp_path / "index")
    with served(tmp_path / "index") as port:
        python = shlex.quote(sys.executable)
        install = f"{python} -m venv --without-pip env && {python} -m pip --python env install -q --no-index"
        install += f" --disable-pip-version-check --find-links http://127.0.0.1:{port}/ tiny"
        shown(work, f"{install} 2>&1", Shell(sandbox="bwrap", network=True, timeout=120))
        assert not bash(work, f"{install} --force-reinstall --retries 0").ok, "fails without the network"
    assert shown(work, "env/bin/python -c 'import tiny; print(tiny.SIZE)'") == "3\n"


def test_sandbox_starts_with_any_python_path(work: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    folder = Path(sys.executable).parent
    (work.parent / "env").symlink_to(folder.parent)
    for path in (f"{folder}/../{folder.name}/python", f"{work.parent}/env/{folder.name}/python"):
        with subtests.test(path):
            monkeypatch.setattr(sys, "executable", path)
            monkeypatch.setattr(sys, "prefix", str(Path(path).parent.parent))
            assert shown(work, f"{shlex.quote(path)} -Ic 'print(1 + 1)'" if "env" not in path else "echo 2") == "2\n"


def test_failing_sandbox_startup_does_not_abort_the_call(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = bash(work, "exit 1")
    monkeypatch.setattr("agentnb.tools.builtin.shell.sandbox.SYSTEM", ("--ro-bind", "/no/such/folder", "/x"))
    failed = bash(work, "exit 1")
    assert (ended.error_code, failed.error_code) == ("command_failed", "not_sandboxed")
    assert "did not run" in failed.text and "Exit code" not in failed.text
