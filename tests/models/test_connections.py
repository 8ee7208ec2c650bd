"""The connections to providers: whose they are, and when they end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from quick_models import FORMATS, PATIENCE, quick, reply_of

from agentnb import Agent, ToolCall
from agentnb.models import connections
from agentnb.models.connections import Endpoint, client_of, limiter_of
from agentnb.settings import Key
from agentnb.testing import LoopbackServer, Stall

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
    """Hands out clients and remembers them."""

    def __init__(self) -> None:
        self.clients: list[Client] = []

    def client(self, *made_with: Any) -> Client:
        self.clients.append(Client(*made_with))
        return self.clients[-1]

    def stream_class(self) -> Any: ...

    def said(self, error: BaseException) -> None: ...


@pytest.fixture(autouse=True)
def no_clients_before() -> Iterator[None]:
    connections._clients.clear()
    yield
    connections._clients.clear()
    gc.collect()


async def clients(library: Library, *endpoints: Endpoint) -> list[Client]:
    return [await client_of(one, library) for one in endpoints]


def test_a_loop_has_one_client_for_each_place_and_key() -> None:
    library = Library()
    same = Endpoint("openai", "http://localhost:1/v1", Key("MY_KEY", "sk-one", "this kernel"))
    one, two, three, four, five, six = asyncio.run(clients(library, HERE, HERE, THERE, WITH_KEY, OTHER_KEY, same))
    assert one is two and four is six and len({id(client) for client in (one, three, four, five)}) == 4
    assert [client.made_with[:2] for client in library.clients] == [
        ("http://localhost:1/v1", "none"),
        ("http://localhost:2/v1", "none"),
        ("http://localhost:1/v1", "sk-one"),
        ("http://localhost:1/v1", "sk-two"),
    ]


def test_a_client_is_closed_with_its_loop_and_on_it() -> None:
    library = Library()

    async def loop_of() -> Any:
        await clients(library, HERE, THERE)
        assert not any(client.closed_on for client in library.clients)
        return asyncio.get_running_loop()

    loop = asyncio.run(loop_of())
    assert [client.closed_on for client in library.clients] == [loop, loop]
    assert connections._clients == {}


def test_another_loop_has_a_client_of_its_own() -> None:
    library = Library()
    first, second = asyncio.run(clients(library, HERE)), asyncio.run(clients(library, HERE))
    assert first[0] is not second[0]


def test_calls_that_begin_at_once_share_one_client() -> None:
    library = Library()

    async def at_once() -> set[int]:
        found = await asyncio.gather(*(client_of(HERE, library) for _ in range(20)))
        return {id(client) for client in found}

    assert len(asyncio.run(at_once())) == 1


def test_a_loop_that_did_not_end_in_order_is_forgotten() -> None:
    library = Library()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client_of(HERE, library))
    loop.close()
    assert loop in connections._clients
    asyncio.run(clients(library, HERE))
    assert loop not in connections._clients


def test_a_provider_has_one_limiter_whatever_the_key_and_the_loop() -> None:
    assert limiter_of(HERE) is limiter_of(WITH_KEY) is limiter_of(OTHER_KEY)
    assert limiter_of(HERE) is not limiter_of(THERE)
    assert limiter_of(HERE) is not limiter_of(Endpoint("anthropic", HERE.url, None))


# Real ones


@pytest.mark.parametrize("wire", FORMATS)
def test_one_model_answers_in_many_runs_and_loops_at_once(wire: str) -> None:
    with LoopbackServer(lambda body: "Here.") as server:
        model = quick(server.model(wire))

        async def some() -> None:
            async with asyncio.timeout(PATIENCE):
                replies = await asyncio.gather(*(reply_of(model) for _ in range(10)))
            assert {reply.message.text for reply in replies} == {"Here."}

        threads = [threading.Thread(target=lambda: asyncio.run(some())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(server.requests) == 40
    gc.collect()


@pytest.mark.parametrize("wire", FORMATS)
def test_calls_of_one_loop_use_a_connection_again(wire: str) -> None:
    threads: set[int] = set()

    def answer(body: Any) -> str:
        threads.add(threading.get_ident())  # each connection has a thread of its own
        return "Here."

    async def several(name: str) -> None:
        model = quick(name)
        for _ in range(5):
            await reply_of(model)

    with LoopbackServer(answer) as server:
        asyncio.run(several(server.model(wire)))
    assert len(threads) == 1


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@pytest.mark.parametrize("how", ["run", "run_sync", "start", "stream", "left early"])
@pytest.mark.parametrize("wire", FORMATS)
def test_no_connection_stays_open_whichever_way_an_agent_is_set_to_work(wire: str, how: str) -> None:
    script = [ToolCall("add", {"a": 1, "b": 2}), Stall(100, 3) if how == "left early" else "It is 3."]
    before = set(threading.enumerate())
    with LoopbackServer(script) as server:
        agent = Agent(server.model(wire), tools=[add], todos=False)

        async def listen() -> None:
            async for event in agent.stream("go"):
                if how == "left early" and type(event).__name__ == "RoundFinished":
                    break

        if how == "run":
            assert asyncio.run(agent.run("go")).text == "It is 3."
        elif how == "run_sync":
            assert agent.run_sync("go").text == "It is 3."
        elif how == "start":
            assert agent.start("go").result(PATIENCE).text == "It is 3."
        else:
            asyncio.run(listen())
        for thread in set(threading.enumerate()) - before:
            if thread.name == "agentnb":
                thread.join(PATIENCE)
                assert not thread.is_alive()
    gc.collect()  # a connection that is still open would warn now, and warnings are errors
    assert not connections._clients


SCRIPT = """
import asyncio, gc
from agentnb import Agent
from agentnb.models import connections
from agentnb.testing import LoopbackServer

with LoopbackServer(lambda body: "Here.") as server:
    agent = Agent(server.model("WIRE"))
    assert agent.run_sync("go").text == "Here."
    assert asyncio.run(agent.run("go")).text == "Here."
    live = agent.start("go")
    assert live.result(20).text == "Here."
print("done")
"""


@pytest.mark.parametrize("wire", FORMATS)
def test_a_script_ends_without_a_word_of_warning(wire: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", SCRIPT.replace("WIRE", wire)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_providers_that_share_a_key_share_a_limiter() -> None:
    chat, responses = (
        Endpoint("openai", None, None, "OPENAI_API_KEY"),
        Endpoint("openai-responses", None, None, "OPENAI_API_KEY"),
    )
    assert limiter_of(chat) is limiter_of(responses) is not limiter_of(Endpoint("ollama", None, None))
