"""The tool ``bash`` in runs: questions and logged variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from bash_calls import skip_without_sandbox

from agentnb import Agent, ToolCall
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.builtin.shell.shell_group import Shell

KEY = "correct-horse-battery"


def ran(shell: Shell, command: str, asked: list[str]) -> Run:
    def approve(call: ToolCall, run: object) -> bool:
        asked.append(call.name)
        return True

    script = [[ToolCall("bash", {"command": command})], "Done."]
    return Agent(ScriptedModel(script), tools=[shell]).run_sync("go", approve=approve)


def test_only_a_sandbox_without_network_runs_without_approval(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, shell, expected in (
        ("no sandbox", Shell(), ["bash"]),
        ("sandbox", Shell(sandbox="bwrap"), []),
        ("sandbox with network", Shell(sandbox="bwrap", network=True), ["bash"]),
    ):
        with subtests.test(case):
            if shell.sandbox:
                skip_without_sandbox(shell.network)
            asked: list[str] = []
            (result,) = ran(shell, "echo ran", asked).rounds[0].results
            assert (asked, result.is_error, result.text) == (expected, False, "ran\n")


def test_values_of_shell_variables_are_not_logged(tmp_path: Path) -> None:
    run = ran(Shell(env={"DEPLOY_TOKEN": KEY}), "echo $DEPLOY_TOKEN; echo $DEPLOY_TOKEN >&2; exit 3", [])
    (result,) = run.rounds[0].results
    assert result.is_error and "Exit code 3" in result.text
    assert KEY not in repr(run.events) + result.text
    assert "DEPLOY_TOKEN" in repr(run.events)


def test_run_does_not_start_if_its_sandbox_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="bubblewrap"):
        ran(Shell(sandbox="bwrap"), "echo > ran", [])
    assert not (tmp_path / "ran").exists()
