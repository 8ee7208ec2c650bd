"""Terminals of an agent: allowed commands run in the configured shell, and end with the run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentnb import Agent, Shell
from agentnb.acp.known_agents import KnownAgent
from agentnb.acp.terminals import Command, command_of
from agentnb.core.log.events import CallBlocked, Warned
from agentnb.core.log.well_formed import check_events
from agentnb.core.run.rounds import CallRecord
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.tools.tool import ToolRefused

Make = Callable[..., Agent]
UNASKED = ("git log -5", "cd 'a b' && git log -5")
"""Commands that a rule for the working folder allows."""


def _records(run: Run) -> list[CallRecord]:
    return [record for current in run.rounds for outer in current.records for record in (outer, *outer.inner)]


@pytest.mark.parametrize("play", ["shell", "unasked_shell", "terminal", "task"])
def test_command_is_approved_once_and_returns_its_exit_status(fake: Make, play: str) -> None:
    asked: list[Any] = []

    def approve(call: Any, run: object) -> bool:
        asked.append(call.arguments)
        return True

    run = fake().run_sync(f"{play} echo out; exit 3", approve=approve)
    assert json.loads(run.text) == ["out\n", False, 3, None]
    assert [arguments for arguments in asked if "command" in arguments] == [{"command": "echo out; exit 3"}]
    (result,) = [record.result for record in _records(run) if record.call.name == "bash"]
    assert result is not None
    assert (result.is_error, result.text) == (True, "out\nExit code 3")
    check_events(run.events, "the log")


def test_terminating_signal_is_reported(fake: Make) -> None:
    run = fake().run_sync("shell kill -9 $$", approve="auto")
    assert json.loads(run.text)[2:] == [None, "SIGKILL"]
    assert "signal 9" in str(_records(run)[0].result)


DENIED = {"permissions": {"bash(touch *)": "deny"}, "approve": "auto"}
REJECTED = {"approve": lambda call, run: call.name == "other"}


@pytest.mark.parametrize(
    ("play", "options"),
    [
        ("shell", REJECTED),
        ("unasked_shell", DENIED),
        ("terminal", DENIED),
        ("task", REJECTED),
        *[
            pytest.param(play, options, marks=pytest.mark.nightly("by day each play, and each way, in another pair"))
            for play, options in (("shell", DENIED), ("unasked_shell", REJECTED), ("terminal", REJECTED), ("task", DENIED))
        ],
    ],
)
def test_disallowed_command_does_not_run(fake: Make, tmp_path: Path, play: str, options: dict[str, Any]) -> None:
    run = fake().run_sync(f"{play} touch made.txt", **options)
    assert not [*tmp_path.iterdir()]
    assert [event.call.name for event in run.events if isinstance(event, CallBlocked)] == ["bash"]
    assert not [event for event in run.events if isinstance(event, Warned) and "did not ask" in event.message]
    assert run.text == ("" if play == "shell" else "refused: The person did not allow it.")


def test_command_substituted_after_approval_is_checked_again(fake: Make, tmp_path: Path) -> None:
    run = fake().run_sync("switch touch made.txt", permissions={"bash(touch *)": "deny"}, approve="auto")
    assert run.text == "refused: The person did not allow it."
    assert [event.call.arguments for event in run.events if isinstance(event, CallBlocked)] == [{"command": "touch made.txt"}]
    assert not [*tmp_path.iterdir()]


def test_terminal_output_is_limited_as_the_agent_requests(fake: Make) -> None:
    run = fake().run_sync("short printf 0123456789abcdefgh", approve="auto")
    assert json.loads(run.text)[:2] == ["89abcdefgh", True]
    assert "0123456789abcdefgh" in str(_records(run)[0].result)


def test_output_limit_never_splits_a_character(fake: Make) -> None:
    assert json.loads(fake().run_sync("short printf €€€€", approve="auto").text)[:2] == ["€€€", True]


def test_command_folders_must_be_inside_the_working_folder(fake: Make, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    run = fake().run_sync("below pwd", approve="auto")
    assert json.loads(run.text)[0] == f"{tmp_path.resolve() / 'sub'}\n"
    assert _records(run)[0].call.arguments == {"command": "cd sub && pwd"}
    assert "outside working directory" in fake().run_sync("elsewhere pwd", approve="auto").text


def test_user_configured_shell_runs_the_commands(fake: Make, table: dict[str, KnownAgent]) -> None:
    settings: dict[str, Any] = {"tools": [Shell(env={"REGION": "brest"})]}
    assert json.loads(fake(**settings).run_sync("shell echo $REGION", approve="auto").text)[0] == "brest\n"
    table["fake"] = replace(table["fake"], terminals=False)
    with pytest.raises(SettingsError, match="Shell does not reach acp:fake"):
        fake(**settings).run_sync("hello")


def test_dangerous_commands_are_refused(fake: Make) -> None:
    assert "potentially dangerous command blocked" in fake().run_sync("shell rm -rf ~", approve="auto").text


@pytest.mark.parametrize(
    ("request_", "command"),
    [
        ({"command": "ls -l | wc"}, Command("ls -l | wc", ".", "")),
        ({"command": "ls", "args": ["a b", "$x"]}, Command("ls 'a b' '$x'", ".", "")),
        ({"command": "/bin/bash", "args": ["-c", "cd '{}' && ls; ls"]}, Command("ls; ls", ".", "")),
        ({"command": "bash", "args": ["-c", "cd sub && ls"]}, Command("ls", "sub", "")),
        ({"command": "bash", "args": ["-lc", "ls"]}, Command("bash -lc ls", ".", "")),
        ({"command": "ls", "env": [("TERM", "dumb"), ("SHELL", "x")]}, Command("ls", ".", "export TERM=dumb\n")),
        ({"command": "ls", "env": [("PATH", "/x y")]}, Command("export PATH='/x y'\nls", ".", "")),
        ({"command": "ls", "cwd": "{}/sub"}, Command("ls", "sub", "")),
    ],
)
def test_command_is_judged_with_its_environment(tmp_path: Path, request_: dict[str, Any], command: Command) -> None:
    request = json.loads(json.dumps(request_).replace("{}", str(tmp_path)))
    request["env"] = [{"name": name, "value": value} for name, value in request.get("env", [])]
    assert command_of(request, tmp_path) == command


ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({}, "git log -5"),
    ({"workdir": "{}", "cwd": ".", "env": {"TERM": "dumb"}, "directory": None}, "git log -5"),
    ({"workdir": "/etc"}, "cd /etc && git log -5"),
    ({"cwd": "{}/a b"}, "cd 'a b' && git log -5"),
    ({"cwd": "sub", "working_directory": "../x\0"}, "cd '../x\0' && cd sub && git log -5"),
    ({"env": {"LD_PRELOAD": "x.so"}}, "export LD_PRELOAD=x.so\ngit log -5"),
    ({"env": [{"name": "PATH", "value": "/x y"}], "cwd": ".."}, "cd .. && export PATH='/x y'\ngit log -5"),
    ({"env": ["TERM=dumb", "PAGER=x"]}, "export TERM=dumb\nexport PAGER=x\ngit log -5"),
    ({"env": 5}, "export 5=''\ngit log -5"),
]
"""Arguments of the command ``git log -5``, and how they are judged."""


def test_command_is_judged_with_its_arguments(fake: Make, tmp_path: Path) -> None:
    asked: list[Any] = []

    def approve(call: Any, run: object) -> bool:
        asked.append(call.arguments["command"])
        return True

    calls = [{"command": "git log -5", **arguments} for arguments, _ in ARGUMENTS]
    reported = json.dumps(calls, separators=(",", ":")).replace("{}", str(tmp_path))
    spaceless = reported.replace(" ", "\\u0020")  # each word of a prompt may be a play of its own
    run = fake().run_sync(f"placed {spaceless}", approve=approve, permissions={"bash(git log *)": "allow"})
    judged = [judged for _, judged in ARGUMENTS]
    assert [current.text for current in run.rounds if current.text] == ["yes"] * len(judged)
    assert asked == [one for one in judged if one not in UNASKED]
    assert [record.call.arguments["command"] for record in _records(run)] == judged


@pytest.mark.parametrize("folder", ["..", "/", "sub/../.."])
def test_changing_to_an_outside_folder_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ToolRefused, match="outside"):
        command_of({"command": "bash", "args": ["-c", f"cd {shlex.quote(folder)} && ls"]}, tmp_path)
