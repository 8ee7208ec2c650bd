"""Errors of page requests, for the model."""

from __future__ import annotations

from http import HTTPStatus

from agentnb.tools.tool import ToolRefused

NOT_THERE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
NEEDS_LOGIN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


def after_redirect(error: ToolRefused, address: str) -> ToolRefused:
    """Return an error about the target of a redirect."""
    code, problem, advice = error.args
    return ToolRefused(code, f"{address} redirects to another address. {problem}", advice)


def status_error(address: str, status: int, retry_after: str) -> ToolRefused:
    """Return the error for an HTTP error status. The server's own text is left out."""
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    problem = f"The server returned {phrase} for {address}"
    if status in NOT_THERE:
        advice = "Find the right address: fetch the page that links to it, or the server's home page."
        return ToolRefused("not_found", problem, advice)
    if status in NEEDS_LOGIN:
        return ToolRefused("forbidden", problem, "It may require a login, which web_fetch does not support. Use another page.")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        seconds = f" after {retry_after} seconds" if retry_after.isdecimal() and len(retry_after) < 7 else " later"
        return ToolRefused("rate_limited", problem, f"Try again{seconds}, or use another page.")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ToolRefused("server_error", problem, "Try once more later, or use another page.")
    return ToolRefused("http_error", problem, "Use another page.")


def unreachable(address: str, problem: str) -> ToolRefused:
    """Return the error for a server that does not respond."""
    advice = "Check the address, or use another page. web_fetch connects directly, not through a proxy."
    return ToolRefused("unreachable", f"{address} could not be reached: {problem}.", advice)


def not_resolved(host: str) -> ToolRefused:
    """Return the error for a host name that has no address."""
    advice = "Check its spelling, or use another page. Behind a proxy that resolves names, web_fetch cannot read pages."
    return ToolRefused("unreachable", f"The host name {host} has no address.", advice)


def not_secure(address: str, problem: str) -> ToolRefused:
    """Return the error for a failed TLS connection."""
    return ToolRefused(
        "tls_error",
        f"No secure connection to {address}: {problem}.",
        "Use another page, or tell the person that the certificate of this server is not valid.",
    )


def no_certificates() -> ToolRefused:
    """Return the error for trusted certificates that cannot be read."""
    return ToolRefused(
        "tls_error",
        "Nothing was fetched: the certificates set in the environment cannot be read.",
        "The person can check the variables SSL_CERT_FILE and SSL_CERT_DIR.",
    )


def unreadable(address: str, problem: str) -> ToolRefused:
    """Return the error for content other than text."""
    advice = "web_fetch reads only web pages and text. Look for the same content as a page or plain text."
    return ToolRefused("unreadable", f"The content of {address} is not text: {problem}.", advice)


def too_slow(address: str, seconds: float) -> ToolRefused:
    """Return the error for a page that exceeds the time limit."""
    return ToolRefused(
        "timeout", f"{address} was not received within {seconds:g} seconds.", "Try once more, or use another, smaller page."
    )


def too_many_redirects(address: str, count: int) -> ToolRefused:
    """Return the error for too many redirects."""
    return ToolRefused("too_many_redirects", f"{address} redirects more than {count} times.", "Use another page.")
