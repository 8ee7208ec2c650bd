"""Every kind of model, with the same script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.core.request import Request
from agentnb.models import Model, Reply, ScriptedModel, SimulatedModel, make_model
from agentnb.testing import Answer, LoopbackServer


class End(NamedTuple):
    """A reply with an unusual ending: ``cut`` or ``refused``."""

    parts: Sequence[Any]
    how: str


REASONS = {"cut": "max_tokens", "refused": "refusal"}
PROMPT = "Please:\n\n- add `add(1, 2)` and `add(a=3, b=4)`\n- fail `fail('because')`\n"
"""The plan of the simulated model, and the prompt for all models."""


class Whole:
    """Another model without its deltas."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        async for item in self._model.stream(request):
            if isinstance(item, Reply):
                yield item


class Overheard:
    """Wraps a model and records its requests and output."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self.requests: list[Request] = []
        self.streams: list[list[Any]] = []
        self._model = model

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        items: list[Any] = []
        self.requests.append(request)
        self.streams.append(items)
        async for item in self._model.stream(request):
            items.append(item)
            yield item


class Kind:
    """A kind of model; creates models with the given replies."""

    follows_scripts = True
    streams = True

    def __init__(self, *, streams: bool = True) -> None:
        self.streams = streams
        self._open = ExitStack()
        self.servers: list[LoopbackServer] = []

    def model(self, script: Sequence[Any]) -> Model:
        raise NotImplementedError

    def close(self) -> None:
        self._open.close()


class Scripted(Kind):
    def model(self, script: Sequence[Any]) -> Model:
        return ScriptedModel([_as_reply(line) if isinstance(line, End) else line for line in script], stream=self.streams)


class Simulated(Kind):
    follows_scripts = False

    def model(self, script: Sequence[Any]) -> Model:
        return SimulatedModel(delay=0.0001 if self.streams else 0.0)


class Remote(Kind):
    def __init__(self, provider: str, *, streams: bool = True) -> None:
        super().__init__(streams=streams)
        self._provider = provider

    def model(self, script: Sequence[Any]) -> Model:
        lines = [Answer(line.parts, stop_reason=REASONS[line.how]) if isinstance(line, End) else line for line in script]
        minimal = self._provider in ("compatible", "ollama")
        server = self._open.enter_context(LoopbackServer(lines, minimal=minimal))
        self.servers.append(server)
        return make_model(server.model(self._provider, stream="yes" if self.streams else "no", images="yes"))


PROVIDERS = ("anthropic", "openai", "openai-responses", "compatible", "ollama")
KINDS: dict[str, tuple[type[Kind], dict[str, Any]]] = {
    "scripted": (Scripted, {}),
    "scripted, whole": (Scripted, {"streams": False}),
    "simulated": (Simulated, {}),
    **{name: (Remote, {"provider": name}) for name in PROVIDERS},
    **{f"{name}, whole": (Remote, {"provider": name, "streams": False}) for name in PROVIDERS},
}


@contextmanager
def kind_of(name: str) -> Iterator[Kind]:
    """Yield the kind with this name, and close its resources afterwards."""
    make, settings = KINDS[name]
    kind = make(**settings)
    try:
        yield kind
    finally:
        kind.close()


def _as_reply(line: End) -> Reply:
    parts = [Text(part) if isinstance(part, str) else part for part in line.parts]
    assert all(isinstance(part, Text | Thinking | ToolCall) for part in parts)
    return Reply(Message("assistant", tuple(parts)), stop_reason=REASONS[line.how])
