"""Reasons why a page could not be fetched, for the model."""

from __future__ import annotations

from http import HTTPStatus

from agentnb.tools.tool import ToolOutcome, failure

NOT_THERE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
NEEDS_LOGIN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


class FetchFailed(Exception):
    """A page could not be fetched."""

    def __init__(self, code: str, problem: str, advice: str) -> None:
        super().__init__(problem)
        self._parts = (code, problem, advice)
        self.outcome: ToolOutcome = failure(code, problem, advice)

    def after_redirect(self, address: str) -> FetchFailed:
        """Return the error for the address to which another one redirects."""
        code, problem, advice = self._parts
        return FetchFailed(code, f"{address} redirects to another address. {problem}", advice)


def status_error(address: str, status: int, retry_after: str) -> FetchFailed:
    """Return the error for a reply other than a page. The server's own words are left out."""
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    problem = f"The server answered {phrase} for {address}"
    if status in NOT_THERE:
        advice = "Look for the right address: fetch the page that links to it, or the start page of the server."
        return FetchFailed("not_found", problem, advice)
    if status in NEEDS_LOGIN:
        return FetchFailed("forbidden", problem, "It may need a login, and web_fetch has none. Use another page.")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        seconds = f" after {retry_after} seconds" if retry_after.isdecimal() and len(retry_after) < 7 else " later"
        return FetchFailed("rate_limited", problem, f"Try again{seconds}, or use another page.")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return FetchFailed("server_error", problem, "Try once more later, or use another page.")
    return FetchFailed("http_error", problem, "Use another page.")


def unreachable(address: str, problem: str) -> FetchFailed:
    """Return the error for a server that does not answer."""
    advice = "Check the address, or use another page. web_fetch connects directly, not through a proxy."
    return FetchFailed("unreachable", f"{address} could not be reached: {problem}.", advice)


def not_resolved(host: str) -> FetchFailed:
    """Return the error for a host name without an address."""
    advice = "Check its spelling, or use another page. Behind a proxy that resolves names, web_fetch cannot read pages."
    return FetchFailed("unreachable", f"The name {host} has no address.", advice)


def not_secure(address: str, problem: str) -> FetchFailed:
    """Return the error for a TLS connection that failed."""
    return FetchFailed(
        "tls_error",
        f"There is no secure connection to {address}: {problem}.",
        "Use another page, or tell the person that the certificate of this server does not hold.",
    )


def no_certificates() -> FetchFailed:
    """Return the error for certificates to trust that cannot be read."""
    return FetchFailed(
        "tls_error",
        "Nothing was fetched: the certificates that the environment names cannot be read.",
        "The person can look at the variables SSL_CERT_FILE and SSL_CERT_DIR.",
    )


def unreadable(address: str, problem: str) -> FetchFailed:
    """Return the error for a reply that is not text."""
    advice = "web_fetch reads pages and text only. Look for the same content as a page, or as plain text."
    return FetchFailed("unreadable", f"The content of {address} is not text: {problem}.", advice)


def too_slow(address: str, seconds: float) -> FetchFailed:
    """Return the error for a page that did not come in time."""
    return FetchFailed(
        "timeout", f"{address} did not come within {seconds:g} seconds.", "Try once more, or use another, smaller page."
    )


def too_many_redirects(address: str, count: int) -> FetchFailed:
    """Return the error for a chain of redirects without an end."""
    return FetchFailed("too_many_redirects", f"{address} redirects more than {count} times.", "Use another page.")
