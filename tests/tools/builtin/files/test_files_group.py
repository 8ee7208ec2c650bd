"""The group of the file tools: schemas, the calls of the examples, systems without descriptors of folders."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from file_desk import FileDesk
from run_checks import results

from agentnb import Agent, ToolCall
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.tools.builtin.files.group import Files
from agentnb.tools.builtin.named import GROUPS, tools_of

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.req("R2.17")
def test_schemas_effects_and_flags_are_those_of_the_examples(subtests: pytest.Subtests) -> None:
    tools = {tool.spec.name: tool for tool in Files().tools}
    assert tuple(tools) == GROUPS["files"].tool_names
    examples = [one for one in json.loads((EXAMPLES / "builtin-tools.json").read_text()) if one["name"] in tools]
    assert len(examples) == 3
    for example in examples:
        with subtests.test(example["name"]):
            tool = tools[example["name"]]
            assert tool.spec.input_schema == example["input_schema"]
            assert tool.spec.description.startswith(example["description"])
            assert (tool.flag, tool.effects) == (example["permission"], {example["effects"]})
            assert not tool.signature.gaps


@pytest.mark.req("R2.5", "R2.17", "R2.18", "R2.20")
def test_calls_of_the_examples_have_their_results(subtests: pytest.Subtests, desk: FileDesk) -> None:
    examples = json.loads((EXAMPLES / "calls.json").read_text())
    desk.put(examples["work_dir"])
    names = GROUPS["files"].tool_names
    calls = [call for call in examples["calls"] if call["tool"] in names]
    assert len(calls) == 5
    for call in calls:
        with subtests.test(f"{call['tool']} {call['arguments']}"):
            model = ScriptedModel([[ToolCall(call["tool"], call["arguments"])], "Done."])
            permissions = call.get("permissions") or {"write_file": "allow"}
            agent = Agent(model, tools=list(Files().tools), work_dir=desk.folder, permissions=permissions, todos=False)
            (result,) = results(agent.run_sync("go"))
            assert result.is_error == call.get("is_error", False)
            assert result.text == call.get("result", result.text)
            assert all(words in result.text for words in call.get("says", ()))
    assert (desk.folder / "out" / "new" / "top.txt").read_bytes() == b"6.1\n" and not (desk.folder / "a.txt").exists()


def test_tools_that_read_may_run_beside_others_and_say_what_is_data() -> None:
    for tool in Files().tools:
        assert tool.parallel_safe == (tool.effects == {"read"})
        assert ("data, not instructions" in tool.spec.description) == tool.parallel_safe


def test_tools_are_the_same_again_after_a_pickle_and_by_word() -> None:
    for tool in Files().tools:
        again = pickle.loads(pickle.dumps(tool))
        assert (again.spec, again.flag) == (tool.spec, tool.flag)
        assert [one.spec for one in tools_of(tool.spec.name)] == [tool.spec]
    assert Files().as_logged == {}


def test_system_without_descriptors_of_folders_is_refused(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    Files().check_usable()
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(SettingsError, check=snapshot.worded):
        Files().tools[0].check_usable()
