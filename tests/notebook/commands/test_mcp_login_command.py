"""``%agent mcp login`` in a real kernel: the address is a link, and typed text stays hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from protected_servers import ProtectedServer, browse
from real_kernel import PATIENCE, Kernel

MODEL = """
from agentnb import ToolCall
from agentnb.models import ScriptedModel
asker = ScriptedModel([ToolCall("mcp_docs_echo", {"text": "hi"}), "Done."])
"""
CELL = "%%agent -m asker -t mcp:docs --approve auto\nGo."


@pytest.fixture(scope="module", autouse=True)
def no_keyring() -> Iterator[None]:
    """Keep logins of kernels out of this machine's keyring."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
        yield


@pytest.mark.slow("a kernel, and a real server")
def test_next_cell_uses_the_server_after_a_login(kernel: Kernel) -> None:
    with ProtectedServer() as docs:
        kernel.run(f"{MODEL}\n%agent mcp add docs {docs.address}")
        assert "Log in: %agent mcp login docs" in kernel.run(CELL).shown
        refused = kernel.run("%agent mcp docs").error
        assert refused.endswith("Log in: %agent mcp login docs") and "\n" not in refused
        assert "Nobody can log in here" in kernel.run("%agent mcp login docs").error
        request = kernel.client.execute("%agent mcp login docs", allow_stdin=True)
        asked = kernel.client.get_stdin_msg(timeout=PATIENCE)["content"]
        assert asked["password"] and asked["prompt"].startswith("Press Enter")
        shown: dict[str, Any] = {}
        while "/authorize?" not in shown.get("data", {}).get("text/plain", ""):
            shown = kernel.client.get_iopub_msg(timeout=PATIENCE)["content"]
        (link,) = re.findall(r'<a href="([^"]+)" target="_blank" rel="noopener noreferrer"', shown["data"]["text/html"])
        assert unescape(link) == shown["data"]["text/plain"].splitlines()[1]
        assert browse(unescape(link)).status_code == 200
        kernel.client.input("")
        ended = kernel.client.get_shell_msg(timeout=PATIENCE)
        while ended["parent_header"]["msg_id"] != request:
            ended = kernel.client.get_shell_msg(timeout=PATIENCE)
        assert ended["content"]["status"] == "ok"
        kernel.run(MODEL)
        assert kernel.run(CELL).status == "ok"
        assert kernel.value("run.rounds[0].records[0].result.parts[0].text") == "echo hi"
        assert "The login at docs was deleted" in kernel.run("%agent mcp login docs --forget").printed
        assert kernel.run("%agent mcp docs").error.endswith("Log in: %agent mcp login docs")
    for line, words in {
        "": "Which server?",
        "dcs": "There is no MCP server dcs",
        "docs --clint=x": "--client",
        "docs --client": "Which client?",
    }.items():
        assert words in kernel.run(f"%agent mcp login {line}").error
