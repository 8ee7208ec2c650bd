"""Notebook functions called by an agent: the run judges and logs each call once."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp_runs import bench
from msgspec.structs import replace

from agentnb import Agent, tool
from agentnb.acp import door
from agentnb.acp.known_agents import KnownAgent
from agentnb.core.log.events import QuestionAsked, Warned
from agentnb.errors import ModelError, SettingsError
from agentnb.tools.mcp.mcp_server import ServerTools

Make = Callable[..., Agent]
OTHER_OUTCOME = pytest.mark.nightly("by day one outcome of each kind")
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
BEGIN = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT}).encode() + b"\n"


def total(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


@tool(name="total", effects=["write"])
def written(numbers: list[int]) -> int:
    """Add numbers, and write the sum somewhere."""
    return sum(numbers)


@tool(name="total")
def broken(numbers: list[int]) -> int:
    """Raise."""
    raise ValueError("no such number")


def bash(command: str) -> str:
    """Say what would run."""
    return command


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (total, {}, "total: 6"),
        pytest.param(broken, {}, "no such number", marks=OTHER_OUTCOME),
        (total, {"permissions": {"total": "deny"}}, "total: The person did not allow it."),
        pytest.param(written, {"approve": lambda call, run: True}, "total: 6", marks=OTHER_OUTCOME),
    ],
)
def test_agent_can_call_notebook_functions(fake: Make, function: Any, options: Any, text: str) -> None:
    run = fake(tools=[function]).run_sync("function", **options)
    assert text in run.text
    records = [record for current in run.rounds for record in current.records]
    assert [(record.call.name, record.call.arguments) for record in records] == [("total", {"numbers": [1, 2, 3]})]


@pytest.mark.parametrize(
    ("play", "verdict", "text"),
    [
        ("added", "allow", "3"),
        pytest.param("library", "allow", "3", marks=OTHER_OUTCOME),
        pytest.param("library", "deny", "The person did not allow it.", marks=OTHER_OUTCOME),
    ],
)
def test_agent_can_call_tools_of_servers(fake: Make, play: str, verdict: str, text: str) -> None:
    run = fake(tools=[ServerTools("bench", "add", bench())]).run_sync(
        play, permissions={"mcp_bench_add": verdict}, approve="auto"
    )
    assert run.text == f"mcp_bench_add: {text}"
    (record,) = [record for current in run.rounds for record in current.records]
    assert (record.call.name, record.call.arguments) == ("mcp_bench_add", {"a": 1, "b": 2})


def test_key_in_a_function_result_is_hidden_from_the_agent(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key := "sk-" + 30 * "k")

    @tool(name="total")
    def leaking(numbers: list[int]) -> str:
        """Return a key."""
        return f"{key} {numbers}"

    assert fake(tools=[leaking]).run_sync("masked", approve="auto").text == "1"


@pytest.mark.parametrize("play", ["function", pytest.param("named", marks=OTHER_OUTCOME)])
def test_function_call_reported_twice_is_asked_about_once(fake: Make, play: str) -> None:
    run = fake(tools=[written]).run_sync(play, approve=lambda call, run: True)
    assert run.text == "total: 6"
    assert len([event for event in run.events if isinstance(event, QuestionAsked)]) == 1
    assert not run.warnings


@pytest.mark.parametrize(
    ("rules", "text"),
    [({"total": "deny"}, "total: The person did not allow it."), pytest.param({}, "total: 6", marks=OTHER_OUTCOME)],
)
def test_function_can_be_called_while_a_command_runs(fake: Make, rules: dict[str, str], text: str) -> None:
    run = fake(tools=[total]).run_sync("aside", permissions=rules, approve=lambda call, run: True)
    assert run.text == text
    (command,) = [record for current in run.rounds for record in current.records]
    assert (command.call.name, [record.call.name for record in command.inner]) == ("bash", ["total"])


@pytest.mark.parametrize("tools", [[total], []])
def test_run_warns_if_the_agent_hides_functions(fake: Make, table: dict[str, KnownAgent], tools: list[Any]) -> None:
    table["fake"] = replace(table["fake"], offers_functions=False)
    run = fake(tools=tools).run_sync("hello")
    warnings = [event.message for event in run.events if isinstance(event, Warned)]
    assert ["does not offer the notebook's functions" in warning for warning in warnings] == [True] * len(tools)


def test_failed_socket_setup_leaves_nothing_behind(fake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / (100 * "x")  # no socket has so long a path
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(ModelError, match=r"No socket for functions could be created in .*path too long"):
        fake(tools=[total]).run_sync("hello")
    assert not [*folder.iterdir()]


def test_command_disguised_as_a_function_call_is_judged(fake: Make) -> None:
    run = fake(tools=[total]).run_sync("disguise", permissions={"bash": "deny"}, approve="auto")
    assert run.text == "no"


def test_connection_without_the_secret_is_not_served(fake: Make) -> None:
    run = fake(tools=[total]).run_sync("keyless", approve="auto")
    assert (run.text, [record for current in run.rounds for record in current.records]) == ("refused", [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the process at the other end")
def test_processes_outside_the_agent_are_not_served(fake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "token_hex", lambda: "known")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answers: list[bytes] = []

    @tool(name="total")
    def called_elsewhere(numbers: list[int]) -> int:
        """Knock at the door from the kernel, which is no process of the agent."""
        (path,) = tmp_path.glob("agentnb-*/door")
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(10)
            other.connect(str(path))
            with suppress(OSError):  # it may be closed before it is written to
                other.sendall(b"known\n" + BEGIN)
                answers.append(other.recv(100))
        return sum(numbers)

    run = fake(tools=[called_elsewhere]).run_sync("function", approve="auto")
    assert (run.text, b"".join(answers)) == ("total: 6", b"")


def test_function_named_like_a_call_kind_is_refused(fake: Make) -> None:
    with pytest.raises(SettingsError, match="acp:fake also uses the name bash for its calls"):
        fake(tools=[bash]).run_sync("hello")
