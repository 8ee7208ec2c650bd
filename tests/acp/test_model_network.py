"""The network of an agent in a sandbox: the hosts of its model, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bash_calls import skip_without_sandbox
from msgspec.structs import replace

from agentnb import Experiment
from agentnb.acp import bridge
from agentnb.acp.acp_model import AcpModel
from agentnb.acp.known_agents import KnownAgent, known_agents
from agentnb.acp.model_network import ModelNetwork, address_of, model_addresses
from agentnb.detect.run import Run
from agentnb.errors import ExperimentProblems, ModelError, SettingsError

HOST = "model.example"
"""A host that only the test resolves."""


class Echo(BaseHTTPRequestHandler):
    """Answer with the path, and the headers for a proxy."""

    def do_GET(self) -> None:
        """Answer a request."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path} {self.headers['Host']} {self.headers['Proxy-Secret']}".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Ports of two servers on this machine: that of the model, and another one."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Echo) for _ in range(2)]
    for server in servers:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *args, **options: resolve(_local(name), *args, **options))
    yield servers[0].server_port, servers[1].server_port
    for server in servers:
        server.shutdown()
        server.server_close()


def _local(name: str) -> str:
    return "127.0.0.1" if name == HOST else name


def run_inside(folder: Path, ways: dict[tuple[str, str], str], **variant: Any) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Return the result of each way that the fake agent tries in the sandbox, and the warnings of the run."""
    skip_without_sandbox()
    (folder / "task").mkdir()
    (folder / "task" / "ways.json").write_text(json.dumps([*ways]))
    said: list[tuple[list[str], list[str]]] = []

    def hear(run: Run) -> bool:
        said.append((run.text.splitlines(), [warning.message for warning in run.warned]))
        return True

    rows = [{"id": "t", "prompt": "reaches", "work_dir": str(folder / "task")}]
    results = Experiment(rows, {"theirs": {"acp": "fake", **variant}}, primary=hear, folder=False).run_sync(show=False)
    assert [row.error for row in results.rows] == [""]
    lines, warnings = said[-1]
    return dict(zip(ways, map(str.strip, lines), strict=True)), warnings


def test_agent_in_the_sandbox_reaches_only_its_models_hosts(
    tmp_path: Path, ports: tuple[int, int], table: dict[str, KnownAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, other = ports
    monkeypatch.setenv("FAKE_BASE_URL", f"http://127.0.0.1:{model}/v1")
    table["fake"] = replace(table["fake"], keys=("FAKE_BASE_URL",), hosts=(f"{HOST}:{model}",))
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0agentnb-{model}")
        abstract.listen()
        ways = {
            ("get", f"http://{HOST}:{model}/v1/x?y=1"): f"/v1/x?y=1 {HOST}:{model} None",
            ("tunnel", f"{HOST}:{model}"): "HTTP/1.1 200 Connection established HTTP/1.0 200 OK",
            ("get", f"http://127.0.0.1:{model}/v1/x"): f"/v1/x 127.0.0.1:{model} x",
            ("connect", f"localhost:{model}"): "connected",
            ("get", f"http://{HOST}:{other}/"): "HTTPError 403",
            ("get", "http://evil.example/"): "HTTPError 403",
            ("tunnel", "evil.example:443"): "HTTP/1.1 403 Forbidden",
            ("tunnel", f"127.0.0.1:{other}"): "HTTP/1.1 403 Forbidden",
            ("tunnel", "192.0.2.1:443"): "HTTP/1.1 403 Forbidden",
            ("tunnel", "[2001:db8::1]:443"): "HTTP/1.1 403 Forbidden",
            ("tunnel", f"{HOST}@evil.example:443"): "HTTP/1.1 400 Bad Request",
            ("connect", f"127.0.0.1:{other}"): "ConnectionRefusedError",
            ("connect", "192.0.2.1:443"): "OSError",
            ("resolve", HOST): "gaierror",
            ("unix", f"agentnb-{model}"): "ConnectionRefusedError",
        }
        outcomes, warnings = run_inside(tmp_path, ways)
    assert outcomes == ways
    refused = [f"{HOST}:{other}", "evil.example:80", "evil.example:443", f"127.0.0.1:{other}", "192.0.2.1:443"]
    assert warnings == [f"The sandbox refused connections to {', '.join([*refused, '[2001:db8::1]:443'])}"]


def test_named_hosts_replace_those_of_the_agents_entry(
    tmp_path: Path, ports: tuple[int, int], table: dict[str, KnownAgent]
) -> None:
    model, other = ports
    table["fake"] = replace(table["fake"], hosts=(f"{HOST}:{other}",))
    ways = {("connect", f"127.0.0.1:{model}"): "connected", ("tunnel", f"{HOST}:{other}"): "HTTP/1.1 403 Forbidden"}
    assert run_inside(tmp_path, ways, hosts=[f"http://127.0.0.1:{model}/v1"])[0] == ways


def test_addresses_follow_agent_model_and_variables() -> None:
    known = known_agents()
    claude, opencode = known["claude"], known["opencode"]
    assert model_addresses(claude, "", {}, ()) == {"api.anthropic.com:443", "platform.claude.com:443"}
    address = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080/v1", "ANTHROPIC_API_KEY": "x"}
    assert "127.0.0.1:8080" in model_addresses(claude, "", address, ())
    named = ["a.example", "http://b.example/v1?version=1", "[::1]:8000"]
    addresses = {"a.example:443", "b.example:80", "[::1]:8000", "127.0.0.1:8080"}
    assert model_addresses(claude, "", address, named) == addresses
    assert model_addresses(opencode, "google/gemini", {}, ()) >= {"opencode.ai:443", "generativelanguage.googleapis.com:443"}
    assert model_addresses(opencode, "", {}, ()) == {"opencode.ai:443"}


def test_each_known_agent_has_valid_hosts() -> None:
    for name, row in known_agents().items():
        for hosts in (row.hosts, *row.providers.values()) if name != "fake" else ():
            assert hosts and all(address_of(host) == f"{host}:443" for host in hosts), name


@pytest.mark.parametrize(
    "text", ["", "*.example.org", "a b", "ftp://a.example", "https://user:word@a.example", "a.example:99999"]
)
def test_invalid_host_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        address_of(text)
    assert "word@" not in str(caught.value)
    with pytest.raises(ExperimentProblems, match="Variant theirs: The address of a model's host is invalid"):
        Experiment([{"id": "t", "prompt": "x"}], {"theirs": {"acp": "fake", "hosts": [text]}}, folder=False).check()


def test_invalid_address_in_a_variable_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="The address in OPENAI_BASE_URL is invalid") as caught:
        model_addresses(known_agents()["codex"], "", {"OPENAI_BASE_URL": "https://user:word@a.example"}, ())
    assert "word@" not in str(caught.value)


@pytest.mark.parametrize("turns", [0, 3, 4, 5, 100])
def test_close_ends_open_connections(tmp_path: Path, ports: tuple[int, int], turns: int) -> None:
    """``turns`` of the event loop before the end: after 3 or 4, the connections are accepted, but not served yet."""
    reported: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        network = ModelNetwork(tmp_path, frozenset([f"127.0.0.1:{ports[0]}"]))
        await network.open()
        clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for client, name in zip(clients, ("proxy", str(ports[0])), strict=True):
            client.connect(str(tmp_path / name))
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(2):
            await network.close()
        await asyncio.sleep(0.01)
        for client in clients:
            with client, suppress(ConnectionResetError):  # it was never accepted
                client.settimeout(2)
                assert client.recv(1) == b""

    asyncio.run(run())
    assert not reported


def ask(folder: Path, address: str, request: str) -> tuple[bytes, str]:
    """Return the proxy's answer to a request, and its warning. ``address``: the only permitted one."""

    async def run() -> tuple[bytes, str]:
        network = ModelNetwork(folder, frozenset([address]))
        await network.open()
        reader, writer = await asyncio.open_unix_connection(folder / "proxy")
        writer.write(f"{request}\r\n\r\n".encode())
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
        await network.close()
        return answer, network.warning

    return asyncio.run(run())


def test_host_that_cannot_be_reached_is_reported(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert b" 502 Bad Gateway" in ask(tmp_path, address, f"CONNECT {address} HTTP/1.1")[0]


@pytest.mark.parametrize(
    "target",
    [
        "GET https://{}/v1",
        "GET {}/v1",
        "GET //{}/v1",
        "CONNECT https://{}",
        f"GET http://{'a' * 254}/",
        f"CONNECT {'a' * 254}:1",
    ],
)
def test_proxy_refuses_what_it_cannot_forward(tmp_path: Path, ports: tuple[int, int], target: str) -> None:
    address = f"127.0.0.1:{ports[0]}"
    answer, warning = ask(tmp_path, address, f"{target.format(address)} HTTP/1.1\r\nAuthorization: Bearer x")
    assert answer.startswith(b"HTTP/1.1 400 ") and not warning


@pytest.mark.parametrize(
    ("rest", "path"), [("/v1/x?next=http://other/cb", "/v1/x?next=http://other/cb"), ("?a=/b", "/?a=/b"), ("", "/")]
)
def test_proxy_forwards_the_path_unchanged(tmp_path: Path, ports: tuple[int, int], rest: str, path: str) -> None:
    address = f"127.0.0.1:{ports[0]}"
    answer, _ = ask(tmp_path, address, f"GET HTTP://{address}{rest} HTTP/1.1\r\nHost: {address}")
    assert answer.endswith(f"\r\n\r\n{path} {address} None".encode())


def test_privileged_port_of_this_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot reach localhost:80: ports below 1024 need privileges"):
        asyncio.run(ModelNetwork(tmp_path, frozenset(["localhost:80"])).open())


def test_bridge_takes_the_fixed_ports_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class ForkError(Exception):
        """Instead of a second process."""

    def fork() -> int:
        raise ForkError

    ports: list[int] = []
    (tmp_path / "4321").touch()
    monkeypatch.setattr(bridge, "_open_port", ports.append)
    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(ForkError):
        bridge.run_connected(tmp_path, ["true"])
    assert ports == [4321, 0]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_bridge_does_not_listen_on_half_of_a_port() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as held, pytest.raises(OSError, match="in use"):
        bridge._open_port(held.getsockname()[1])


def test_changes_are_logged_even_if_the_warning_fails() -> None:
    logged: list[str] = []

    async def close() -> None:
        """End nothing."""

    async def log_changes(log: Any, name: str) -> None:
        logged.append(name)

    def warn(*texts: Any) -> None:
        raise OSError("the disk is full")

    folder, network = SimpleNamespace(log_changes=log_changes), SimpleNamespace(warning="refused")
    model = cast(AcpModel, SimpleNamespace(close=close, folder=folder, name="acp:fake", _network=network))
    with pytest.raises(OSError, match="full"):
        asyncio.run(AcpModel.end(model, cast(Any, SimpleNamespace(warn=warn))))
    assert logged == ["acp:fake"]


def test_missing_socket_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No socket for the model"):
        asyncio.run(ModelNetwork(tmp_path / "none", frozenset()).open())
