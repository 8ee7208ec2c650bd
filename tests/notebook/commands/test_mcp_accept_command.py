"""``%agent mcp accept`` in a real kernel: changes are shown, and rules apply again after consent."""

from __future__ import annotations

import shlex
import sys

import pytest
from mcp_runs import PROGRAM
from real_kernel import Kernel

COMMAND = [sys.executable, PROGRAM]
SERVER = shlex.join(COMMAND)
MODEL = """
from agentnb import ToolCall
from agentnb.models import ScriptedModel
asker = ScriptedModel([ToolCall("mcp_watch_add", {"a": 1, "b": 2}), "Done."])
"""
CODE = "run.rounds[0].records[0].result.error_code if run.rounds[0].records[0].result else 'waits'"


@pytest.mark.slow("a kernel, and a real server that is started twice")
def test_rules_apply_again_after_the_server_is_accepted(kernel: Kernel, forked: None) -> None:
    def called(rule: str) -> str:
        kernel.run(MODEL)
        cell = kernel.run(f"%%agent -m asker -t mcp:watch --rule '{rule}=allow'\nHow much is it?")
        assert cell.status == "ok", cell.error
        return kernel.value(CODE)

    # A name unique to this test: the first view of a server outlives the kernel.
    kernel.run(f"%agent mcp add watch {SERVER} many 1")
    assert [called("mcp:watch"), called("mcp_watch_*")] == ["None", "None"]
    kernel.run(f"%agent mcp add watch {SERVER} hostile")
    assert [called("mcp:watch"), called("mcp_watch_*")] == ["waits", "waits"], "nobody can be asked here"
    assert "Nobody can confirm this here" in kernel.run("%agent mcp accept watch").error
    declined = kernel.run("%agent mcp accept watch", attended=True, reply="n")
    shown = " ".join(COMMAND)  # not quoted, also where the path has a blank
    assert f"{shown} many 1\n" in declined.asked and f"{shown} hostile\n" in declined.asked
    assert "Nothing was accepted" in declined.error
    assert called("mcp:watch") == "waits"
    assert "rules apply to it" in kernel.run("%agent mcp accept mcp:watch", attended=True, reply="y").printed
    assert [called("mcp:watch"), called("mcp_watch_*")] == ["None", "None"]
    assert "has not changed since it was first seen" in kernel.run("%agent mcp accept watch").printed
    for line, words in {"": "Which server", "wotch": "There is no MCP server wotch"}.items():
        assert words in kernel.run(f"%agent mcp accept {line}").error
