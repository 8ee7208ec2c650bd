"""Meanings of providers' errors: one table for all providers, by HTTP status and by error names inside streams."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from agentnb.advice import Advised, AnyAdvice, Plain, SetKey, SetModel, ShowModels, ShowRequest, StartAgain, TryAgain, as_advice
from agentnb.core.messages import encodable
from agentnb.core.redaction import change_texts
from agentnb.errors import (
    ContextOverflow,
    KeyRefused,
    ModelError,
    ProviderTimedOut,
    ProviderTrouble,
    RateLimited,
    RequestRefused,
)
from agentnb.models.destinations.destination import is_local
from agentnb.models.provider import ProviderError
from agentnb.models.transport.refusal_words import is_named, says, status_of_name, words_of_servers

NUMBER = re.compile(r"[-+]?[0-9]{1,300}(\.[0-9]{0,300})?|[-+]?\.[0-9]{1,300}", re.ASCII)
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Seconds per unit, by the beginning of its name."""
DURATION = re.compile(
    r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|[smhd])(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?|ays?)?(?![a-z])", re.IGNORECASE | re.ASCII
)
WAIT = re.compile(rf"\b(?:try again|retry) (?:in|after) ((?:{DURATION.pattern},? ?(?:and )?)+)", re.IGNORECASE | re.ASCII)
"""Text of a refusal with the seconds to wait, as worded by OpenAI, Groq, Azure and Google."""
MAX_OF_A_MESSAGE = 500
"""Maximum number of characters of a provider's message that an error repeats."""

TLS = re.compile(r"\bSSL|certificate", re.IGNORECASE)
CERTIFICATE = re.compile("certificate", re.IGNORECASE)
PLAIN_HTTP = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER|HTTP_REQUEST|wrong version number|record layer failure")
"""Messages of the TLS library for a server that seems to speak plain HTTP."""
MARKUP = re.compile(r"<(script|style)\b.*?(</\1>|$)|<!--.*?(-->|$)|<[^<>]{0,500}>", re.IGNORECASE | re.DOTALL)
"""Parts of a web page that are not its text."""
TRANSIENT = frozenset({"rate limit", "timeout", "trouble"})
"""Meanings that allow a retry."""


TRY_AGAIN = TryAgain(lead="Try again")
TRY_LATER = TryAgain(lead="Try again in a while")
MEANINGS: dict[str, tuple[type[ModelError], str, Advised]] = {
    "no credit": (RateLimited, "the account has no credit left", SetKey("{key}", lead="Add credit, or use another key")),
    "wrong key": (KeyRefused, "the key was refused", SetKey("{key}", lead="Enter another key")),
    "no key": (
        KeyRefused,
        "the server requires a key",
        SetKey("MY_KEY", lead="Add ?key=MY_KEY to the model name and enter the key"),
    ),
    "forbidden": (
        KeyRefused,
        "this key has no access to {model}",
        (ShowModels("{who}", lead="See"), SetKey("{key}", lead="Or enter another key")),
    ),
    "not found": (RequestRefused, "there is no {model}", ShowModels("{who}", rest=" lists the available models")),
    "overflow": (
        ContextOverflow,
        "the conversation exceeds the context window of {model}",
        StartAgain(lead="Start a new one", rest=", or let tools return less"),
    ),
    "quota": (
        RateLimited,
        "a daily or longer quota is used up",
        (
            SetKey("{key}", lead="Wait until the quota resets, or use another key"),
            ShowModels("{who}", lead="Or use another model"),
        ),
    ),
    "rate limit": (RateLimited, "too many requests", TryAgain(lead="Wait a while, then try again")),
    "timeout": (ProviderTimedOut, "the request failed", TRY_LATER),
    "trouble": (ProviderTrouble, "the request failed", TRY_LATER),
    "redirect": (
        RequestRefused,
        "the server redirects the request, and agentnb will not send the key or the conversation elsewhere",
        "Check the URL: url=...",
    ),
    "refused": (
        RequestRefused,
        "the request was refused",
        (Plain("Check the request and the options"), ShowRequest(rest=" shows the request")),
    ),
}
"""Error class, message and advice by meaning."""


BETTER_ADVICE: tuple[tuple[re.Pattern[str], Advised], ...] = (
    (
        re.compile(r"encrypted content is not supported", re.IGNORECASE),
        "This model does not support thinking: add ?thinking=off to its name",
    ),
    (
        re.compile(r"(unknown|invalid|unsupported)[\w ]{0,20} (endpoint|url|route|path)\b.{0,20}/responses", re.IGNORECASE),
        SetModel("compatible:{model}?url={url}", lead="The server has no Responses API: use"),
    ),
    (re.compile(r"/v1/responses"), SetModel("openai-responses:{model}", lead="Use")),
    (re.compile(r"requires --enable-auto-tool-choice"), "Start vLLM with --enable-auto-tool-choice --tool-call-parser PARSER"),
    (re.compile(r"requires --jinja"), "Start llama-server with --jinja"),
    (
        re.compile(
            r"(does not|doesn't) support (tools?|functions?)\b|(tool use|tool calling|function calling) is not supported"
            r"|tools?['\"`]? (is|are) not supported|no (tool|function) support|no endpoints found that support tool",
            re.IGNORECASE,
        ),
        "This model does not support tools: use another model, or run without tools",
    ),
    (
        re.compile(
            r"(image|vision|multimodal)[\w ]{0,40}(is|are) not (supported|enabled)|(not|n't) support (image|vision|multimodal)"
            r"|no endpoints found that support image|(unsupported|unknown variant)\W{0,3}(input_)?image|not a multimodal model",
            re.IGNORECASE,
        ),
        "This model does not accept pictures: add ?images=no to its name",
    ),
)
"""More specific advice for refusals, by the provider's message."""
NEVER_DONE = (501, 505)
"""Statuses of servers that lack the requested feature; a retry changes nothing."""
WORDED = (400, 404, 422, 500, 501)
"""Statuses of refusals whose message may be more informative than the status."""


class Failure(msgspec.Struct, frozen=True):
    """The reason for a failed attempt, and whether a retry may succeed."""

    error: ModelError
    transient: bool
    status: int | None = None
    """HTTP status."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait."""

    @property
    def is_rate_limit(self) -> bool:
        """True for too many requests, as opposed to trouble at the provider."""
        return self.status == 429


class Refusal(msgspec.Struct, frozen=True):
    """The error that a provider sent instead of a reply."""

    provider: str
    model: str
    status: int | None
    """HTTP status, or None if the error came without one."""
    name: str
    """The provider's type or code of the error; empty if it sent none."""
    message: str
    headers: Mapping[str, str] = {}
    key_name: str = ""
    """The variable that holds the key."""
    url: str | None = None
    """URL of the server, if it is not the provider's own."""


def failure(refusal: Refusal) -> Failure:
    """Classify a refusal: the error, whether it is transient, and the wait that the provider asks for."""
    status = refusal.status if refusal.status is not None and refusal.status >= 300 else _status_of(refusal.name)
    meaning = _meaning(refusal, status)
    transient = meaning in TRANSIENT and refusal.headers.get("x-should-retry") != "false"
    wait = retry_after(refusal.headers)
    wait = _said_wait(refusal.message) if wait is None and transient else wait
    return Failure(_error(refusal, status, meaning, wait), transient, status, wait)


def _status_of(name: str) -> int | None:
    """Return the HTTP status for the name of an error inside a stream."""
    if re.fullmatch("[45][0-9][0-9]", name):
        return int(name)
    plain = re.sub("(error|exception)$", "", re.sub("[^a-z]", "", name.lower()))
    return status_of_name().get(plain, 400 if name.startswith("invalid_") else None)


def read_error(error: Any) -> ProviderError:
    """Return the details of an error that a server sent instead of a reply."""
    fields = error if isinstance(error, dict) else {}
    details = fields.get("details")
    named = [details.get("error_code")] if isinstance(details, dict) else []
    named += map(fields.get, ("code", "type", "status", "status_code", "raw_status_code"))
    names = [str(name) for name in named if name]
    recognized = (name for name in names if is_named("credit", name) or _status_of(name) is not None)
    name = next(recognized, names[0] if names else "")
    return ProviderError(None, name, error_text(error), {})


def broken_connection(provider: str, error: BaseException, url: str | None = None) -> Failure:
    """Return the failure for a broken connection: no connection, a timeout, a truncated stream.

    If a server on this machine does not answer at all, it is not running, and the failure is not transient.
    """
    kind = type(error).__name__
    words = readable(f"{kind}: {error}".rstrip(": "))
    if TLS.search(words):
        return _insecure(provider, words)
    if kind == "ConnectError" and is_local(url):
        problem, hint = f"{provider}: no server responds at {url}", "Start the server, or use another one: url=URL"
        return Failure(ProviderTrouble(problem, hint), transient=False)
    if kind == "ConnectError":
        problem = f"{provider}: the server could not be reached ({words})"
        return Failure(ProviderTrouble(problem, "Check the network, and url= if you set it"), transient=True)
    if kind.endswith("Timeout"):
        problem = f"{provider}: the server sent nothing for too long ({words})"
        return Failure(ProviderTimedOut(problem, wait_longer("timeout")), transient=True)
    return Failure(ProviderTrouble(f"{provider}: the connection was lost ({words})", TRY_AGAIN), transient=True)


def wait_longer(option: str) -> tuple[AnyAdvice, ...]:
    """Return the advice for a model that takes too long: try again, or increase the limit with its option."""
    return (TRY_AGAIN, Plain(f"To wait longer, add ?{option}=SECONDS to the model name"))


def _insecure(provider: str, words: str) -> Failure:
    """Return the failure of a TLS connection. Missing TLS and an untrusted certificate are not transient."""
    problem, transient, hint = f"{provider}: no secure connection ({words})", False, as_advice("")
    if CERTIFICATE.search(words):
        problem = f"{provider}: the server's certificate is not trusted ({words})"
        hint = as_advice("If you trust it, set SSL_CERT_FILE to its path before the kernel starts")
    elif PLAIN_HTTP.search(words):
        hint = as_advice("The server seems to use plain HTTP: write http:// instead of https:// in its URL")
    else:
        hint = (Plain("Check whether the URL begins with http:// instead of https://"), TryAgain(lead="Or try again"))
        transient = True
    return Failure(ProviderTrouble(problem, hint), transient)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds a provider asks to wait, from ``retry-after-ms`` or ``Retry-After`` (seconds, or a date), or None."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1_000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return seconds if seconds is not None else _seconds_until(value, now or datetime.now(UTC))


def _said_wait(message: str) -> float | None:
    """Return the seconds that a refusal asks to wait, as in ``try again in 1m26.4s``, or None if it states none."""
    if (duration := WAIT.search(message[: 10 * MAX_OF_A_MESSAGE])) is None:
        return None
    return sum(float(number) * UNITS[unit.lower()] for number, unit in DURATION.findall(duration[1]))


def _number(text: str) -> float | None:
    number = float(text) if NUMBER.fullmatch(text.strip()) else math.inf
    return max(0.0, number) if math.isfinite(number) else None


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(date)
        # HTTP dates are in UTC, even without a zone.
        return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _error(refusal: Refusal, status: int | None, meaning: str, wait: float | None) -> ModelError:
    kind, problem, hint = MEANINGS[meaning]
    code_words = ", ".join(readable(str(part)) for part in (status, refusal.name) if part and part != str(status))
    words = {"who": refusal.provider, "model": refusal.model, "key": refusal.key_name or "NAME", "url": str(refusal.url)}
    code, message = f" ({code_words})" if code_words else "", readable(refusal.message)
    if meaning == "redirect":
        message = ""  # the page sent with a redirect has nothing useful
        if target := _place(refusal.headers.get("location", ""), refusal.url):
            problem, hint = (
                "the server redirects to {place}, and agentnb will not send the key or the conversation there",
                "If that address is right, use it: url={place}",
            )
            words["place"] = target
    if meaning == "not found" and refusal.url is not None:
        problem = "there is no {model} at {url}"
        hint = ShowModels("{who}", "{url}", lead="Check the URL and the model name")
    if meaning == "rate limit" and wait:
        hint = TryAgain(lead=f"The provider asks you to wait {wait:,.0f} s. Then try again")
    hint = next((better for pattern, better in BETTER_ADVICE if status in WORDED and pattern.search(refusal.message)), hint)
    advice = change_texts(as_advice(hint), lambda text: text.format(**words))
    return kind(f"{refusal.provider}: {problem.format(**words)}{code}" + (f": {message}" if message else ""), advice)


def _meaning(refusal: Refusal, status: int | None) -> str:
    if is_named("credit", refusal.name) or status == 402:
        return "no credit"
    if says("quota", status, refusal.message):
        return "quota"
    if is_named("overflow", refusal.name) or says("overflow", status, refusal.message):
        return "overflow"
    if status is None or status == 408 or (status >= 500 and status not in NEVER_DONE):
        return "timeout" if status in (408, 504) else "trouble"
    if status < 400:
        return "redirect"
    wrong = "wrong key" if refusal.key_name else "no key"
    return {401: wrong, 403: "forbidden", 404: "not found", 429: "rate limit"}.get(status, "refused")


def _place(location: str, url: str | None) -> str:
    """Return the URL of a redirect without its password, query and fragment, since these may contain secrets."""
    try:
        parts = urlsplit(urljoin(url or "", location)) if location else None
    except ValueError:
        return ""
    if parts is None or parts.scheme not in ("http", "https"):
        return ""
    return readable(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


def words_of(body: object) -> str:
    """Return the message in the body of an error, in the form of any server or gateway; empty if there is none."""
    return error_text(body) or (str(dict(body)) if isinstance(body, Mapping) and body else "")


def error_text(body: object) -> str:
    """Return the text of an error in one of the fields that servers use; empty if there is none.

    A gateway's own text is followed by that of the server behind it, and Google's by the names of the quotas.
    """
    body = body[0] if isinstance(body, list) and body else body
    if isinstance(body, str) and body.startswith("{"):
        body = _parse_json(body)
    if isinstance(body, Mapping):
        behind, details = body.get("metadata"), body.get("details")
        texts = [
            next(filter(None, (error_text(body.get(field)) for field in words_of_servers()["names"]["fields"])), ""),
            error_text(behind.get("raw")) if isinstance(behind, Mapping) else "",
            *_quotas(details if isinstance(details, list) else []),
        ]
        return ": ".join(filter(None, texts))
    if not isinstance(body, str):
        return "" if body is None or isinstance(body, list) else str(body)
    text = body[: 100 * MAX_OF_A_MESSAGE]
    return (unescape(MARKUP.sub(" ", text)) if "<" in text else text).strip()


def _quotas(details: list[Any]) -> list[str]:
    """Return the names of the exhausted quotas in Google's error details."""
    violations = [violation for detail in details if isinstance(detail, dict) for violation in detail.get("violations") or ()]
    return [str(violation["quotaId"]) for violation in violations if isinstance(violation, dict) and violation.get("quotaId")]


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def readable(message: str) -> str:
    """Return external text in displayable form: one line, no control characters, limited length."""
    beginning = encodable(message[: 10 * MAX_OF_A_MESSAGE])
    text = " ".join("".join(character if character.isprintable() else " " for character in beginning).split())
    return text if len(text) <= MAX_OF_A_MESSAGE else text[:MAX_OF_A_MESSAGE].rstrip() + " …"
