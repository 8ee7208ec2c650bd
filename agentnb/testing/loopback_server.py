"""A local server that answers like the providers, and is just as strict."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from agentnb.core.usage import Usage
from agentnb.errors import SettingsError, suggest_names
from agentnb.settings import SERVERS
from agentnb.testing.ids import Ids
from agentnb.testing.listener import Listener
from agentnb.testing.listing import models_body
from agentnb.testing.memory import Memory
from agentnb.testing.prompt_cache import Count, PromptCache
from agentnb.testing.received import Received, without_keys
from agentnb.testing.replies.lines import Answer
from agentnb.testing.replies.reply_format import Asked, Delivery, Like, Wire
from agentnb.testing.replies.reply_script import Line, Script, script_error
from agentnb.testing.replies.wires import CHAT, MESSAGES, WIRES
from agentnb.testing.requests.request_rules import key_problem, problems

MODEL = "loopback"
"""The model that the server lists; requests may name any other."""


class LoopbackServer:
    """Serves Anthropic's Messages API, Chat Completions and the Responses API on a local port.

        with LoopbackServer(["Hello", ToolCall("add", {"a": 1, "b": 2}), Status(429, retry_after=1), "done"]) as server:
            agent = Agent(server.model("anthropic"), tools=[add])

    Each request, to any of the APIs, takes one line of the script: any line of a `ScriptedModel`, an `Answer`, a
    `Misbehaviour`, or a function of the request's body. A function in place of the list answers every request, and may be
    called from several threads at once. Requests that a provider would refuse are refused with the provider's message and take
    no line. Requests after the last line are refused too, unless ``repeat`` restarts the script.

    Only ``key`` is accepted, or any key if it is not set. ``minimal=True`` imitates a small compatible server, which refuses
    fields outside the minimal list and requires a key only if ``key`` is set. ``like="mistral"``, or the name of another server
    that agentnb knows, makes it behave like that server. ``lenient=True`` also answers requests that have problems, where
    possible, and records them with the request. ``requests`` holds the received requests, ``problems`` all their problems.
    """

    def __init__(
        self,
        script: Iterable[Line] | Callable[[dict[str, Any]], Line] = (),
        *,
        repeat: bool = False,
        key: str | None = None,
        minimal: bool = False,
        lenient: bool = False,
        like: str = "",
    ) -> None:
        self.requests: list[Received] = []
        self.lenient = lenient
        self.like = like
        self._like = _like(like) if like else Like(minimal)
        self._needs_key = "key" in SERVERS[like] if like else not minimal
        self._script = Script(script, repeat)
        self._key = key
        self._ids = Ids()
        self._memory = Memory()
        self._cache = PromptCache()
        self._lock = threading.Lock()
        self._listener: Listener | None = None

    def __enter__(self) -> LoopbackServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Its URL, such as ``http://127.0.0.1:40123``."""
        if self._listener is None:
            raise RuntimeError("The server is not listening: write `with LoopbackServer(...) as server:`, or call start()")
        return f"http://127.0.0.1:{self._listener.port}"

    def start(self) -> LoopbackServer:
        """Start listening. A ``with`` block does this, and closes the server at its end."""
        if self._listener is None:
            self._listener = Listener(self._answer, self._get)
            self._listener.start()
        return self

    def close(self) -> None:
        """Stop answering, and close all connections. The received requests are kept."""
        if self._listener is not None:
            self._listener.close()

    @property
    def problems(self) -> list[str]:
        """Problems of the requests so far."""
        return [problem for received in self.requests for problem in received.problems]

    def model(self, provider: str = "", **options: str | float) -> str:
        """Return the model name to use for this provider or for the imitated server, with any options.

        For example ``server.model("openai", stream="no")``.
        """
        provider = provider or self.like or "compatible"
        url = self.url if SERVERS.get(provider, {}).get("wire") == MESSAGES.name else f"{self.url}/v1"
        return f"{provider}:{MODEL}?{urlencode({'url': url, **options}, safe=':/')}"

    def _answer(self, path: str, raw: bytes, headers: dict[str, str]) -> tuple[Received | None, Delivery]:
        wire = WIRES.get(path)
        if wire is None:
            return None, CHAT.refuse(404, f"Unknown request URL: POST {path}.", "unknown_url")
        received = Received(wire.name, raw, without_keys(headers))
        with self._lock:
            self.requests.append(received)
        delivery = self._judge(wire, received, headers)
        received.answered = None if delivery.ending != "good" and not delivery.chunks else delivery.status
        return received, self._with_id(wire, delivery)

    def _judge(self, wire: Wire, received: Received, headers: dict[str, str]) -> Delivery:
        refused = key_problem(wire, headers, self._key, self._needs_key)
        if refused and not self.lenient:
            return wire.refuse(401, refused)
        try:
            body = json.loads(received.raw)
        except ValueError:
            return wire.refuse(400, "The request body is not valid JSON.")
        if not isinstance(body, dict):
            return wire.refuse(400, "The request body is not an object.")
        received.body = body
        violations = problems(wire, body, headers, self._memory, self._like)
        received.problems = (refused, *violations) if refused else (*violations,)
        if received.problems and not self.lenient:
            return wire.refuse(400, received.problems[0])
        count = self._count(wire, body)
        asked = Asked(body, self._ids, self._memory, count.usage, self._like)
        try:
            line = self._script.line(body)
            delivery = wire.deliver(line, asked) if isinstance(line, Answer) else line.deliver(wire, asked)
            if delivery.status == 200:
                self._cache.keep(count)
            return delivery
        except Exception as error:  # of the script: the reader of the refusal should learn of it
            return wire.refuse(400, script_error(error))

    def _count(self, wire: Wire, body: dict[str, Any]) -> Count:
        try:
            return self._cache.of_messages(body) if wire is MESSAGES else self._cache.automatic(body)
        except (TypeError, AttributeError, LookupError):  # a lenient server answers it nevertheless
            return Count(Usage(0, 0), frozenset())

    def _get(self, path: str, headers: dict[str, str]) -> Delivery:
        wire = MESSAGES if "anthropic-version" in headers else CHAT
        if (problem := key_problem(wire, headers, self._key, self._needs_key)) and not self.lenient:
            return wire.refuse(401, problem)
        if path != "/v1/models":
            return wire.refuse(404, f"Unknown request URL: GET {path}.")
        return wire.at_once(models_body(MODEL, wire is MESSAGES))

    def _with_id(self, wire: Wire, delivery: Delivery) -> Delivery:
        name = "request-id" if wire is MESSAGES else "x-request-id"
        return replace(delivery, headers={name: self._ids.letters("req_011", 21), **delivery.headers})


def _like(name: str) -> Like:
    """Return the kind of server with this name."""
    if name not in SERVERS:
        raise SettingsError(f"{name!r} is not a server that can be imitated", suggest_names(name, SERVERS))
    row = SERVERS[name]
    is_strict = row["wire"] != CHAT.name or "own" in row  # as the server is without a name
    more: dict[str, Any] = {key: row[key] for key in ("knows", "signs") if key in row}
    return Like(not is_strict, {"without": row.get("without", ()), **more, **row.get("traits", {})})
