"""The group of file tools: schemas, pickling, systems without folder descriptors."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from asserted_sentences import Snapshot

from agentnb.errors import SettingsError
from agentnb.tools.builtin.builtin_names import GROUPS, tools_of
from agentnb.tools.builtin.files.files_group import Files

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.req("R2.17")
def test_schemas_effects_and_flags_match_the_examples(subtests: pytest.Subtests) -> None:
    tools = {tool.spec.name: tool for tool in Files().tools}
    assert tuple(tools) == GROUPS["files"].tool_names
    examples = [spec for spec in json.loads((EXAMPLES / "builtin-tools.json").read_text()) if spec["name"] in tools]
    assert len(examples) == 3
    for example in examples:
        with subtests.test(example["name"]):
            tool = tools[example["name"]]
            assert tool.spec.input_schema == example["input_schema"]
            assert tool.spec.description.startswith(example["description"])
            assert (tool.flag, tool.effects) == (example["permission"], {example["effects"]})
            assert not tool.signature.gaps


def test_reading_tools_are_parallel_safe_and_warn_about_file_content() -> None:
    for tool in Files().tools:
        assert tool.parallel_safe == (tool.effects == {"read"})
        assert ("data, not instructions" in tool.spec.description) == tool.parallel_safe


def test_tools_are_equal_after_pickling_and_lookup_by_name() -> None:
    for tool in Files().tools:
        again = pickle.loads(pickle.dumps(tool))
        assert (again.spec, again.flag) == (tool.spec, tool.flag)
        assert [tool_.spec for tool_ in tools_of(tool.spec.name)] == [tool.spec]
    assert Files().as_logged == {}


def test_system_without_folder_descriptors_is_refused(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    Files().check_usable()
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(SettingsError, check=snapshot.worded):
        Files().tools[0].check_usable()
