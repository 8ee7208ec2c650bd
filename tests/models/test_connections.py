"""Connections to providers: ownership and lifetime."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import anthropic
import openai
import pytest
from property_settings import size
from quick_models import FORMATS, PATIENCE, items_of, quick, reply_of
from scripted_runs import add
from waiting import wait_until

from agentnb import Agent, ToolCall
from agentnb.errors import SettingsError
from agentnb.models import RemoteModel
from agentnb.models.options import Options
from agentnb.models.registry import REMOTE
from agentnb.models.transport.connections import Endpoint, client_of, limiter_of
from agentnb.models.transport.remote import models_of
from agentnb.settings import Key
from agentnb.testing import LoopbackServer, Stall
from agentnb.testing.listener import THREAD as LISTENS

HERE = Endpoint("openai", "http://localhost:1/v1", None)
THERE = Endpoint("openai", "http://localhost:2/v1", None)
WITH_KEY = Endpoint("openai", "http://localhost:1/v1", Key("MY_KEY", "sk-one", "the environment"))
OTHER_KEY = Endpoint("openai", "http://localhost:1/v1", Key("MY_KEY", "sk-two", "the environment"))


class Client:
    def __init__(self, *made_with: Any) -> None:
        self.made_with = made_with
        self.loop: Any = None
        self.closed_on: Any = None

    async def close(self) -> None:
        self.closed_on = asyncio.get_running_loop()


class Library:
    """Creates clients and records them."""

    def __init__(self) -> None:
        self.clients: list[Client] = []

    def client(self, *made_with: Any) -> Client:
        self.clients.append(Client(*made_with))
        return self.clients[-1]

    def stream_class(self) -> Any: ...

    def error_details(self, error: BaseException) -> None: ...


async def clients(library: Library, *endpoints: Endpoint) -> list[Client]:
    return [await client_of(endpoint, library) for endpoint in endpoints]


def test_loop_has_one_client_per_address_and_key() -> None:
    library = Library()
    same = Endpoint("openai", "http://localhost:1/v1", Key("MY_KEY", "sk-one", "this kernel"))
    one, two, three, four, five, six = asyncio.run(clients(library, HERE, HERE, THERE, WITH_KEY, OTHER_KEY, same))
    assert one is two and four is six and len({id(client) for client in (one, three, four, five)}) == 4
    assert [client.made_with[:2] for client in library.clients] == [
        (HERE.url, None),
        (THERE.url, None),
        (HERE.url, WITH_KEY.key),
        (HERE.url, OTHER_KEY.key),
    ]


def test_client_is_closed_on_its_loop_when_that_closes() -> None:
    library = Library()

    async def loop_of() -> Any:
        await clients(library, HERE, THERE)
        assert not any(client.closed_on for client in library.clients)
        return asyncio.get_running_loop()

    loop = asyncio.run(loop_of())
    assert [client.closed_on for client in library.clients] == [loop, loop]


def test_another_loop_has_its_own_client() -> None:
    library = Library()
    first, second = asyncio.run(clients(library, HERE)), asyncio.run(clients(library, HERE))
    assert first[0] is not second[0]


def test_simultaneous_first_calls_share_one_client() -> None:
    library = Library()

    async def at_once() -> set[int]:
        found = await asyncio.gather(*(client_of(HERE, library) for _ in range(20)))
        return {id(client) for client in found}

    assert len(asyncio.run(at_once())) == 1


def test_closed_loop_is_released() -> None:
    async def loop_of() -> weakref.ref[asyncio.AbstractEventLoop]:
        await client_of(HERE, Library())
        return weakref.ref(asyncio.get_running_loop())

    known = asyncio.run(loop_of())
    gc.collect()
    assert known() is None


def test_abandoned_loop_is_released() -> None:
    library = Library()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client_of(HERE, library))
    loop.close()
    known = weakref.ref(loop)
    del loop
    asyncio.run(clients(library, HERE))
    gc.collect()
    assert known() is None


def test_each_account_has_one_limiter() -> None:
    assert limiter_of(HERE) is limiter_of(Endpoint("openai", HERE.url, None))
    assert limiter_of(WITH_KEY) is not limiter_of(OTHER_KEY)
    assert limiter_of(HERE) is not limiter_of(THERE)
    assert limiter_of(HERE) is not limiter_of(Endpoint("anthropic", HERE.url, None))


# Headers and secrets of a client

SECRET = "own-never-to-be-seen-0123456789"
KEY = Key("MY_KEY", SECRET, "here")
OTHERS_URL = "https://gateway.example/v1"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "NO_PROXY", "no_proxy")
FOR_THE_PROVIDER = {
    "OPENAI_ORG_ID": "my-org",
    "OPENAI_PROJECT_ID": "my-project",
    "OPENAI_ADMIN_KEY": "of-the-boss",
    "OPENAI_CUSTOM_HEADERS": "X-Mine: own",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Mine: own",
}


def headers_of(provider: str, url: str | None) -> dict[str, str]:
    """Return the headers of each request of a client, by lower-case name."""
    client = REMOTE[provider].sdk.client(url, KEY, 1.0)
    options = (anthropic if provider == "anthropic" else openai)._models.FinalRequestOptions
    return dict(client._build_request(options.construct(method="post", url="/x")).headers.items())


def test_provider_environment_settings_are_not_sent_to_other_servers(subtests: pytest.Subtests) -> None:
    for provider in FORMATS:
        with subtests.test(provider), pytest.MonkeyPatch.context() as monkeypatch:
            for variable, text in FOR_THE_PROVIDER.items():
                monkeypatch.setenv(variable, text)
            mine = ["own"] if provider == "anthropic" else ["my-org", "my-project", "own"]
            home = "https://api.anthropic.com" if provider == "anthropic" else "https://api.openai.com/v1"
            for url in (None, home):
                sent = headers_of(provider, url).values()
                assert [one for one in mine if one in sent] == mine
            for url in (
                OTHERS_URL,
                "http://localhost:8000/v1",
                home.replace("https", "http"),
                home.replace(".com", ".com.example"),
            ):
                sent = headers_of(provider, url).values()
                assert not [one for one in (*mine, "Bearer of-the-boss") if one in sent]


def test_foreign_servers_get_the_anthropic_key_in_both_headers() -> None:
    others, own = headers_of("anthropic", OTHERS_URL), headers_of("anthropic", None)
    assert others["x-api-key"] == SECRET and others["authorization"] == own["authorization"] == f"Bearer {SECRET}"
    assert "x-api-key" not in own and "x-api-key" not in headers_of("anthropic", "https://api.anthropic.com/")


def test_local_servers_bypass_the_proxy(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire), pytest.MonkeyPatch.context() as monkeypatch:
            for variable in PROXIES:
                monkeypatch.setenv(variable, "" if variable.lower() == "no_proxy" else "http://127.0.0.1:9")
            with LoopbackServer(["Here."]) as server:
                assert asyncio.run(reply_of(quick(server.model(wire)))).message.text == "Here."
            other = REMOTE[wire].sdk.client(OTHERS_URL, KEY, 1.0)
            assert any(
                transport is not None for transport in other._client._mounts.values()
            )  # other servers are reached through it


# Impossible clients


def test_invalid_client_environment_is_reported_once_without_secrets(subtests: pytest.Subtests) -> None:
    cases = [
        ("ALL_PROXY", "socks5://me:never@127.0.0.1:9", "socksio"),
        ("HTTPS_PROXY", "gopher://me:never@127.0.0.1:9", "proxy"),
        ("SSL_CERT_FILE", "/nowhere/never.pem", "certificates"),
    ]
    for wire, (variable, value, told) in product(FORMATS, cases):
        with subtests.test(wire=wire, variable=variable), pytest.MonkeyPatch.context() as monkeypatch:
            for proxy in PROXIES:
                monkeypatch.delenv(proxy, raising=False)
            monkeypatch.setenv(variable, value)
            endpoint = Endpoint(wire, OTHERS_URL, KEY, "MY_KEY")
            model = RemoteModel(REMOTE[wire], "m", Options(), endpoint)
            for wanted in (items_of(model), models_of(REMOTE[wire], endpoint)):
                with pytest.raises(SettingsError) as caught:
                    asyncio.run(wanted)
                assert told in str(caught.value) and variable in str(caught.value) and "never" not in repr(caught.value)
                assert caught.value.__cause__ is None and caught.value.__context__ is None
                assert SECRET not in "".join(repr(frame.f_locals) for frame, _ in traceback.walk_tb(caught.value.__traceback__))


def test_no_local_variable_in_our_frames_contains_the_key(subtests: pytest.Subtests) -> None:
    for provider in FORMATS:
        with subtests.test(provider):
            frames = 0

            def trace(frame: Any, event: str, arg: Any) -> Any:
                nonlocal frames
                if not frame.f_globals.get("__name__", "").startswith("agentnb.models"):
                    return None
                frames += 1
                assert SECRET not in repr(frame.f_locals)
                return trace

            endpoint, before = Endpoint(provider, OTHERS_URL, KEY), (sys.gettrace(), threading.gettrace())
            sys.settrace(trace)
            threading.settrace(trace)  # the library is loaded in a thread
            try:
                asyncio.run(client_of(endpoint, REMOTE[provider].sdk))
            finally:
                sys.settrace(before[0])
                threading.settrace(before[1])  # type: ignore[arg-type]  # None ends it
            assert frames > 5


# Real ones

SOME = size(4, nightly=10)


def test_one_model_serves_many_runs_and_loops_at_once(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire):
            with LoopbackServer(["Here."], repeat=True) as server:
                with ThreadPoolExecutor(4) as pool:
                    told = list(pool.map(lambda model: asyncio.run(some_at_once(model)), [quick(server.model(wire))] * 4))
                assert told == [["Here."] * SOME] * 4 and len(server.requests) == 4 * SOME
            gc.collect()


async def some_at_once(model: RemoteModel) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        replies = await asyncio.gather(*(reply_of(model) for _ in range(SOME)))
    return [reply.message.text for reply in replies]


def test_calls_of_one_loop_reuse_a_connection(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire):
            threads: list[int] = []
            with LoopbackServer([answered_by(threads)], repeat=True) as server:
                asyncio.run(five_in_turn(quick(server.model(wire))))
            assert len(threads) == 5 and len(set(threads)) == 1


def answered_by(threads: list[int]) -> Callable[[Any], str]:
    """Return a line that records its thread: each connection has its own."""
    return lambda body: threads.append(threading.get_ident()) or "Here."


async def five_in_turn(model: RemoteModel) -> None:
    for _ in range(5):
        await reply_of(model)


async def streamed(agent: Agent, until: str = "") -> None:
    """Stream a run, optionally only up to the first event of this name."""
    async for event in agent.stream("go"):
        if type(event).__name__ == until:
            break


WAYS: dict[str, Callable[[Agent], Any]] = {
    "run": lambda agent: asyncio.run(agent.run("go")).text,
    "run_sync": lambda agent: agent.run_sync("go").text,
    "start": lambda agent: agent.start("go").result(PATIENCE).text,
    "stream": lambda agent: asyncio.run(streamed(agent)),
    "left early": lambda agent: asyncio.run(streamed(agent, "RoundFinished")),
}
"""Ways to start an agent; each returns the text of the run, if any."""


def test_connections_are_closed_after_every_kind_of_run(subtests: pytest.Subtests) -> None:
    for how, wire in [*product(WAYS, FORMATS)][:: size(3, nightly=1)]:
        with subtests.test(wire=wire, how=how):
            before = set(threading.enumerate())
            script = [ToolCall("add", {"a": 1, "b": 2}), Stall(100, 3) if how == "left early" else "It is 3."]
            with LoopbackServer(script) as server:
                text = WAYS[how](Agent(server.model(wire), tools=[add], todos=False))
                assert text == (None if how in ("stream", "left early") else "It is 3.")
                wait_until(lambda before=before: [thread.name for thread in threads_since(before)] == [LISTENS])
            gc.collect()  # a connection that is still open would warn now, and warnings are errors


def threads_since(before: set[threading.Thread]) -> list[threading.Thread]:
    """Return our new threads: the loop of a run, the server listener, and each connection."""
    return [thread for thread in set(threading.enumerate()) - before if thread.name in ("agentnb", LISTENS)]


SCRIPT = """
import asyncio
from agentnb import Agent
from agentnb.testing import LoopbackServer

for wire in WIRES:
    with LoopbackServer(lambda body: "Here.") as server:
        agent = Agent(server.model(wire))
        assert agent.run_sync("go").text == "Here."
        assert asyncio.run(agent.run("go")).text == "Here."
        live = agent.start("go")
        assert live.result(20).text == "Here."
    print(wire)
"""


@pytest.mark.nightly("by day connections are closed with their loop")
@pytest.mark.slow("a script in a Python of its own, with the libraries of the providers")
def test_script_using_every_provider_exits_without_warnings() -> None:
    """Takes over 2 s: a separate Python imports the libraries of all providers."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", SCRIPT.replace("WIRES", repr(FORMATS))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    # In this mode asyncio reports slow steps, such as importing a library on a busy machine.
    told = [line for line in done.stderr.splitlines() if not line.startswith("Executing <Task")]
    assert (done.stdout.split(), told, done.returncode) == (list(FORMATS), [], 0)


def test_providers_that_share_a_key_share_a_limiter() -> None:
    chat, responses = (
        Endpoint("openai", None, None, "OPENAI_API_KEY"),
        Endpoint("openai-responses", None, None, "OPENAI_API_KEY"),
    )
    assert limiter_of(chat) is limiter_of(responses) is not limiter_of(Endpoint("ollama", None, None))
