"""Errors of GitHub calls, worded for the model, with commands for it to pass on to the person."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from agentnb.core.redaction import redact
from agentnb.tools.tool import ToolRefused

ENTER_TOKEN = "The person can enter a token with %agent key github, or set the variable GITHUB_TOKEN."
MAX_MESSAGE = 300
"""Maximum number of characters of GitHub's message in an error."""


def no_token() -> ToolRefused:
    """Return the error for a comment without a token."""
    return ToolRefused("no_key", "Commenting needs a GitHub token, but none is set. Nothing was posted.", ENTER_TOKEN)


def unusable_token(problem: str) -> ToolRefused:
    """Return the error for a variable whose value is not a token."""
    return ToolRefused("no_key", f"GitHub was not called: {problem}.", ENTER_TOKEN)


def no_repository(problem: str) -> ToolRefused:
    """Return the error for a call without a repository and without a default."""
    return ToolRefused(
        "no_repository",
        f"No repository was given. {problem}",
        'Pass owner and repo. The person can set one for all calls: GitHub(repo="owner/name"), or %agent defaults '
        "repo=owner/name.",
    )


def invalid_repository(problem: str) -> ToolRefused:
    """Return the error for an invalid owner or repository name."""
    return ToolRefused("invalid_arguments", problem, "Pass owner and repo as in https://github.com/owner/repo.")


def invalid_state(state: str, known: Iterable[str]) -> ToolRefused:
    """Return the error for an unknown issue state."""
    return ToolRefused("invalid_arguments", f"state is {state!r}.", f"Use one of {', '.join(known)}.")


def too_slow(seconds: float) -> ToolRefused:
    """Return the error for a response that exceeds the time limit."""
    return ToolRefused(
        "timeout",
        f"GitHub did not answer within {seconds:g} seconds.",
        "Try once more. Before you repeat a comment, check whether it was posted.",
    )


def unreachable(host: str, problem: str) -> ToolRefused:
    """Return the error for an unreachable server."""
    return ToolRefused("unreachable", f"{host} could not be reached: {problem}.", "Try once more, or work without GitHub.")


def behind_proxy(host: str) -> ToolRefused:
    """Return the error for a local server whose requests would go through a proxy."""
    return ToolRefused(
        "unreachable",
        f"{host} was not called: the environment sets a proxy for it, which would see the token.",
        f"The person can exempt it: NO_PROXY={host}.",
    )


def unexpected_answer(problem: str) -> ToolRefused:
    """Return the error for a response that does not match GitHub's API."""
    return ToolRefused(
        "unexpected_answer",
        f"GitHub sent an invalid response: {problem}.",
        "Check owner and repo: the repository may have moved. The person can check GitHub's url=.",
    )


def repository_moved(old: str, new: str) -> ToolRefused:
    """Return the error for listing a renamed repository."""
    owner, _, name = new.partition("/")
    return ToolRefused("moved", f"{old} has moved to {new}.", f"Call it again with owner={owner!r} and repo={name!r}.")


def status_error(status: int, data: Any, headers: Mapping[str, str], *, has_token: bool) -> ToolRefused:
    """Return the error for an HTTP error status from GitHub."""
    words = data.get("message") if isinstance(data, dict) else None
    message = f": {redact(' '.join(words.split()))[:MAX_MESSAGE]}" if isinstance(words, str) and words else ""
    problem = f"GitHub returned {status}{message}"
    if _is_rate_limit(status, headers):
        more = "" if has_token else f" {ENTER_TOKEN} With a token, the limit is higher."
        return ToolRefused("rate_limited", problem, f"{_retry_time(headers)}{more}")
    if status == HTTPStatus.UNAUTHORIZED:
        reason = "The token is not valid" if has_token else "A token is required"
        return ToolRefused("unauthorized", problem, f"{reason}. {ENTER_TOKEN}")
    if status == HTTPStatus.FORBIDDEN:
        reason = "The token does not permit this. Tell the person." if has_token else f"A token may be required. {ENTER_TOKEN}"
        return ToolRefused("forbidden", problem, reason)
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        private = "or is private, and the token has no access." if has_token else f"or is private. {ENTER_TOKEN}"
        return ToolRefused("not_found", problem, f"Check owner, repo and number: the item does not exist, {private}")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ToolRefused("server_error", problem, "Try once more later, or work without GitHub.")
    return ToolRefused("refused", problem, "Change the arguments, or work without it.")


def _is_rate_limit(status: int, headers: Mapping[str, str]) -> bool:
    is_spent = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    return status == HTTPStatus.TOO_MANY_REQUESTS or (status == HTTPStatus.FORBIDDEN and is_spent)


def _retry_time(headers: Mapping[str, str]) -> str:
    """Return a sentence with the time of the next attempt."""
    seconds = _number(headers.get("retry-after"))
    at = _number(headers.get("x-ratelimit-reset"))
    if seconds is None and at is not None:
        seconds = max(0, at - int(time.time()))
    if seconds is None:
        return "Wait a few minutes before the next call."
    clock = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%H:%M UTC")
    return f"The next call is possible in {seconds} seconds, at {clock}."


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 12 else None
