"""agentnb in the bench of its peers: in memory."""

import common as c

from agentnb.agent.agent import Agent
from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.models.model import Reply
from agentnb.tools.function import tool

DONE = Reply(Message("assistant", (Text(c.FINAL),)), stop_reason="end_turn")


class Fake:
    """A stateless model: which round it is, it reads off the request."""

    name = "scripted:bench"

    def __init__(self, script, yields=False):
        self._script = script
        self._yields = yields

    async def stream(self, request):
        if self._yields:
            import asyncio

            await asyncio.sleep(0)
        yield self._script(len(request.messages))


class Streaming:
    name = "scripted:bench"

    def __init__(self, chunks):
        self._chunks = chunks

    async def stream(self, request):
        heard = []
        for _ in range(self._chunks):
            heard.append("tok ")
            yield TextDelta("tok ")
        yield Reply(Message("assistant", (Text("".join(heard)),)), stop_reason="end_turn")


class Adapter(c.Adapter):
    VENV, DISTS, MODULE = "agentnb", ["agentnb"], "agentnb"
    NOTES = {
        "J2": "agentnb: requests joined from kept fragments, sent through the client of the SDK, without its walk over them"
    }

    def _run(self, model, tools):
        agent = Agent(model, tools=tools, max_rounds=1000)

        async def run():
            return (await agent.run(c.TASK, store=self.store())).text

        return run

    def store(self):
        return None

    def make_loop(self, n, tool="async"):
        def script(length):
            i = (length - 1) // 2
            if i < n:
                return Reply(Message("assistant", (ToolCall("add", {"a": i, "b": 1}, id=f"call_{i}"),)), stop_reason="tool_use")
            return DONE

        # J6 starts 1,000 runs of three rounds at once: there a model that never waits would run them one after the other.
        return self._run(Fake(script, yields=n == 3), [c.ADD[tool]])

    def make_parallel(self, k, kind):
        calls = Reply(Message("assistant", tuple(ToolCall("nap", {"i": i}, id=f"call_{i}") for i in range(k))))
        return self._run(Fake(lambda length: calls if length == 1 else DONE), [tool(parallel_safe=True)(c.NAP[kind])])

    def make_http_loop(self, n, provider, stream, url):
        below = "/v1" if provider == "openai" else ""
        return self._run(f"{provider}:bench-{n}-add-text?url={url}{below}{'' if stream else '&stream=no'}", [c.ADD["async"]])

    def make_http_stream(self, n, on_chunk, url):
        return self._watched(f"openai:bench-s{n}?url={url}/v1", on_chunk)

    def make_stream(self, n, on_chunk):
        return self._watched(Streaming(n), on_chunk)

    def _watched(self, model, on_chunk):
        agent = Agent(model)

        def watch(item):
            if type(item) is TextDelta:
                on_chunk(item.text)

        async def run():
            await agent.run(c.TASK, watch=watch, store=self.store())
            return c.FINAL

        return run
