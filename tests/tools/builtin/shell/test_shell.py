"""The group ``shell`` and its tool ``bash``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from bash_calls import call_bash

from agentnb import settings
from agentnb.errors import SettingsError
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.subject import nature_of, subject_of

SHELL = Shell()
KEY = "correcthorsebattery"


@pytest.mark.req("R2.17", "R2.21")
def test_bash_has_the_schema_of_its_group() -> None:
    schema = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Command to run"},
            "timeout": {
                "type": "integer",
                "default": 60,
                "minimum": 1,
                "maximum": 300,
                "description": "Seconds before the command is killed",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }
    (bash,) = SHELL.tools
    assert (bash.spec.name, bash.spec.input_schema, bash.spec.effects, bash.flag) == ("bash", schema, ("execute",), "bash")
    assert subject_of(bash) == ("command", "command", "")
    (slow,) = Shell(timeout=200).tools
    assert slow.spec.input_schema["properties"]["timeout"]["default"] == 200


@pytest.mark.req("R2.21", "R2.22")
def test_result_shows_output_errors_and_exit_code(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], bool, str | None, str]] = [
        ({"command": "true"}, True, None, "(no output)"),
        ({"command": "echo up"}, True, None, "up\n"),
        ({"command": "echo down >&2"}, True, None, "STDERR:\ndown\n"),
        ({"command": "printf up; echo down >&2"}, True, None, "up\nSTDERR:\ndown\n"),
        ({"command": "echo up; echo down >&2; exit 3"}, False, "command_failed", "up\nSTDERR:\ndown\nExit code 3"),
        ({"command": "false"}, False, "command_failed", "(no output)\nExit code 1"),
        ({"command": "kill -9 $$"}, False, "command_failed", "(no output)\nEnded by signal 9 (Killed)"),
        ({"command": r"printf '\377'"}, True, None, "\ufffd"),
        ({"command": "cat"}, True, None, "(no output)"),
        ({"command": "readlink /proc/self/fd/0"}, True, None, "/dev/null\n"),
        ({"command": "pwd"}, True, None, f"{tmp_path}\n"),
    ]
    for arguments, is_ok, code, text in cases:
        with subtests.test(arguments["command"]):
            outcome = call_bash(SHELL, tmp_path, **arguments)
            assert (outcome.ok, outcome.error_code, outcome.text) == (is_ok, code, text)


@pytest.mark.req("R2.21", "R2.22")
def test_refused_commands_state_the_reason(tmp_path: Path, snapshot: Snapshot) -> None:
    for case, arguments, code in [
        ("timeout", {"command": "echo up; sleep 9", "timeout": 1}, "timeout"),
        ("dangerous", {"command": "rm -rf /"}, "dangerous_command"),
        ("too long", {"command": "sleep 1", "timeout": 301}, "invalid_arguments"),
        ("a nul", {"command": "echo \0"}, "not_started"),
    ]:
        outcome = call_bash(SHELL, tmp_path, **arguments)
        assert (outcome.ok, outcome.error_code) == (False, code)
        assert outcome.text == snapshot(case)
    assert call_bash(SHELL, tmp_path / "missing", "true").error_code == "not_started"


@pytest.mark.req("R2.22")
def test_environment_contains_only_path_home_and_configured_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "sourced"))
    (tmp_path / "sourced").write_text("echo sourced")
    lines = call_bash(Shell(env={"REGION": "brest"}), tmp_path, "env").text.splitlines()
    made_by_bash = {"PWD", "SHLVL", "_"}
    variables = dict(line.split("=", 1) for line in lines)
    assert set(variables) - made_by_bash == {"PATH", "HOME", "REGION"}
    assert (variables["HOME"], variables["REGION"]) == (str(Path.home()), "brest")


@pytest.mark.req("R2.23")
def test_long_output_is_truncated_in_the_middle(tmp_path: Path) -> None:
    outcome = call_bash(SHELL, tmp_path, "echo first; yes | head -c 3000000; echo last")
    assert outcome.text.startswith("first\n") and outcome.text.endswith("last\n")
    assert "bytes left out" in outcome.text and len(outcome.text) < 60_000


def test_impossible_settings_are_refused(snapshot: Snapshot) -> None:
    for case, wrong in {
        "sandbox": {"sandbox": "brwap"},
        "timeout": {"timeout": 301},
        "a yes": {"timeout": True},
        "network": {"network": "yes"},
        "no mapping": {"env": ["A"]},
        "name": {"env": {"A=B": "x"}},
        "value": {"env": {"SECRET_TOKEN": 12345678}},
    }.items():
        with pytest.raises(SettingsError, check=snapshot(case).worded):
            Shell(**wrong)


def test_env_values_appear_nowhere() -> None:
    shell = Shell(env={"DEPLOY_TOKEN": KEY}, timeout=90)
    assert KEY not in repr(shell) + repr(shell.tools) + repr(shell.as_logged)
    assert shell.as_logged == {"env": ["DEPLOY_TOKEN"], "timeout": 90}
    assert Shell().as_logged == {}
    assert pickle.loads(pickle.dumps(shell.tools[0])).group == shell


def test_env_secrets_are_redacted_from_the_start(tmp_path: Path, subtests: pytest.Subtests) -> None:
    file = tmp_path / "key-of-mine-1234567"
    file.touch()
    for case, (name, value, is_known) in {
        "by its name": ("deploy_password", "correct horse", True),
        "by its look": ("DATABASE", "postgres://me:pw77@host/db", True),
        "plain": ("REGION", "brest-north", False),
        "a path": ("KEY_FILE", str(file), False),
        "an author": ("GIT_AUTHOR_NAME", "Ada Lovelace", False),
    }.items():
        with subtests.test(case):
            Shell(env={name: value})
            assert (value in settings.known_secrets()) == is_known


def test_log_restores_settings_without_values(snapshot: Snapshot) -> None:
    logged = {"timeout": 90, "sandbox": "bwrap", "network": True, "newer": 1}
    assert Shell.of_log(logged, is_trusted=True) == Shell(sandbox="bwrap", timeout=90, network=True)
    assert Shell.of_log(logged, is_trusted=False) == Shell(sandbox="bwrap", timeout=90)
    with pytest.raises(SettingsError, check=snapshot.worded):
        Shell.of_log({"env": ["REGION", "TOKEN"], "timeout": 90}, is_trusted=True)


def test_only_a_sandbox_without_network_is_contained(tmp_path: Path) -> None:
    natures = [nature_of(shell.tools[0], {}, tmp_path) for shell in (SHELL, Shell(sandbox="bwrap"))]
    assert natures == [None, "contained"]
    assert nature_of(Shell(sandbox="bwrap", network=True).tools[0], {}, tmp_path) is None


def test_unavailable_sandbox_is_a_settings_error(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, tmp_path: Path) -> None:
    Shell().check_usable()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    Shell().check_usable()
    with pytest.raises(SettingsError, check=snapshot("no bubblewrap").worded):
        Shell(sandbox="bwrap").check_usable()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    (tmp_path / "other" / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}:/bin:/usr/bin")
    monkeypatch.chdir("/usr")
    with pytest.raises(SettingsError, check=snapshot("no namespaces").worded):
        Shell(sandbox="bwrap").check_usable()


def test_no_command_runs_without_its_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    outcome = call_bash(Shell(sandbox="bwrap"), tmp_path, "echo > ran")
    assert (outcome.ok, outcome.error_code) == (False, "not_sandboxed")
    assert not (tmp_path / "ran").exists()
