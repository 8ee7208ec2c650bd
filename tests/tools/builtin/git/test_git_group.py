"""The group ``git``: schemas, kinds of calls, and a usable git program."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from git_repositories import TOOLS, GitRepository

from agentnb.errors import SettingsError
from agentnb.tools.builtin.git.git_group import Git
from agentnb.tools.subject import nature_of

SCHEMAS = json.loads((Path(__file__).parent / "schemas.json").read_text())
HERE = Path()


@pytest.mark.req("R2.17", "R2.19")
def test_tools_have_the_documented_schemas() -> None:
    tools = [
        {"name": name, "input_schema": tool.spec.input_schema, "permission": tool.flag, "effects": tool.spec.effects[0]}
        for name, tool in TOOLS.items()
    ]
    assert tools == SCHEMAS
    assert all(len(tool.spec.effects) == 1 and not tool.signature.gaps for tool in TOOLS.values())


def test_only_listing_branches_is_read_only() -> None:
    assert nature_of(TOOLS["git_branch"], {"action": "list"}, HERE) == "reads"
    for arguments in ({"action": "create", "name": "x"}, {"action": "switch", "name": "x"}, {}, None, ["list"]):
        assert nature_of(TOOLS["git_branch"], arguments, HERE) == "changes"


def test_staging_a_named_key_file_is_sensitive(subtests: pytest.Subtests) -> None:
    cases = {".env": "sensitive", "a/id_rsa": "sensitive", "a.txt": "changes", ".": "changes", ".env.example": "changes"}
    for path, nature in cases.items():
        with subtests.test(path):
            assert nature_of(TOOLS["git_add"], {"paths": ["b", path]}, HERE) == nature
    for arguments in ({}, None, {"paths": "a"}, {"paths": [3]}):
        assert nature_of(TOOLS["git_add"], arguments, HERE) == "changes"


@pytest.mark.req("R2.19")
def test_documented_calls_behave_as_described() -> None:
    repository = GitRepository.make(HERE.absolute())
    repository.commit("First", a_txt="1\n")
    assert "First" in repository.text("git_log", count=5, oneline=True)
    outcome = repository.call("git_branch", action="create")
    assert (outcome.ok, outcome.error_code) == (False, "invalid_arguments") and "name" in outcome.text


def test_missing_or_old_git_is_a_settings_error(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    folder = Path("bin").absolute()
    folder.mkdir()
    Git().check_usable()
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(SettingsError) as missing:
        Git().check_usable()
    assert str(missing.value) == snapshot("missing")
    program = folder / "git"
    program.write_text("#!/bin/sh\necho git version 2.30.9\n")
    program.chmod(0o755)
    with pytest.raises(SettingsError) as old:
        Git().check_usable()
    assert str(old.value) == snapshot("old", FOLDER=folder)


def test_tools_keep_their_group_in_another_process() -> None:
    tool = pickle.loads(pickle.dumps(TOOLS["git_status"]))
    assert (tool.spec.name, tool.group) == ("git_status", Git())
