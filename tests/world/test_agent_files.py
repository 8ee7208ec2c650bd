"""The command that tries files of others says of each whether it runs, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_files import servers_of, tried

RUNS = "agents: {root: {model: google/gemini-x, toolsets: [{type: think}]}}"
FAILS = 'agents: {root: {model: openai/gpt-x}}\nworkflow: [{type: agent, name: root, prompt: "{{ $steps.root.output }}"}]'
REFUSED = "agents:\n  root:\n    hooks: {}"


def test_each_file_gets_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, subtests: pytest.Subtests) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key-of-anybody")
    for became, text in (("runs", RUNS), ("loads", FAILS), ("refused", REFUSED)):
        with subtests.test(became):
            path = tmp_path / f"{became}.yaml"
            path.write_text(text)
            row = tried(path, path.name)
            assert (row.file, row.became) == (path.name, became)
            assert bool(row.reason) == (became != "runs")
            assert row.reason.startswith("line 3: ") == (became == "refused")


def test_stand_ins_have_the_tools_that_a_file_names() -> None:
    servers = servers_of(iter(["files", "mcp:clock/now", "mcp:clock/later", "mcp:hub"]))
    assert [(one.name, [*one.args][1:]) for one in servers] == [("clock", ["now", "later"]), ("hub", ["look_up"])]
