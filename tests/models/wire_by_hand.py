"""Requests and streams made by hand, for the provider files as pure functions: no server, no library of a provider."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agentnb import Agent
from agentnb.core.log.events import Delta, TextDelta, ThinkingDelta
from agentnb.core.messages import AnyPart, Image, Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request, ToolSpec
from agentnb.models import Reply, ScriptedModel
from agentnb.models.options import Options
from agentnb.models.provider import Provider
from agentnb.models.providers.anthropic import PROVIDER as ANTHROPIC
from agentnb.models.providers.openai import PROVIDERS as SERVERS
from agentnb.models.providers.openai_responses import PROVIDER as RESPONSES

OPENAI, COMPATIBLE, OLLAMA = SERVERS["openai"], SERVERS["compatible"], SERVERS["ollama"]
PROVIDERS = {one.name: one for one in (ANTHROPIC, OPENAI, RESPONSES, COMPATIBLE, OLLAMA)}
PNG = Image("image/png", b"\x89PNG not really")
TIFF = Image("image/tiff", b"II*")
NO_DATA = Image("image/png", b"")
NO_COUNTS = ["five", "-5", "5" * 5000, 1.5, float("nan"), float("inf"), -1, 10**30, True, None, [3], {"a": 3}]
"""Values that servers send in place of token counts."""
URL = "data:image/png;base64,iVBORyBub3QgcmVhbGx5"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = ToolSpec("add", "Adds.", SCHEMA, ("network", "read"))
"""With effects, which no wire sends."""
NOW = ToolSpec("now", "Says the time.", {})
ODD = 'émoji 👀 עברית \u202e \x00 \x07 \\ " </x> {{ y }} \u2028'
"""A text with characters that are easily corrupted."""


def user(*parts: str | AnyPart) -> Message:
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: str | AnyPart) -> Message:
    return Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def call(number: int, name: str = "add", **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, f"call_{number}")


def result(number: int, *parts: str | Image, error: bool = False) -> ToolResult:
    made = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return ToolResult(f"call_{number}", "add", made, is_error=error)


def results(*parts: str | AnyPart) -> Message:
    return Message("tool", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def sent(provider: Provider, *messages: Message, **given: Any) -> Any:
    """Return the wire form of a request with this ``system``, ``tools``, ``settings`` and model options."""
    request = Request(given.pop("system", ""), messages or (user("Hi"),), given.pop("tools", ()), given.pop("settings", {}))
    return json.loads(provider.body("m", request, Options(**given)))


def read(provider: Provider, chunks: Iterable[Any]) -> tuple[list[Delta], Reply]:
    reading = provider.reading()
    deltas = [delta for chunk in chunks for delta in reading.take(chunk)]
    return deltas, reading.reply()


def reply(provider: Provider, *chunks: Any) -> Reply:
    return read(provider, chunks)[1]


def joined(deltas: Sequence[Delta]) -> tuple[str, str]:
    """Return the text and the thinking of the deltas."""
    told = {kind: "".join(delta.text for delta in deltas if type(delta) is kind) for kind in (TextDelta, ThinkingDelta)}
    return told[TextDelta], told[ThinkingDelta]


def requests_of_a_run(rounds: int = 5, **settings: Any) -> list[Request]:
    """Return the requests of a real run with guidance: rounds of one call, two calls, and so on, then an answer."""
    script: list[Any] = [
        [f"Now {number}.", *(ToolCall("add", {"a": a}) for a in range(number + 1))] for number in range(rounds)
    ]
    model = ScriptedModel([*script, "Done."])

    def add(a: int) -> str:
        """Adds."""
        return f"{a} and one is {a + 1}"

    Agent(model, tools=[add], todos=False, **settings).run_sync("Add things " + ODD)
    assert len(model.requests) == rounds + 1
    return model.requests
