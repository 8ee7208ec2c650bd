"""A model behind a provider's API: everything between a request and a reply that is not particular to the provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace as with_changes
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from agentnb.core.events import Delta, TextDelta
from agentnb.core.messages import Message
from agentnb.core.request import Request
from agentnb.core.rounds import BY_SCHEMA
from agentnb.core.usage import Usage
from agentnb.errors import BrokenReply, RequestRefused
from agentnb.models import prices
from agentnb.models.connections import Endpoint, client_of, limiter_of
from agentnb.models.failure import Failure, Refusal, broken_connection, failure, readable
from agentnb.models.model import Reply, Retry, StreamItem
from agentnb.models.options import Options, named
from agentnb.models.provider import CutOff, Provider, Refused
from agentnb.models.retry import AttemptFailed, RetryPolicy, with_retries

USUAL_RETRIES = RetryPolicy()
MOST_TURNS = 10
"""How often a reply that the provider only paused is taken up again."""
PAUSED = "pause_turn"


class RemoteModel:
    """A model of a provider; made from its name by `make_model`.

    Replies stream, or come whole with ``stream=no`` in the name; both give the same. Failures that may pass are tried again,
    see `RetryPolicy`. Raises a `ModelError`: `KeyRefused`, `RequestRefused`, `ContextOverflow`, `RateLimited`,
    `ProviderTrouble` or `BrokenReply`.
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
        self.name = f"{provider.name}:{model}{named(options)}"
        self.model = model
        self.options = options
        self.retries = retries
        self._provider = provider
        self._endpoint = endpoint
        self._sent_options = options if options.images is not None else with_changes(options, images=provider.sees)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """The reply. Where the provider paused in the middle of one, it is asked to go on: all of it is one reply."""
        prices_ready = None if prices.loaded() else asyncio.get_running_loop().run_in_executor(None, prices.load)
        limiter = limiter_of(self._endpoint)
        await client_of(self._endpoint, self._provider.sdk)  # whose first import takes a second, which is not the model's
        started = perf_counter()
        before: Reply | None = None
        for turn in range(MOST_TURNS):
            body = self.body(request)
            async with aclosing(with_retries(partial(self._attempt, body), self.retries, limiter)) as items:
                async for item in items:
                    if isinstance(item, Reply):
                        reply = item
                    else:
                        yield item
                        if isinstance(item, Retry) and before is not None and (text := before.message.text):
                            yield TextDelta(text)  # hearing begins anew, but only this turn does
            before = reply if before is None else _joined(before, reply)
            if reply.stop_reason != PAUSED or turn == MOST_TURNS - 1:
                break
            request = replace(request, messages=(*request.messages, reply.message))
        assert before is not None
        seconds = perf_counter() - started
        if prices_ready is not None:
            await prices_ready
        metadata = {**before.metadata, BY_SCHEMA: True} if self.options.output_schema is not None else before.metadata
        yield replace(before, usage=self._priced(before), seconds=seconds, metadata=metadata)

    def body(self, request: Request) -> bytes:
        """The request as JSON, as it would be sent."""
        return self._provider.body(self.model, request, self._sent_options)

    async def _attempt(self, body: bytes) -> AsyncGenerator[Delta | Reply]:
        reading = self._provider.reading()
        try:
            async with aclosing(self._chunks(body)) as chunks:
                async for chunk in chunks:
                    for delta in reading.take(chunk):
                        yield delta
            reply = reading.reply()
        except Exception as error:
            raise AttemptFailed(failure_of(error, self._provider, self._endpoint, self.model)) from error
        yield reply

    async def _chunks(self, body: bytes) -> AsyncGenerator[Any]:
        """The pieces of the reply as plain data. The library's ``create`` would walk over the whole history first."""
        sdk, path = self._provider.sdk, self._provider.path
        client = await client_of(self._endpoint, sdk)
        json = {"headers": {"Content-Type": "application/json"}}
        if not self.options.stream:
            whole = await client.post(path, cast_to=object, content=body, options=json)
            for chunk in self._provider.as_stream(whole):
                yield chunk
            return
        stream = await client.post(path, cast_to=object, content=body, options=json, stream=True, stream_cls=sdk.stream_class())
        async with stream:
            async for chunk in stream:
                yield chunk

    def _priced(self, reply: Reply) -> Usage:
        """What it cost: by the name that was asked for, or else by the one that answered, as behind a gateway's own names."""
        at, options = datetime.now(UTC), self.options
        url, long_cache = self._endpoint.url, options.cache == "1h"
        for model in (self.model, reply.metadata.get("model")):
            if isinstance(model, str):
                usage = prices.priced(
                    reply.usage, self._provider.name, model, at, options.price, url=url, long_cache=long_cache
                )
                if usage.cost is not None:
                    return usage
        return reply.usage


async def models_of(provider: Provider, endpoint: Endpoint) -> list[str]:
    """The names of the models that the provider has for this key. Raises a `ModelError` if it does not say."""
    client = await client_of(endpoint, provider.sdk)
    try:
        answer = await client.get(provider.models_path, cast_to=object)
        return [str(one["id"]) for one in answer["data"]]
    except Exception as error:
        raise failure_of(error, provider, endpoint, "list of models").error from error


def failure_of(error: Exception, provider: Provider, endpoint: Endpoint, model: str) -> Failure:
    """What an exception of an attempt means; one that means nothing is a bug, and raised."""
    import httpx2

    said = error.said if isinstance(error, Refused) else provider.sdk.said(error)
    if said is not None:
        return failure(
            Refusal(provider.name, model, said.status, said.name, said.message, said.headers, endpoint.key_name, endpoint.url)
        )
    if isinstance(error, CutOff):
        return broken_connection(provider.name, ConnectionError("the stream ended before the reply did"))
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, httpx2.HTTPError | httpx2.StreamError | OSError):
            return broken_connection(provider.name, cause, endpoint.url)
    if _is_called(error, "APIConnectionError", "EndOfStream"):
        return broken_connection(provider.name, causes[-1], endpoint.url)
    if isinstance(error, httpx2.InvalidURL):
        return Failure(RequestRefused(f"{provider.name}: {readable(str(error))}", "Name another URL: url="), passing=False)
    if isinstance(error, ValueError | TypeError | KeyError | AttributeError | IndexError) or _is_called(error, "APIError"):
        what = f"{provider.name}: what came is no reply ({readable(f'{type(error).__name__}: {error}')})"
        return Failure(BrokenReply(what, "Try again; or is it another kind of server?"), passing=True)
    raise error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_called(error: BaseException, *names: str) -> bool:
    """Whether it is an error of this name, or of a kind of it: the libraries that have them are not at hand here."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _joined(first: Reply, second: Reply) -> Reply:
    message = Message("assistant", first.message.parts + second.message.parts)
    return replace(
        second,
        message=message,
        usage=first.usage + second.usage,
        metadata={**first.metadata, **second.metadata},
    )
