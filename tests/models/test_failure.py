"""The meaning of provider and connection errors."""

from __future__ import annotations

import json
import math
import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx2
import openai
import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.errors import (
    AgentnbError,
    BrokenReply,
    ContextOverflow,
    KeyRefused,
    ModelError,
    ProviderTimedOut,
    ProviderTrouble,
    RateLimited,
    RequestRefused,
)
from agentnb.models.destinations.destination import is_local
from agentnb.models.provider import CutOff, ProviderError, Refused
from agentnb.models.registry import REMOTE
from agentnb.models.transport.connections import Endpoint
from agentnb.models.transport.failure import (
    MAX_OF_A_MESSAGE,
    Failure,
    Refusal,
    broken_connection,
    failure,
    read_error,
    readable,
    retry_after,
    words_of,
)
from agentnb.models.transport.refusal_words import words_of_servers
from agentnb.models.transport.remote import failure_of
from agentnb.settings import KEY_VARIABLES, Key

FAR = "https://models.example.org/v1"
ASKED = httpx2.Request("POST", FAR)
MEANT: dict[int, type[ModelError]] = {
    400: RequestRefused,
    401: KeyRefused,
    402: RateLimited,
    403: KeyRefused,
    404: RequestRefused,
    408: ProviderTimedOut,
    429: RateLimited,
    501: RequestRefused,
    504: ProviderTimedOut,
    505: RequestRefused,
}
"""Errors by status; other statuses below 500 are refusals, from 500 on trouble."""
TRANSIENT = {408, 429, *range(500, 600)} - {501, 505}
SDKS = {"anthropic": anthropic, "openai": openai}


def meant(status: int) -> type[ModelError]:
    return MEANT.get(status, ProviderTrouble if status >= 500 else RequestRefused)


def said(status: int | None = 400, name: str = "", message: str = "No.", **fields: Any) -> Failure:
    given = {"provider": "anthropic", "model": "m-1", "key_name": "ANTHROPIC_API_KEY"} | fields
    return failure(Refusal(**given, status=status, name=name, message=message))


def of(error: Exception, provider: str = "openai", url: str | None = FAR) -> Failure:
    return failure_of(error, REMOTE[provider], Endpoint(provider, url, None, KEY_VARIABLES.get(provider, "")), "m-1")


def kinds_of(kind: type) -> Iterator[type]:
    yield kind
    for other in kind.__subclasses__():
        yield from kinds_of(other)


def load_all(package: Any) -> None:
    """Import all modules that declare errors."""
    (folder,) = map(Path, package.__path__)
    for found in folder.rglob("*.py"):
        if found.stem.endswith(("_error", "_errors", "_exceptions")):
            import_module(".".join([package.__name__, *found.relative_to(folder).with_suffix("").parts]))


def library_error(kind: type, status: int) -> Any:
    """Return an exception of this class, as raised by the library."""
    answer = httpx2.Response(status, request=ASKED)
    for how in (
        lambda: kind("No.", response=answer, body={"error": {"type": "some_error", "message": "No."}}),
        lambda: kind(response=answer, body={"error": {"type": "some_error", "message": "No."}}),
        lambda: kind("No.", ASKED, body=None),
        lambda: kind(request=ASKED),
        lambda: kind(request=ASKED, message="No."),
        lambda: kind("No.", request=ASKED, response=answer),
        lambda: kind("No."),
        lambda: kind(),
    ):
        try:
            return how()
        except TypeError:
            continue
    raise AssertionError(f"{kind} cannot be made")


# Every exception


@cache
def status_kinds() -> list[tuple[str, Any]]:
    """Return the error classes with a status, each with its provider."""
    for package in SDKS.values():
        load_all(package)
    return [(name, kind) for name, sdk in SDKS.items() for kind in dict.fromkeys(kinds_of(sdk.APIStatusError))]


@cache
def other_kinds() -> list[tuple[str, Any]]:
    """Return all other error classes, each with its provider."""
    known = status_kinds()
    every = [(name, kind) for name, sdk in SDKS.items() for kind in dict.fromkeys(kinds_of(sdk.APIError))]
    return [one for one in every if one not in known]


@pytest.mark.req("R2.40")
def test_every_status_error_of_a_library_is_mapped(subtests: pytest.Subtests) -> None:
    for provider, kind in status_kinds():
        with subtests.test(provider=provider, kind=kind):
            own = getattr(kind, "status_code", None)
            for status in [own] if isinstance(own, int) else [400, 500, 503, 599]:
                found = of(library_error(kind, status), provider)
                assert (type(found.error), found.status) == (meant(status), status)
                assert found.transient is (status in TRANSIENT)


def test_every_other_api_error_of_a_library_is_mapped(subtests: pytest.Subtests) -> None:
    for provider, kind in other_kinds():
        with subtests.test(provider=provider, kind=kind):
            found = of(library_error(kind, 200), provider)
            connection = issubclass(kind, SDKS[provider].APIConnectionError)
            assert isinstance(found.error, ProviderTrouble if connection else ProviderTrouble | BrokenReply)
            assert found.transient


def test_provider_libraries_define_enough_errors_to_test() -> None:
    assert len(status_kinds()) > 30 and len(other_kinds()) >= 8
    assert {kind.__name__ for _, kind in other_kinds()} >= {"APIError", "APIConnectionError", "APITimeoutError"}


TOLD = {"Timeout": "the server sent nothing for too long", "ConnectError": "the server could not be reached"}


@pytest.mark.req("R2.40")
def test_every_connection_error_is_transient(subtests: pytest.Subtests) -> None:
    for kind in dict.fromkeys([*kinds_of(httpx2.HTTPError), *kinds_of(httpx2.StreamError)]):
        with subtests.test(kind=kind):
            for error in (
                library_error(kind, 500),
                caused_by(library_error(kind, 500), openai.APIConnectionError(request=ASKED)),
            ):
                found = of(error)
                assert isinstance(found.error, ProviderTrouble) and found.transient and found.status is None
                words = next((words for end, words in TOLD.items() if kind.__name__.endswith(end)), "the connection was lost")
                assert str(found.error).startswith(f"openai: {words} ({kind.__name__}")


def caused_by(cause: Exception, error: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_other_connection_failures_are_transient(subtests: pytest.Subtests) -> None:
    cases = [
        ConnectionResetError("gone"),
        TimeoutError(),
        ssl.SSLError("bad handshake"),
        anyio.EndOfStream(),
        caused_by(anyio.EndOfStream(), openai.APIConnectionError(request=ASKED)),
        caused_by(RuntimeError("Event loop is closed"), anthropic.APIConnectionError(request=ASKED)),
        CutOff(),
    ]
    for error in cases:
        with subtests.test(error=error):
            found = of(error)
            cause = "no secure connection" if isinstance(error, ssl.SSLError) else "the connection was lost"
            assert isinstance(found.error, ProviderTrouble) and found.transient and cause in found.error.what


def test_unreadable_reply_is_broken_and_transient(subtests: pytest.Subtests) -> None:
    cases = [ValueError("no JSON"), TypeError("None"), KeyError("choices"), AttributeError("get")]
    for error in cases:
        with subtests.test(error=error):
            found = of(error)
            assert isinstance(found.error, BrokenReply) and found.transient
            assert f"{type(error).__name__}: " in found.error.what and found.error.hint


def test_url_rejected_by_the_library_is_a_permanent_failure() -> None:
    found = of(httpx2.InvalidURL("Invalid port: 'x'"))
    assert isinstance(found.error, RequestRefused) and not found.transient and "url=" in found.error.hint


def test_bug_is_not_reported_as_a_provider_failure(subtests: pytest.Subtests) -> None:
    cases = [ZeroDivisionError("x"), ImportError("anthropic")]
    for error in cases:
        with subtests.test(error=error):
            with pytest.raises(type(error)):
                of(error)


# Statuses and names


@pytest.mark.req("R2.40")
def test_each_status_maps_to_an_error_and_transience(subtests: pytest.Subtests) -> None:
    for status in range(400, 600):
        with subtests.test(status=status):
            found = said(status)
            assert type(found.error) is meant(status)
            assert found.transient is (status in TRANSIENT)
            assert found.status == status and f"({status})" in found.error.what
            assert found.is_rate_limit is (status == 429)


ERRORS_IN_STREAMS = [
    ("overloaded_error", 529, ProviderTrouble),
    ("rate_limit_error", 429, RateLimited),
    ("rate_limit_exceeded", 429, RateLimited),
    ("api_error", 500, ProviderTrouble),
    ("server_error", 500, ProviderTrouble),
    ("timeout_error", 504, ProviderTimedOut),
    ("invalid_request_error", 400, RequestRefused),
    ("invalid_prompt", 400, RequestRefused),
    ("invalid_image_format", 400, RequestRefused),
    ("content_filter", 400, RequestRefused),
    ("authentication_error", 401, KeyRefused),
    ("permission_error", 403, KeyRefused),
    ("not_found_error", 404, RequestRefused),
    ("request_too_large", 413, RequestRefused),
    ("billing_error", 402, RateLimited),
    ("context_length_exceeded", 400, ContextOverflow),
    ("model_context_window_exceeded", 400, ContextOverflow),
    ("BadRequestError", 400, RequestRefused),
    ("InternalServerError", 500, ProviderTrouble),
    ("RESOURCE_EXHAUSTED", 429, RateLimited),
    ("INVALID_ARGUMENT", 400, RequestRefused),
    ("UNAVAILABLE", 503, ProviderTrouble),
    ("ThrottlingException", 429, RateLimited),
    ("ValidationException", 422, RequestRefused),
    ("exceed_context_size_error", 400, ContextOverflow),
    ("429", 429, RateLimited),
    ("503", 503, ProviderTrouble),
    ("401", 401, KeyRefused),
    ("never_heard_of", None, ProviderTrouble),
    ("", None, ProviderTrouble),
    ("200", None, ProviderTrouble),
]


def test_error_in_a_stream_is_classified_by_its_name(subtests: pytest.Subtests) -> None:
    for (name, status, kind), http in product(ERRORS_IN_STREAMS, [None, 200]):
        with subtests.test(name=name, http=http):
            found = said(http, name)
            assert (type(found.error), found.status) == (kind, status)
            assert found.transient is (status is None or status in TRANSIENT)


def test_account_without_credit_is_not_retried(subtests: pytest.Subtests) -> None:
    cases = ["insufficient_quota", "billing_hard_limit_reached", "billing_error"]
    for name in cases:
        with subtests.test(name):
            found = said(429, name, "You exceeded your current quota")
            assert isinstance(found.error, RateLimited) and not found.transient and "no credit left" in found.error.what


@pytest.mark.req("R2.40")
def test_should_retry_header_can_only_prevent_or_confirm_retries() -> None:
    assert not said(429, headers={"x-should-retry": "false"}).transient
    assert not said(500, headers={"x-should-retry": "false"}).transient
    assert said(500, headers={"x-should-retry": "true"}).transient
    assert not said(400, headers={"x-should-retry": "true"}).transient


OVERFLOW_WORDS = [
    ("anthropic", 400, "prompt is too long: 210000 tokens > 200000 maximum"),
    ("anthropic", 400, "input length and `max_tokens` exceed context limit: 199211 + 32000 > 204698, decrease input length"),
    ("openai", 400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."),
    ("openai", 400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (
        "openai",
        429,
        "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 40000.",
    ),
    (
        "openai",
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your size",
    ),
    ("openrouter", 400, "This endpoint's maximum context length is 262000 tokens. However, you requested about 263390 tokens"),
    ("deepseek", 400, "This model's maximum context length is 65536 tokens. However, you requested 87731 tokens"),
    ("gemini", 400, "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."),
    ("groq", 400, "Please reduce the length of the messages or completion."),
    ("cerebras", 400, "Please lower it. Current length is 42328 while limit is 40000"),
    ("qwen", 400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]"),
    ("bedrock", 400, "The model returned the following errors: Input is too long for requested model."),
    ("bedrock", 400, "Malformed input request: expected maxLength: 42000, actual: 46735, please reformat your input"),
    ("tgi", 422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens"),
    ("tgi", 422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 1168"),
    ("vllm", 400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
    ("vllm", None, "Input prompt (2664 tokens) is too long and exceeds limit of 2048"),
    ("sglang", 400, "Input length 5000 exceeds the maximum length 4096"),
    ("sglang", 400, "Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens)."),
    ("sglang", 400, "The input (61709 tokens) is longer than the model's context length (40960 tokens)."),
    ("llamacpp", 400, "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it"),
    (
        "llamacpp",
        500,
        "the request exceeds the available context size. try increasing the context size or enable context shift",
    ),
    (
        "lmstudio",
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055)",
    ),
    (
        "lmstudio",
        None,
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with 4096",
    ),
    ("ollama", 400, "the input length exceeds the context length"),
    ("ollama", 400, "prompt too long; exceeded max context length by 12 tokens"),
    (
        "mistral",
        400,
        "Prompt contains 130001 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
    ),
    ("xai", 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens"),
    ("copilot", 400, "prompt token count of 70000 exceeds the limit of 64000"),
    ("kimi", 400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
    ("volcengine", 400, "Total tokens of image and text exceed max message tokens"),
    ("cohere", 400, "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354."),
    ("gateways", 400, "litellm.ContextWindowExceededError: context size has been exceeded"),
    ("gateways", 400, "invalid params, context window exceeds limit (2013)"),
    ("gateways", 400, "Prompt too long: 41911 tokens exceeds max context window of 32768 tokens"),
]
QUOTA_WORDS = [
    ("groq", 429, "Rate limit reached for model `m` on tokens per day (TPD): Limit 100000, Used 97050, Requested 3619."),
    ("groq", 429, "Rate limit reached for m on requests per day (RPD): Limit 200, Used 200, Requested 1."),
    ("groq", 429, "Too many tokens per day, please wait before trying again."),
    ("kimi", 429, "request reached organization TPD rate limit, current: 1508351, limit: 1500000"),
    ("gemini", 429, "You exceeded your current quota: GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
    ("openrouter", 429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests"),
    ("github", 429, "Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 52220 seconds before retrying."),
    ("gateways", 403, "You have exhausted your daily quota on this model."),
]


def has_words_of(kind: str, server: str, message: str) -> bool:
    rows = words_of_servers()[kind]
    assert all(row["source"] for row in rows)
    return any(row["server"] == server and re.search(row["words"], message, re.IGNORECASE) for row in rows)


def test_overlong_conversation_is_recognized_on_each_server_and_not_resent(
    subtests: pytest.Subtests,
) -> None:
    for server, status, message in OVERFLOW_WORDS:
        with subtests.test(server, status=status, message=message):
            found = said(status, message=message)
            assert isinstance(found.error, ContextOverflow) and not found.transient
            assert "exceeds the context window of m-1" in found.error.what and "--continue" in in_notebook(found.error.advice)
            assert has_words_of("overflow", server, message)
    assert {row["server"] for row in words_of_servers()["overflow"]} == {server for server, *_ in OVERFLOW_WORDS}


def test_daily_quota_is_recognized_on_each_server_without_retrying(subtests: pytest.Subtests) -> None:
    for server, status, message in QUOTA_WORDS:
        with subtests.test(server, message=message):
            found = said(status, message=message)
            assert (
                isinstance(found.error, RateLimited) and not found.transient and "a daily or longer quota" in found.error.what
            )
            assert has_words_of("quota", server, message)
    assert {row["server"] for row in words_of_servers()["quota"]} == {server for server, *_ in QUOTA_WORDS}


def test_bare_error_text_in_a_stream_is_reported(subtests: pytest.Subtests) -> None:
    for sent, told in {"CUDA out of memory": "JSON: CUDA out of memory", '{"choices": [': "JSON"}.items():
        with subtests.test(sent):
            found = of(json.JSONDecodeError("Expecting value", sent, 0))
            assert isinstance(found.error, BrokenReply) and found.error.what.endswith(told)


def test_per_minute_limit_is_retried(subtests: pytest.Subtests) -> None:
    for message in (
        "Rate limit reached for m on tokens per minute (TPM): Limit 6000, Used 5000. Please try again in 3s.",
        "Too many tokens, please wait before trying again.",
        "You exceeded your current quota: GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
    ):
        with subtests.test(message):
            assert said(429, message=message).transient


def test_quota_id_in_google_error_details_is_read() -> None:
    violations = [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]
    body = [{"error": {"message": "You exceeded your current quota", "details": [{"violations": violations}]}}]
    assert words_of(body).split(": ") == ["You exceeded your current quota", violations[0]["quotaId"]]
    assert not said(429, message=words_of(body)).transient


def test_overflow_text_with_another_status_is_not_an_overflow(subtests: pytest.Subtests) -> None:
    for status in [401, 403, 404, 429, 503]:
        with subtests.test(status=status):
            assert not isinstance(said(status, message="context window").error, ContextOverflow)


# Messages


def test_message_is_one_line_with_provider_problem_and_command(subtests: pytest.Subtests) -> None:
    for status, provider in product([None, *range(400, 432), 500, 503, 529], REMOTE):
        with subtests.test(status=status, provider=provider):
            found = said(status, "some_error", "It was refused.", provider=provider, key_name=KEY_VARIABLES.get(provider, ""))
            told = str(found.error)
            assert told.startswith(f"{provider}: ") and "some_error" in told and "It was refused." in told
            assert "\n" not in told and "{" not in told
            typed = in_notebook(found.error.advice)
            assert any(word in typed for word in ("%agent", "url=", "cell", "options")), typed


def test_refused_key_error_has_the_command_to_replace_it() -> None:
    assert in_notebook(said(401).error.advice) == "Enter another key: %agent key anthropic"
    assert in_notebook(said(401, key_name="MY_KEY").error.advice) == "Enter another key: %agent key MY_KEY"
    assert in_notebook(said(403, provider="compatible", key_name="MY_KEY").error.advice).endswith("%agent key MY_KEY")
    without = said(401, provider="compatible", key_name="").error
    typed = in_notebook(without.advice)
    assert "requires a key" in without.what and "key=MY_KEY" in typed and "%agent key MY_KEY" in typed


def test_unknown_model_error_has_the_command_to_list_models(snapshot: Snapshot) -> None:
    assert "there is no m-1" in said(404).error.what and in_notebook(said(404).error.advice) == snapshot


def test_status_is_reported_once() -> None:
    assert said(None, "429").error.what == "anthropic: too many requests (429): No."
    assert said(500, message="").error.what == "anthropic: the request failed (500)"


@pytest.mark.parametrize("where", ["message", "name"])
@examples(100)
@given(st.text(st.characters(), max_size=700))
def test_any_provider_message_becomes_one_short_line(where: str, words: str) -> None:
    what = said(500, **{where: f"\x1b[31m{words}\x00\u202e"}).error.what  # type: ignore[arg-type]
    assert what.isprintable() and len(what) < MAX_OF_A_MESSAGE + 100
    what.encode()
    what = broken_connection("openai", ConnectionError(f"\x07{words}")).error.what
    assert what.isprintable() and len(what) < MAX_OF_A_MESSAGE + 100
    what = of(ValueError(words)).error.what
    assert what.isprintable() and len(what) < MAX_OF_A_MESSAGE + 100


def test_long_message_is_shortened_with_a_mark() -> None:
    what = said(400, message="word " * 100_000).error.what
    assert what.endswith("word …") and len(what) < MAX_OF_A_MESSAGE + 100


def test_braces_in_messages_and_names_are_kept() -> None:
    found = said(404, "{name}", 'no {model}: {"a": 1}', model="{x}")
    assert "there is no {x} (404, {name}): no {model}: {" in found.error.what


# This machine


def test_missing_local_server_is_reported_without_retrying(subtests: pytest.Subtests) -> None:
    cases = ["http://localhost:11434/v1", "http://127.0.0.1:8000", "http://[::1]:8000/v1"]
    for url in cases:
        with subtests.test(url):
            refused = caused_by(httpx2.ConnectError("All connection attempts failed"), openai.APIConnectionError(request=ASKED))
            found = of(refused, "ollama", url)
            assert (found.error.what, found.transient) == (f"ollama: no server responds at {url}", False)
            assert found.error.hint == "Start the server, or use another one: url=URL"
            assert of(caused_by(httpx2.ReadError("reset"), openai.APIConnectionError(request=ASKED)), "ollama", url).transient


def test_refused_connection_to_a_remote_server_is_transient(subtests: pytest.Subtests) -> None:
    for url in [None, FAR, "http://localhost.example.org"]:
        with subtests.test(url=url):
            assert not is_local(url)
            assert of(httpx2.ConnectError("refused"), url=url).transient


def test_error_while_reading_a_stream_is_a_provider_failure() -> None:
    found = of(Refused(ProviderError(None, "rate_limit_exceeded", "Slow down.", {})), "openai-responses")
    assert (type(found.error), found.status, found.transient) == (RateLimited, 429, True)


# Retry times


NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


RETRY_HEADERS = [
    ({}, None),
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": " 0.5 "}, 0.5),
    ({"retry-after": "0"}, 0.0),
    ({"retry-after": "-3"}, 0.0),
    ({"retry-after": "Sat, 21 Nov 2026 12:00:09 GMT"}, 9.0),
    ({"retry-after": "Sat, 21 Nov 2026 14:00:09 +0200"}, 9.0),
    ({"retry-after": "Sat Nov 21 12:00:09 2026"}, 9.0),
    ({"retry-after": "Saturday, 21-Nov-26 12:00:09 GMT"}, 9.0),
    ({"retry-after": "Fri, 20 Nov 2026 12:00:00 GMT"}, 0.0),
    ({"retry-after-ms": "1500"}, 1.5),
    ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
    ({"retry-after-ms": "nan", "retry-after": "9"}, 9.0),
    *[
        ({"retry-after": text}, None)
        for text in ("", "soon", "nan", "inf", "-inf", "1e3", "1.2.3", "٣", "1_0", "0x10", "9" * 400)
    ],
]


@pytest.mark.req("R2.40")
def test_retry_time_is_read_as_seconds_milliseconds_or_date(subtests: pytest.Subtests) -> None:
    for headers, seconds in RETRY_HEADERS:
        with subtests.test(headers=headers, seconds=seconds):
            assert retry_after(headers, NOW) == seconds
            assert retry_after(httpx2.Headers({key.title(): text.encode() for key, text in headers.items()}), NOW) == seconds


WAITS = {
    "Rate limit reached for gpt-4o. Please try again in 20s. Visit ...": 20,
    "Please try again in 1m26.4s. Need more tokens?": 86.4,
    "Limit 200, please try again in 345ms.": 0.345,
    "Please try again in 7h12m0s.": 25_920,
    "Please retry after 6 seconds.": 6,
    "Please retry in 39.075s.": 39.075,
    "Try again in 1 minute and 5 seconds": 65,
    "Please try again in a while": None,
    "Please try again in 5 moments": None,
    "Try again. In 5 s": None,
    "": None,
}


def test_retry_time_can_be_read_from_the_refusal_text(subtests: pytest.Subtests) -> None:
    for words, seconds in WAITS.items():
        with subtests.test(words):
            assert said(429, "", words).retry_after == pytest.approx(seconds)
            assert failure(Refusal("openai", "m", 429, "", words, {"retry-after": "9"})).retry_after == 9
            assert said(400, "", words).retry_after is None


@examples(300)
@given(st.text(max_size=40) | st.from_regex(r"\A\w{3}, \d{1,3} \w{3} \d{1,9} \d\d:\d\d:\d\d( [A-Z+-]\w{2,5})?\Z"))
def test_any_retry_header_yields_a_valid_time_or_none(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        seconds = retry_after({name: text}, NOW)
        assert seconds is None or (seconds >= 0 and math.isfinite(seconds))


def test_all_failure_errors_derive_from_agentnb_error() -> None:
    assert all(issubclass(kind, AgentnbError) for kind in {*MEANT.values(), ContextOverflow, BrokenReply})


def test_provider_advice_is_replaced_by_ours(subtests: pytest.Subtests) -> None:
    cases = [
        ("Encrypted content is not supported with this model.", "thinking=off"),
        ("Function tools with reasoning_effort are not supported, use /v1/responses", "-m openai-responses:m"),
        ('No endpoints found that support tool use. Try disabling "add".', "This model does not support tools"),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "Start vLLM with"),
        ("tools param requires --jinja flag", "--jinja"),
        ("registry.ollama.ai/library/gemma does not support tools", "This model does not support tools"),
        ("'tools' is not supported: the chat template declares no tool-call format", "This model does not support tools"),
        ("No endpoints found that support image input", "images=no"),
        ("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "images=no"),
        ("messages[1]: unknown variant `image_url`, expected `text`", "images=no"),
        ("At most 0 image(s) may be provided. This model does not support image input", "images=no"),
    ]
    for message, hint in cases:
        status = 404 if message.startswith("No endpoints") else 500 if "--jinja" in message else 400
        with subtests.test(message):
            assert hint in in_notebook(failure(Refusal("openai", "m", status, "invalid_request_error", message)).error.advice)


def test_server_without_the_responses_api_gets_chat_advice() -> None:
    for message in (
        "unknown endpoint: /v1/responses",
        "Unknown request URL: POST /v1/responses.",
        "Invalid URL (POST /v1/responses)",
    ):
        error = failure(Refusal("openai-responses", "m", 404, "", message, url="http://127.0.0.1:1/v1")).error
        assert "-m compatible:m?url=http://127.0.0.1:1/v1" in in_notebook(error.advice), message


def test_not_found_at_a_custom_url_suggests_checking_it() -> None:
    error = failure(Refusal("compatible", "m", 404, "", "Not Found", url="http://10.0.0.1:8000")).error
    assert "there is no m at http://10.0.0.1:8000" in error.what
    assert "Check the URL" in in_notebook(error.advice) and "%agent models compatible?url=http://10.0.0.1:8000" in in_notebook(
        error.advice
    )
    assert "%agent models openai" in in_notebook(failure(Refusal("openai", "m", 404, "", "Not Found")).error.advice)


def test_exhausted_provider_budget_with_rate_limit_status_is_permanent() -> None:
    details = {"error_code": "enforced_spend_limit_reached"}
    assert read_error({"type": "rate_limit_error", "details": details}).name == "enforced_spend_limit_reached"
    assert read_error({"type": "rate_limit_error", "details": {"error_code": "other"}}).name == "rate_limit_error"
    assert not failure(Refusal("anthropic", "m", 429, "enforced_spend_limit_reached", "No.")).transient


# Connection failures


def test_tls_failure_is_explained_and_rarely_transient(subtests: pytest.Subtests) -> None:
    cases = [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate", "is not trusted", False),
        ("“localhost” certificate is not trusted", "is not trusted", False),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "plain HTTP: write http://", False),
        ("[SSL] record layer failure", "plain HTTP: write http://", False),
        ("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol", "begins with http://", True),
    ]
    for words, told, transient in cases:
        with subtests.test(words):
            for url in (FAR, "https://localhost:8000/v1"):
                found = of(caused_by(httpx2.ConnectError(words), openai.APIConnectionError(request=ASKED)), url=url)
                assert isinstance(found.error, ProviderTrouble) and found.transient is transient
                assert told in str(found.error) and words in found.error.what and "nothing answers" not in found.error.what


def test_redirect_is_a_refusal_naming_its_target_without_secrets(subtests: pytest.Subtests) -> None:
    for status in [300, 301, 302, 303, 307, 308, 399]:
        with subtests.test(status=status):
            headers = {"location": "https://me:word@other.example/v1/x?key=abc#d"}
            found = said(status, "", "<html>Moved</html>", headers=headers, url="http://10.0.0.1/v1")
            assert isinstance(found.error, RequestRefused) and not found.transient and found.status == status
            assert "redirects to https://other.example/v1/x," in found.error.what and found.error.hint.endswith(
                "url=https://other.example/v1/x"
            )
            assert not any(secret in str(found.error) for secret in ("word", "abc", "Moved"))


def test_redirect_without_a_target_is_a_refusal_too(subtests: pytest.Subtests) -> None:
    for location in ["", "http://[", "mailto:me@example.org"]:
        with subtests.test(location):
            found = said(302, headers={"location": location})
            assert isinstance(found.error, RequestRefused) and "redirects the request" in found.error.what


def test_redirect_within_the_server_is_named_in_full() -> None:
    assert "http://10.0.0.1/login" in said(302, headers={"location": "/login"}, url="http://10.0.0.1/v1").error.what


ERROR_BODIES = [
    ({"error": {"message": "No."}}, "No."),
    ({"error": "No."}, "No."),
    ({"message": "No.", "error": {"x": 1}}, "No."),
    ({"detail": "No."}, "No."),
    ({"detail": [{"loc": ["body"], "msg": "No."}]}, "No."),
    ([{"error": {"message": "No."}}], "No."),
    ("No.", "No."),
    ("<html><head><style>p {}</style></head><body>No<b>.</b></body></html>", "No ."),
    ("<title>A &amp; B</title><script>if (a < b) {}", "A & B"),
    ({"code": 7}, "{'code': 7}"),
    (None, ""),
    ("", ""),
    ({}, ""),
    ([], ""),
]


def test_error_text_is_found_in_every_known_form(subtests: pytest.Subtests) -> None:
    for body, told in ERROR_BODIES:
        with subtests.test(body=body):
            assert readable(words_of(body)) == told


def test_key_repeated_by_a_server_is_redacted_in_failures(subtests: pytest.Subtests) -> None:
    for provider in ["anthropic", "openai", "openai-responses", "compatible"]:
        with subtests.test(provider):
            secret = "own-never-to-be-seen-0123456789"
            endpoint = Endpoint(provider, FAR, Key("MY_KEY", secret, "here"), "MY_KEY")
            for error in (
                Refused(ProviderError(401, secret, f"Wrong: {secret}", {})),
                Refused(ProviderError(307, "", "", {"location": f"https://other.example/{secret}"})),
                Refused(ProviderError(429, "", "x" * 485 + secret, {})),
                Refused(ProviderError(400, "", "x" * 485 + secret[:25], {})),
                ValueError(secret),
                httpx2.ReadError(secret),
                httpx2.InvalidURL(secret),
                httpx2.ConnectError(f"certificate {secret}"),
            ):
                found = failure_of(error, REMOTE[provider], endpoint, "m").error
                assert "never" not in repr(found) and "own-" not in repr(found) and "key" in repr(found)
