"""Detection of installed agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentnb.acp.installed import find_installed
from agentnb.acp.known_agents import KnownAgent


@pytest.mark.parametrize(("package", "version"), [({"version": "1.2.3"}, "1.2.3"), ([], ""), (None, "")])
def test_version_is_read_without_starting_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: object, version: str
) -> None:
    program = tmp_path / "package" / "bin" / "an-agent"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\ntouch started\n")
    program.chmod(0o755)
    if package is not None:
        (program.parents[1] / "package.json").write_text(json.dumps(package))
    (tmp_path / "on-path").mkdir()
    (tmp_path / "on-path" / "an-agent").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "on-path"))
    found = find_installed(KnownAgent(command=("an-agent",)))
    assert found is not None
    assert found.version == version
    assert not [*tmp_path.rglob("started")]


def test_python_package_version_is_read_from_its_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, about = tmp_path / "bin" / "an-agent", tmp_path / "lib/python3.12/site-packages/an_agent-1.2.3.dist-info"
    for folder in (program.parent, about):
        folder.mkdir(parents=True)
    program.touch(mode=0o755)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: an-agent\nVersion: 1.2.3\n")
    monkeypatch.setenv("PATH", str(program.parent))
    found = find_installed(KnownAgent(command=("an-agent",), install="pip install an-agent"))
    assert found is not None
    assert found.version == "1.2.3"


def test_program_outside_the_path_counts_as_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_installed(KnownAgent(command=("an-agent",))) is None
