"""The group ``notebook`` outside a notebook: usable and refused tools, and their descriptions."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from asserted_sentences import Snapshot
from run_checks import results

from agentnb import Agent, ToolCall
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.tools.builtin.builtin_names import tools_of
from agentnb.tools.function import FunctionTool
from agentnb.tools.subject import flag_of


def test_kernel_tools_are_refused_without_a_kernel(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    for word in ("notebook", "inspect_variables", "read_cells", "run_python"):
        with subtests.test(word):
            agent = Agent(ScriptedModel(["Done."]), tools=[word], todos=False)
            with pytest.raises(SettingsError, match=f"{word}|inspect_variables"):
                agent.run_sync("go")
    with pytest.raises(SettingsError, check=snapshot.worded):
        Agent(ScriptedModel(["Done."]), tools=["run_python"], todos=False).run_sync("go")


def test_think_tool_logs_its_thought_and_needs_no_kernel() -> None:
    model = ScriptedModel([ToolCall("think", {"thought": "First the data."}), "Done."])
    run = Agent(model, tools=["think"], todos=False).run_sync("go", approve="read_only")
    assert results(run)[0].text == "Noted." and run.rounds[0].calls[0].arguments == {"thought": "First the data."}
    (think,) = tools_of("think")
    assert (think.spec.role, think.effects, flag_of(think)) == ("planning", frozenset(), None)


def test_tools_describe_themselves_and_their_needs(subtests: pytest.Subtests) -> None:
    needs = {
        "inspect_variables": ({"read"}, None, True),
        "read_cells": ({"read"}, None, True),
        "run_python": ({"execute"}, "bash", False),
        "think": (set(), None, False),
    }
    result = tools_of("notebook")
    assert [tool.spec.name for tool in result] == [*needs]
    for tool in result:
        with subtests.test(tool.spec.name):
            assert isinstance(tool, FunctionTool) and tool.signature.gaps == () and tool.timeout is None
            assert (set(tool.effects or ()), flag_of(tool), tool.parallel_safe) == needs[tool.spec.name]
            assert pickle.loads(pickle.dumps(tool)).spec == tool.spec
    (cells,) = tools_of("read_cells")
    last = cells.spec.input_schema["properties"]["last"]
    assert (last["minimum"], last["maximum"], last["default"]) == (1, 200, 20)
    assert cells.spec.input_schema.get("required", []) == []


def test_group_imports_neither_ipython_nor_pandas() -> None:
    code = (
        "import sys; from agentnb.tools.builtin.builtin_names import tools_of; tools_of('notebook');"
        "print([name for name in ('IPython', 'pandas', 'numpy', 'matplotlib', 'ipykernel') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
