"""``agentnb login`` at a terminal, for later commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from protected_servers import ProtectedServer, browse
from shell_calls import Call, written

if TYPE_CHECKING:
    from terminal import Program

STEP = "workflow:\n  - {id: a, type: tool, name: mcp_docs_echo, args: {text: hi}}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.nightly("by day a cell logs in, and a terminal asks other questions")
@pytest.mark.slow("a program that asks at a terminal, and a real server")
def test_login_at_a_terminal_applies_to_later_commands(
    program: Program, cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from terminal import CTRL_D  # not on Windows

    for variable in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    with ProtectedServer() as docs:
        monkeypatch.setenv("MCP_SERVERS", json.dumps([{"name": "docs", "url": docs.address}]))
        run = ("exec", str(written("one.yaml", STEP)), "-t", "mcp:docs", "--approve", "auto")
        assert "agentnb login docs --mcp FILE" in cli(*run).err
        assert "agentnb login docs --mcp FILE" in cli("login", "docs").err
        with program("login", "docs") as terminal:
            terminal.type(CTRL_D)
            assert terminal.ended()[0] != 0 and "agentnb: The login was left open" in terminal.shown
            assert "Traceback" not in terminal.shown
        with program("login", "docs") as terminal:
            address = next(line for line in terminal.asked().splitlines() if line.startswith("http"))
            assert browse(address).status_code == 200
            terminal.type("")
            code, out = terminal.ended()
            assert code == 0 and "logged in to docs" in out, terminal.shown
        assert "echo hi" in cli(*run).out
        assert "was deleted" in cli("login", "docs", "--forget").out
