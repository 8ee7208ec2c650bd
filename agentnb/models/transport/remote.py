"""A model behind a provider's API: everything between a request and a reply that is not specific to the provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace as with_changes
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Message
from agentnb.core.redaction import redact
from agentnb.core.request import Request
from agentnb.core.run.rounds import BY_SCHEMA, CONTEXT_TOKENS, LEARNED_TRAITS, TOKENS_ESTIMATED
from agentnb.core.usage import NOTHING_USED, Usage
from agentnb.errors import BrokenReply, ProviderTimedOut, RequestRefused
from agentnb.models import prices, traits
from agentnb.models.capabilities import Capabilities
from agentnb.models.defaults import MAX_TURNS
from agentnb.models.estimate import about, with_estimates
from agentnb.models.model import Notice, Reply, Retry, StreamItem, Unshown
from agentnb.models.options import OF_TRAITS, OPTION_OF, Options, format_options, option_text
from agentnb.models.provider import CutOff, Provider, Reading, Refused
from agentnb.models.traits import Traits
from agentnb.models.transport.connections import Endpoint, client_of, limiter_of
from agentnb.models.transport.event_stream import EventStream
from agentnb.models.transport.failure import (
    Failure,
    Refusal,
    broken_connection,
    failure,
    read_error,
    readable,
    wait_longer,
    words_of,
)
from agentnb.models.transport.idle_timeout import IdleTimeout, until_idle
from agentnb.models.transport.response_limit import MAX_PIECE, TooMuch
from agentnb.models.transport.retry import AttemptFailed, RetryPolicy, with_retries

USUAL_RETRIES = RetryPolicy()
NOT_OF_THE_FORM = (401, 402, 403, 404, 408, 429)
"""HTTP statuses of refusals that do not depend on the form of the request."""
PAUSED = "pause_turn"
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)
"""Exceptions that a malformed reply causes."""
WORTH_COUNTING = 500
"""Minimum number of characters without a delta that yields an `Unshown`."""
WHOLE = ("content", "choices", "output")
"""Fields of an unstreamed reply, at least one of which is present."""


class RemoteModel:
    """A provider's model, created from its name by `make_model`.

    Replies are streamed unless the name has ``stream=no``; the result is the same. Transient failures are retried; see
    `RetryPolicy`. Raises a `ModelError`: `KeyRefused`, `RequestRefused`, `ContextOverflow`, `RateLimited`, `ProviderTrouble`
    or `BrokenReply`.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        options: Options,
        endpoint: Endpoint,
        *,
        retries: RetryPolicy = USUAL_RETRIES,
    ) -> None:
        if options.retries is not None:
            retries = with_changes(retries, rate_limit_retries=options.retries, trouble_retries=options.retries)
        self.name = f"{provider.name}:{model}{format_options(options)}"
        self.model = model
        self.options = options
        self.retries = retries
        self._provider = provider
        self._endpoint = endpoint
        self._server = f"{endpoint.url or provider.name} {model}"
        self._learned: dict[str, Any] | None = None
        images = provider.sees if options.images is None else options.images
        self._sent_options = with_changes(options, images=images, server=self._server, traits=self._traits())

    @property
    def by_person(self) -> bool:
        """True if the person named it, and so chose its address and its key."""
        return self._endpoint.by_person

    @property
    def is_price_of_file(self) -> bool:
        """True if only a file or a log states its price."""
        return self.options.price is not None and not self.by_person

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the reply. If the provider pauses it, request the rest and join the parts into one reply."""
        prices_ready = None if prices.is_loaded() else asyncio.get_running_loop().run_in_executor(None, prices.load)
        limiter = limiter_of(self._endpoint)
        await client_of(self._endpoint, self._provider.sdk)  # its first import takes a second, which is not the model's time
        started = perf_counter()
        before: Reply | None = None
        used = NOTHING_USED
        tried = traits.tried_in_run.get()
        tried = set() if tried is None else tried
        for turn in range(MAX_TURNS):
            async with aclosing(with_retries(partial(self._attempt, request, tried), self.retries, limiter)) as items:
                async for item in items:
                    if isinstance(item, Reply):
                        reply = item
                    else:
                        yield item
                        if isinstance(item, Retry) and before is not None and (text := before.message.text):
                            yield TextDelta(text)  # a retry discards all deltas, but repeats only this turn
            before = reply if before is None else _join_replies(before, reply)
            used += with_estimates(reply.usage, request, reply.message)
            # Tool calls need results before the reply can continue; the agent loop provides them.
            if reply.stop_reason != PAUSED or reply.message.calls or turn == MAX_TURNS - 1:
                break
            request = request.and_then(reply.message)
        assert before is not None
        seconds = perf_counter() - started
        if prices_ready is not None:
            await prices_ready
        metadata = {**before.metadata, BY_SCHEMA: True} if self.options.output_schema is not None else before.metadata
        if self._learned:
            metadata = {**metadata, LEARNED_TRAITS: self._learned}
        usage = self._add_cost(before, used)
        if usage.estimated:
            metadata = {**metadata, TOKENS_ESTIMATED: True}
        yield replace(before, usage=usage, seconds=seconds, metadata=metadata)

    def capabilities(self) -> Capabilities:
        """Return the capabilities from the model's entry in the price table, if the table has been loaded."""
        if not prices.is_loaded():
            return Capabilities(has_price=self._has_own_price)
        window, priced = prices.look_up(self._provider.name, self.model, self._endpoint.url)
        return Capabilities(context_window=window, has_price=priced or self._has_own_price)

    def used_until_cut(self, request: Request, heard: Message) -> Usage:
        """Estimate the usage of a call whose reply broke off after this message."""
        used = about(request, heard)
        if not (self._has_own_price or prices.is_loaded()):
            return used  # loading the table now would block the event loop
        return self._add_cost(Reply(heard, used), used)

    def _traits(self) -> Traits | None:
        """Return the traits of the server: those for its name, overridden by what its refusals revealed, overridden in turn by
        the options.
        """
        usual = self._provider.traits
        own = {name: value for name in OF_TRAITS if (value := getattr(self.options, name)) is not None}
        return None if usual is None else with_changes(usual, **{**(self._learned or {}), **own})

    def _learn(self, error: Exception, tried: set[str], sent: Traits | None) -> Notice | None:
        """Store the trait that this refusal names, and return a notice, or None if the request would not change.

        ``tried``: traits already changed in this run; ``sent``: traits of the refused request.
        """
        details = error.details if isinstance(error, Refused) else self._provider.sdk.error_details(error)
        if sent is None or details is None or details.status in NOT_OF_THE_FORM:
            return None
        named_trait = traits.named_in(f"{details.message}\n{details.body}", tried)
        if named_trait is None:
            return None
        trait, value = named_trait
        tried.add(trait)
        option, word = OPTION_OF.get(named_trait, (trait, option_text(value)))
        if getattr(self.options, option, None) is not None or getattr(sent, trait) == value:
            return None
        traits.learn(self._server, trait, value)
        at = f" at {self._endpoint.url}" if self._endpoint.url else ""
        problem = f"{self._provider.name}: the server{at} refused this form of the request; it was resent with {option}={word}"
        advice = f"To send it this way from the start, add ?{option}={word} to the model name"
        return Notice(problem, advice if option in self._provider.options else "")

    def body(self, request: Request) -> bytes:
        """Return the request as JSON, as it would be sent."""
        if (learned := traits.learned_of(self._server)) is not self._learned:
            self._learned = learned
            self._sent_options = with_changes(self._sent_options, traits=self._traits())
        options, schema = self._sent_options, request.settings.get("output_schema")
        own_server = self._endpoint.url is None
        if schema is not None and options.output_schema is None and own_server and self._provider.takes_schema(schema):
            options = with_changes(options, output_schema=schema)
        return self._provider.body(self.model, request, options)

    async def _attempt(self, request: Request, tried: set[str]) -> AsyncGenerator[StreamItem]:
        """Yield a reply. If the form of the request is refused, send it again in the other form, at most once per trait;
        ``tried`` holds those already changed.
        """
        while True:
            body = self.body(request)
            options = self._sent_options
            reading, counted, begun = self._provider.reading(options), 0, False
            try:
                try:
                    all_chunks = self._chunks(body, reading)
                    async with aclosing(all_chunks), aclosing(self._in_time(all_chunks, reading)) as chunks:
                        async for chunk in chunks:
                            for delta in reading.take(chunk):
                                yield delta
                            begun = True
                            if (unshown := reading.unshown) >= counted + WORTH_COUNTING:
                                yield Unshown(unshown - counted)
                                counted = unshown
                except Exception as error:
                    # A complete reply is paid for, even if its stream ends badly; a reported error still counts.
                    if not reading.ended or not _is_of_the_way(error):
                        raise
                reply = reading.reply()
                break
            except Exception as error:
                notice = None if begun else self._learn(error, tried, options.traits)
                if notice is None:
                    raise AttemptFailed(failure_of(error, self._provider, self._endpoint, self.model)) from error
            yield notice
        yield reply

    def _in_time(self, chunks: AsyncGenerator[Any], reading: Reading) -> AsyncGenerator[Any]:
        return until_idle(chunks, self.options.longest_stall, lambda: reading.ended)

    async def _chunks(self, body: bytes, reading: Reading) -> AsyncGenerator[Any]:
        """Yield the chunks of the reply as plain data. Avoids the library's ``create``, which would first traverse the entire
        history.
        """
        import httpx2

        client = await client_of(self._endpoint, self._provider.sdk)
        as_json = {"headers": {"Content-Type": "application/json"}}
        response = await client.post(self._provider.path, cast_to=httpx2.Response, content=body, options=as_json, stream=True)
        async with aclosing(response):
            anything, events = False, EventStream(response)
            async for chunk in events.chunks():
                anything = True
                yield chunk
            # Some servers do not stream although the request says so, and some URLs belong to other kinds of servers.
            body_data, is_stream = _read_body(events.bare), "event-stream" in response.headers.get("content-type", "")
            if not anything and (isinstance(body_data, dict) or not is_stream):
                for chunk in _whole(body_data, self._provider):
                    yield chunk
            elif isinstance(body_data, dict):
                yield body_data
            elif body_data and not reading.ended:
                raise Refused(read_error(body_data))

    def _add_cost(self, reply: Reply, used: Usage) -> Usage:
        """Return the usage with its cost, priced by the requested model's name or, failing that (as with gateways), by the
        name in the reply.

        ``used`` includes estimates for tokens that the server did not count. They are kept only if a price is known, since a
        budget may depend on it; otherwise the server's own counts are returned.
        """
        at, price = datetime.now(UTC), self.options.price
        details: Any = {"url": self._endpoint.url, "long_cache": self.options.cache == "1h"}
        details["is_own_price"] = self._has_own_price
        claimed: list[Usage] = []
        for model in (self.model, reply.metadata.get("model")):
            if isinstance(model, str):
                usage = prices.add_cost(used, self._provider.name, model, at, price, **details)
                if usage.cost is not None and (price is None or self._has_own_price):
                    return usage
                claimed.append(usage)  # by a file: the table may know the name in the reply only
        return max(
            (usage for usage in claimed if usage.cost is not None), key=lambda usage: usage.cost or 0, default=reply.usage
        )

    @property
    def _has_own_price(self) -> bool:
        """True if the person stated its price."""
        return self.options.price is not None and self.by_person


async def models_of(provider: Provider, endpoint: Endpoint) -> list[str]:
    """Return the names of the provider's models for this key. Raises a `ModelError` if it does not list them."""
    client = await client_of(endpoint, provider.sdk)
    try:
        is_elsewhere = provider.models_path.startswith("https:") and endpoint.url != provider.url
        answer = await client.get("/models" if is_elsewhere else provider.models_path, cast_to=object)
        if not isinstance(answer, dict | list):
            raise NoReply(_kind_of(answer), "list of models")
        return [str(entry["id"]) for entry in (answer["data"] if isinstance(answer, dict) else answer)]
    except Exception as error:
        failed = failure_of(error, provider, endpoint, "list of models").error
    raise failed  # outside the handler: the traceback then has no frames of the libraries, which have the key


class NoReply(Exception):
    """The server sent something other than a reply, with a success status."""

    def __init__(self, sent: str, wanted: str = "reply") -> None:
        super().__init__(sent)
        self.sent = sent
        self.wanted = wanted


def _whole(data: Any, provider: Provider) -> Sequence[Any]:
    """Return an unstreamed reply as the chunks of a stream. Raises `Refused` or `NoReply` for anything else."""
    data = data[0] if isinstance(data, list) and data else data
    is_object = isinstance(data, dict)
    error = is_object and (data.get("error") or (data if data.get("object") == "error" else None))
    if error and not any(data.get(key) for key in WHOLE):
        raise Refused(read_error(error))
    if not is_object or not any(key in data for key in WHOLE):
        raise NoReply(_kind_of(data))
    return provider.as_stream(data)


def _kind_of(data: Any) -> str:
    if not isinstance(data, str):
        return "nothing" if data is None else f"other JSON ({words_of(data)})"
    text = data.strip()
    return "a web page" if text.startswith("<") else f"text ({text})" if text else "nothing"


def _read_body(text: str) -> Any:
    """Return the JSON or text outside events: an unstreamed reply, or an error, which may have a prefix."""
    error = text.removeprefix("error:").strip()
    return _read_json(text) if error == text else {"error": _read_json(error)}


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.startswith(("{", "[")):
            raise
        return text


def failure_of(error: Exception, provider: Provider, endpoint: Endpoint, model: str) -> Failure:
    """Return the failure for an attempt's exception, with the key removed, since servers may repeat it.

    Any other exception is a bug, and is raised again.
    """
    if isinstance(error, IdleTimeout):
        problem = f"{provider.name}: no part of the reply arrived for {error.seconds:g} s, although the connection is open"
        result = Failure(ProviderTimedOut(problem, wait_longer("stall")), transient=True)
    elif any(isinstance(cause, TooMuch) for cause in _causes(error)):
        problem = f"{provider.name}: the server sent more than {MAX_PIECE / 1e6:.0f} MB in one piece"
        result = Failure(
            BrokenReply(problem, "Try another model, or check that url= points to a model server"), transient=False
        )
    else:
        result = _failure_of(error, provider, endpoint, model)
    return replace(result, error=type(result.error)(*redact((result.error.what, result.error.advice))))


def _failure_of(error: Exception, provider: Provider, endpoint: Endpoint, model: str) -> Failure:
    import httpx2

    details = error.details if isinstance(error, Refused) else provider.sdk.error_details(error)
    if details is not None:
        return failure(
            Refusal(
                provider.name,
                model,
                details.status,
                redact(details.name),
                redact(details.message),  # before it is truncated
                details.headers,
                endpoint.key_name,
                endpoint.url,
            )
        )
    if isinstance(error, CutOff):
        return broken_connection(provider.name, ConnectionError("the stream ended before the reply was complete"))
    if (cause := _connection_cause(error)) is not None:
        return broken_connection(provider.name, cause, endpoint.url)
    if isinstance(error, httpx2.InvalidURL):
        return Failure(RequestRefused(f"{provider.name}: {readable(str(error))}", "Use another URL: url="), transient=False)
    if (broken := _broken_reply(error, provider, endpoint)) is not None:
        return broken
    raise error


def _broken_reply(error: Exception, provider: Provider, endpoint: Endpoint) -> Failure | None:
    """Return the failure for a response that is not a reply, or None for any other error."""
    if isinstance(error, NoReply):
        location = f" at {endpoint.url}" if endpoint.url else ""
        problem = f"{provider.name}: the server{location} sent {readable(error.sent)} instead of a {error.wanted}"
        return Failure(
            BrokenReply(problem, "Check the URL. It often ends in /v1: url=http://localhost:8000/v1"), transient=False
        )
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        sent = error.doc.strip() if isinstance(error, json.JSONDecodeError) else ""
        words = "" if sent.startswith(("{", "[")) else readable(sent)  # some servers send an error message as plain text
        problem = f"{provider.name}: the response is not complete JSON" + (f": {words}" if words else "")
    elif isinstance(error, MALFORMED) or _is_called(error, "APIError"):
        problem = f"{provider.name}: the response is not a reply ({readable(f'{type(error).__name__}: {error}')})"
    else:
        return None
    return Failure(BrokenReply(problem, "Try again, or check that url= points to a model server"), transient=True)


def _is_of_the_way(error: Exception) -> bool:
    """Return whether the error comes from the connection, or from invalid bytes."""
    return isinstance(error, IdleTimeout | ValueError) or _connection_cause(error) is not None


def _connection_cause(error: Exception) -> BaseException | None:
    """Return the cause of a connection error, or None for any other error."""
    import httpx2

    causes = list(_causes(error))
    direct = [cause for cause in causes if isinstance(cause, httpx2.HTTPError | httpx2.StreamError | OSError)]
    return next(iter(direct or (causes[-1:] if _is_called(error, "APIConnectionError", "EndOfStream") else ())), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_called(error: BaseException, *names: str) -> bool:
    """Return whether the error's class, or one of its bases, has one of these names: the libraries are not imported here."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _join_replies(first: Reply, second: Reply) -> Reply:
    message = Message("assistant", first.message.parts + second.message.parts)
    metadata, used = {**first.metadata, **second.metadata}, second.usage
    metadata.pop(CONTEXT_TOKENS, None)
    if used.input is not None:
        metadata[CONTEXT_TOKENS] = used.input + (used.output or 0)
    return replace(second, message=message, usage=first.usage + used, metadata=metadata)
