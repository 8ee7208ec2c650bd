"""Connections to MCP servers: lifetime, dead servers and stops."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp_runs import PROGRAM, bench, calls, is_alive, over_http, played, process_of, results, texts, wait_until_ended
from property_settings import size

from agentnb.agent.agent import Agent
from agentnb.core.log.events import ToolProgress
from agentnb.core.log.work_events import ServerStarted
from agentnb.errors import ServerFailed
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.connections import live_server
from agentnb.tools.mcp.mcp_server import MCPServer

WHERE = [calls(("where", {}))]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server over HTTP."""
    with over_http() as found:
        yield found


def test_warm_server_is_one_process_shared_by_parallel_runs(servers: Servers) -> None:
    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda _: played(WHERE, [bench()], servers), range(4)))
    runs.append(played(WHERE, [bench()], servers))
    assert len({texts(run)[0] for run in runs}) == 1
    assert not [event for event in runs[-1].events if isinstance(event, ServerStarted)], "it was running"
    assert [live.state for live in servers.used] == ["ready"]


@pytest.mark.req("R2.24", "R2.25")
def test_connection_ends_with_its_run_or_a_stop() -> None:
    run = played(WHERE, [bench()])
    started = [event for event in run.events if isinstance(event, ServerStarted)]
    assert [(event.server, event.target) for event in started] == [("bench", bench().target)]
    assert not is_alive(process_of(texts(run)[0]))

    held = Servers()
    first = process_of(texts(played(WHERE, [bench()], held))[0])
    assert is_alive(first)
    assert held.stop("bench")
    assert not is_alive(first)
    assert not held.stop("bench")
    second = process_of(texts(played(WHERE, [bench()], held))[0])
    (live,) = held.used
    held.close()
    assert not is_alive(second)
    with pytest.raises(ServerFailed):  # an abandoned call starts no server that would outlive it
        asyncio.run(live.start())


def test_servers_never_outlive_their_process() -> None:
    program = textwrap.dedent(
        """
        import os, signal, sys
        import mcp  # once, before the forks
        from mcp_runs import bench, calls, played, texts
        from agentnb.runtime.servers.servers import Servers
        for way in sys.argv[1:]:
            if not os.fork():
                break
        else:
            for _ in sys.argv[1:]:
                os.wait()
            sys.exit()
        held = Servers()
        played([calls(("stats", {"xs": [1.0]}))], [bench()], held)
        print(way, texts(played([calls(("where", {}))], [bench()], held))[0], flush=True)
        assert "jsonschema" not in sys.modules, "the slow validator"
        if way == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "error":
            raise SystemExit("an error")
        """
    )
    folders = os.pathsep.join([str(Path(__file__).parents[1] / "support"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": folders}
    ways = ("end", "killed", *size((), nightly=("error",)))
    done = subprocess.run([sys.executable, "-c", program, *ways], capture_output=True, text=True, env=environment, check=False)
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert set(told) == set(ways), done.stderr
    for way, where in told.items():
        if way == "killed":  # then the server reads EOF
            wait_until_ended(process_of(where))
        assert not is_alive(process_of(where)), (way, done.stderr)


def test_dead_server_is_restarted_once_and_the_call_succeeds(servers: Servers) -> None:
    first = process_of(texts(played(WHERE, [bench()], servers))[0])
    os.kill(first, signal.SIGKILL)
    wait_until_ended(first)
    second = process_of(texts(played(WHERE, [bench()], servers))[0])
    assert second != first
    assert is_alive(second)


@pytest.mark.req("R2.26")
def test_server_death_during_a_call_is_an_error_without_retry(servers: Servers, tmp_path: Path) -> None:
    trace = tmp_path / "died"
    run = played([calls(("die", {"path": str(trace)}), ("add", {"a": 1, "b": 2}))], [bench()], servers)
    assert [(result.is_error, result.error_code) for result in results(run)] == [(True, "server_ended"), (False, None)]
    assert trace.read_text() == "called\n"
    assert run.status == "completed"


def test_repeatable_call_is_not_repeated_after_server_death(servers: Servers, tmp_path: Path) -> None:
    process = process_of(texts(played(WHERE, [bench(timeout=20)], servers))[0])
    agent = Agent(ScriptedModel([calls(("wait", {"path": str(tmp_path / "waits")})), "Done."]), tools=[bench(timeout=20)])

    def kill(item: Any) -> None:
        if isinstance(item, ToolProgress) and is_alive(process):
            os.kill(process, signal.SIGKILL)

    with use_host(Host(servers=servers)):
        run = agent.start("Go.", approve="auto", watch=kill).result()
    assert [result.error_code for result in results(run)] == ["server_ended"]


@pytest.mark.req("R2.26")
def test_time_limit_and_stop_cancel_the_call_at_the_server(servers: Servers, address: str, tmp_path: Path) -> None:
    for way, tool in {"stdio": bench(timeout=30), "http": MCPServer("bench", address, timeout=30)}.items():
        trace = tmp_path / f"stopped-{way}"
        agent = Agent(ScriptedModel([calls(("wait", {"path": str(trace)})), "Done."]), tools=[tool], todos=False)
        with use_host(Host(servers=servers)):
            live: list[Any] = []

            def stop(item: Any, live: list[Any] = live) -> None:
                if isinstance(item, ToolProgress):
                    live[0].stop()

            live.append(agent.start("Go.", approve="auto", watch=stop))
            run = live[0].result()
        assert run.status == "cancelled"
        assert played(WHERE, [tool], servers).status == "completed"  # the server has read the cancellation before this
        assert trace.read_text() == "cancelled", way

    trace = tmp_path / "timed-out"
    run = played([calls(("wait", {"path": str(trace)}), ("where", {}))], [bench(timeout=0.5)], servers)
    assert [result.error_code for result in results(run)] == ["timeout", None]
    assert trace.read_text() == "cancelled"


def test_stop_during_server_start_ends_the_run_and_the_program(tmp_path: Path) -> None:
    note = tmp_path / "process"
    silent = f"import os, pathlib, sys; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); sys.stdin.read()"
    held = Servers()
    with use_host(Host(servers=held)):
        server = MCPServer("silent", sys.executable, args=["-c", silent])
        live = Agent(ScriptedModel(["Done."]), tools=[server], todos=False).start("Go.", approve="auto")
        while not (note.exists() and note.read_text()):
            assert not live.done
        live.stop()
        assert live.result().status == "cancelled"
    held.close()
    assert not is_alive(int(note.read_text()))


def test_silent_server_is_abandoned(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "START_SECONDS", 0.1)
    silent = MCPServer("silent", sys.executable, args=["-c", "import sys; sys.stdin.read()"], timeout=0.1)
    with pytest.raises(ServerFailed, match="did not answer in time"):
        played([], [silent], servers)


def test_server_starts_in_its_own_folder_or_the_run_folder(servers: Servers, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for server, folder in ((bench(), tmp_path), (bench(cwd=own), own)):
        told = texts(played(WHERE, [server], servers, work_dir=tmp_path))[0]
        assert told.rpartition(" ")[0] == str(folder)


def test_server_receives_only_the_roots_given_by_the_person(servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    run = played([calls(("roots", {}))], [bench(roots=[tmp_path / "given"])], servers, work_dir=tmp_path)
    assert texts(run) == [(tmp_path / "given").as_uri()]


def test_variable_value_in_server_arguments_is_never_logged(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TOKEN", "tide-9c41d7e2b5")
    run = played([calls(("fail", {"why": "wrong: tide-9c41d7e2b5"}))], [bench("${BENCH_TOKEN}")], servers)
    assert "wrong: [key]" in texts(run)[0]
    assert "tide-9c41d7e2b5" not in str(run.events)


def test_tool_change_notices_work_in_both_protocols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mcp

    for mode, protocol in (("auto", "2026"), ("legacy", "2025")):
        monkeypatch.setattr(mcp, "Client", of_mode(mcp.Client, mode))
        held = Servers()
        run = played([calls(("grow", {"name": "late"}))], [bench()], held, work_dir=tmp_path)
        (live,) = held.used
        assert live.facts is not None and live.facts.protocol.startswith(protocol)
        held.close()
        assert "mcp_bench_late" in [tool.name for tool in run.tools], protocol
        monkeypatch.undo()


def test_restarted_http_server_is_reconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    import mcp

    for mode in ("auto", "legacy"):
        monkeypatch.setattr(mcp, "Client", of_mode(mcp.Client, mode))
        held, told, port = Servers(), list[str](), 0
        for _ in range(3):
            with over_http(port) as address:
                port = urlsplit(address).port or 0
                told += texts(played(WHERE, [MCPServer("bench", address)], held))
        held.close()
        assert len({process_of(text) for text in told}) == 3, mode
        monkeypatch.undo()


def of_mode(make: Any, mode: str) -> Any:
    """Return a client factory for the newest or the older protocol."""
    return lambda *given, **options: make(*given, **{**options, "mode": mode})


def test_server_gets_its_variables_and_folder_but_no_keys(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    monkeypatch.setenv("PLANTED", "another planted value 42")
    names = ["OPENAI_API_KEY", "PLANTED", "LEVEL", "TAKEN", "PATH"]
    server = bench("junk", env={"LEVEL": "warning", "TAKEN": "${PLANTED}"})
    run = played(
        [calls(("variables", {"names": names})), calls(("roots", {})), calls(("essay", {"topic": "tides"}))],
        [server],
        servers,
        work_dir=tmp_path,
    )
    seen, roots, essay = texts(run)
    assert '"OPENAI_API_KEY": ""' in seen
    assert '"PLANTED": ""' in seen
    assert '"LEVEL": "warning"' in seen
    assert '"TAKEN": "[key]"' in seen, "it has the value, and the log does not"
    assert "did not declare the roots" in roots
    assert results(run)[2].is_error, essay
    assert "another planted value 42" not in str(run.events)
    assert capfd.readouterr() == ("", ""), "neither junk on its output nor its standard error lands in the cell"


def test_missing_program_is_distinguished_from_a_forbidden_one(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    for error, is_missing in (
        (FileNotFoundError(2, "", "gone"), True),
        (PermissionError(13, "", "no-such-program"), True),  # a folder of PATH may be unreadable
        (PermissionError(13, "", str(tmp_path / "mine")), False),
        (PermissionError(13, ""), False),
        (ValueError("gone"), False),
    ):
        assert live_server.is_no_program(error) is is_missing, error


def test_server_start_failure_is_an_error_before_any_round(servers: Servers, snapshot: Any) -> None:
    quits = "import sys; print('no licence found', file=sys.stderr); sys.exit(4)"
    cases = {
        "no such program": MCPServer("bench", "no-such-program-here"),
        "ends at once": MCPServer("bench", sys.executable, args=["-c", quits]),
        "nobody listens": MCPServer("bench", "http://127.0.0.1:9/mcp"),
        "unset variable": bench("${NOT_SET_ANYWHERE}"),
    }
    told: dict[str, str] = {}
    for name, server in cases.items():
        with pytest.raises((ServerFailed, ValueError)) as raised:
            played(WHERE, [server], servers)
        run = raised.value.run  # type: ignore[union-attr]
        assert run is not None
        assert run.status == "failed", name
        assert not run.rounds
        told[name] = str(raised.value).replace(sys.executable, "python").replace(PROGRAM, "server.py")
    assert snapshot == [f"{name}: {what}" for name, what in told.items()]
