"""Published MCP servers: two in Python with the newer protocol, two in Node with the older."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mcp_runs import played, results, texts
from missing_parts import skip_without

from agentnb.core.log.events import ToolFinished
from agentnb.core.messages import Image, ToolCall
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.mcp_server import MCPServer

BESIDE = Path(sys.executable).parent
NODE = Path(__file__).parents[2] / ".venv/mcp-servers/node_modules/.bin"


def of_node(name: str, *args: str) -> MCPServer:
    """Return an npm server; skip the test with a reason if it is not installed."""
    program = NODE / f"mcp-server-{name}"
    if not program.exists():
        assert not os.environ.get("AGENTNB_NEEDS_NODE"), f"{program} is missing"
        skip_without("Node", f"{program.name} of npm is not installed")
    return MCPServer(name, str(program), args=args)


@pytest.mark.req("R2.24")
def test_real_time_server_works(servers: Servers) -> None:
    clock = MCPServer("clock", str(BESIDE / "mcp-server-time"), args=["--local-timezone", "Europe/Paris"])
    arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    run = played([[ToolCall("mcp_clock_convert_time", arguments)]], [clock], servers)
    assert "21:00" in texts(run)[0]
    assert [tool.name for tool in run.tools] == ["mcp_clock_get_current_time", "mcp_clock_convert_time"]


@pytest.mark.nightly("by day the real server of the clock runs, and test_mcp_resources has calls that fail")
def test_real_git_server_works(servers: Servers, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("new")
    git = MCPServer("git", str(BESIDE / "mcp-server-git"), args=["--repository", str(tmp_path)])
    status, log = ToolCall("mcp_git_git_status", {"repo_path": str(tmp_path)}), ToolCall("mcp_git_git_log", {"repo_path": "/"})
    run = played([[status], [log]], [git], servers)
    assert "new.txt" in texts(run)[0]
    assert [result.is_error for result in results(run)] == [False, True]


def test_everything_server_works_with_the_older_protocol(servers: Servers, tmp_path: Path) -> None:
    everything = replace(of_node("everything"), roots=[tmp_path])
    calls = [
        ("get-sum", {"a": 2, "b": 3}),
        ("get-tiny-image", {}),
        ("get-structured-content", {"location": "New York"}),
        ("get-roots-list", {}),
        ("trigger-elicitation-request", {}),
        ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
        ("get-sum", {"a": "no number", "b": 3}),
    ]
    run = played(
        [[ToolCall(f"mcp_everything_{name}", arguments)] for name, arguments in calls],
        [everything],
        servers,
        work_dir=tmp_path,
        answer=lambda question: {"name": "Ada", "check": True},
    )
    total, _, structured, roots, asked, long, refused = texts(run)
    assert "5" in total
    assert any(isinstance(part, Image) for part in results(run)[1].parts)
    assert "temperature" in structured
    assert tmp_path.as_uri() in roots
    assert "Ada" in asked
    assert "completed" in long
    (last,) = [event.progress for event in run.events if isinstance(event, ToolFinished) and event.progress is not None]
    assert (last.done, last.total) == (2, 2)
    assert results(run)[-1].is_error, refused
    assert not any("sampling" in tool.name for tool in run.tools), "sampling is off"


@pytest.mark.nightly("by day the server of the tests is given folders, and other real servers run")
@pytest.mark.req("R2.24")
def test_filesystem_server_stays_in_the_given_folder(servers: Servers, tmp_path: Path) -> None:
    for name in ("given", "notebook"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.txt").write_text(f"12 rows of {name}")
    calls = [
        ToolCall("mcp_filesystem_read_text_file", {"path": str(tmp_path / name / "data.txt")}) for name in ("given", "notebook")
    ]
    allowed = ToolCall("mcp_filesystem_list_allowed_directories", {})

    def outcome(**settings: list[Path]) -> dict[str, bool]:
        filesystem = replace(of_node("filesystem", str(tmp_path / "given")), **settings)
        while True:
            run = played([[call] for call in (allowed, *calls)], [filesystem], servers, work_dir=tmp_path / "notebook")
            named, *read = texts(run)
            if all(str(root) in named for root in settings.get("roots", ())):
                return dict(zip(("given", "notebook"), ["12 rows" in text for text in read], strict=True))
            # the server requests its roots after starting, and accepts calls meanwhile

    assert outcome() == {"given": True, "notebook": False}
    assert outcome(roots=[tmp_path / "notebook"]) == {"given": False, "notebook": True}, (
        "the roots win, where a person named them"
    )
