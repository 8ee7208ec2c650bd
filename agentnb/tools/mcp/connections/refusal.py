"""Refused requests of MCP servers: required authentication, advice for the person, and lost sessions."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from agentnb.advice import AnyAdvice, LogInToServer, Plain
from agentnb.core.messages import visible
from agentnb.core.redaction import redact
from agentnb.settings import known_secrets
from agentnb.tools.mcp.connections.lenient_results import replace_body
from agentnb.tools.mcp.connections.server_catalogue import METHOD_NOT_FOUND
from agentnb.tools.mcp.mcp_server import MCPServer

UNAUTHORIZED = 401
NOT_ALLOWED = {UNAUTHORIZED: "Unauthorized", 403: "Forbidden"}
HEADER = 'set the required header, such as headers={"Authorization": "Bearer ${TOKEN}"}'
MAX_CHALLENGE = 500
SESSION_HEADER, SESSION_UNKNOWN = "mcp-session-id", 404
"""Session header of requests, and the status of an unknown session, in the older protocol."""
MAX_REFUSAL_BYTES = 10_000
"""Maximum number of bytes read from a response to detect a lost session."""
_LOST_SESSION = re.compile(
    r"\b(?:no (?:valid|such|active)|invalid|unknown|expired|stale|unrecogni[sz]ed)\b[\w /-]{0,30}\bsession"
    r"|\bsession\b[\w /:'\"-]{0,80}(?:(?:\bnot|n.t) (?:found|exist|valid|active)|\b(?:unknown|invalid|expired|terminated)\b)"
    r"|\bserver not initialized",
    re.IGNORECASE,
)
"""Messages of servers that report a lost session with another status, modelled on the official SDKs, mcp-go and others."""
_UNKNOWN_METHOD = re.compile(rf'"code"\s*:\s*{METHOD_NOT_FOUND}\b')
_SCOPE = re.compile(r"(?!-)[\w:/.~+-]{1,100}(?: (?!-)[\w:/.~+-]{1,100}){0,19}", re.ASCII)
"""Scopes that are safe on a command line: the server chooses them, and the person copies them. They cannot be mistaken for
options."""
_BEARER = re.compile(r"(?:^|,)\s*bearer\b", re.IGNORECASE)
"""Bearer scheme in a challenge, which may list several schemes."""


class Refusal(NamedTuple):
    """A response with status 401 or 403."""

    status: int
    challenge: str
    """The WWW-Authenticate header."""
    takes_login: bool = False
    """True if an OAuth login may help."""
    scope: str = ""
    """Scopes missing from the current login."""

    @property
    def text(self) -> str:
        """Status and challenge, for the person."""
        wanted = f"WWW-Authenticate: {self.challenge}" if self.challenge else "without a challenge"
        return f"it returns {self.status} {NOT_ALLOWED[self.status]} ({wanted})"

    def advice(self, name: str) -> tuple[AnyAdvice, ...]:
        """Return advice for the person about the server with this name."""
        if not self.takes_login:
            return (Plain(HEADER[:1].upper() + HEADER[1:]),)
        is_sure = self.scope or "resource_metadata=" in self.challenge
        return (LogInToServer(name=name, scope=self.scope, lead="Log in", rest="" if is_sure else f". Or {HEADER}"),)


def refusal_of(response: Any, server: MCPServer) -> Refusal:
    """Return the refusal in a response with a status of `NOT_ALLOWED`."""
    from mcp.client.auth.utils import extract_field_from_www_auth

    challenge = redact(visible(response.headers.get("www-authenticate", ""))[:MAX_CHALLENGE], known_secrets())
    lacks_rights = extract_field_from_www_auth(response, "error") == "insufficient_scope"
    scope = (extract_field_from_www_auth(response, "scope") or "") if lacks_rights else ""
    is_bearer = _BEARER.search(challenge) is not None or not challenge
    takes_login = is_bearer and not has_own_login(server) and (response.status_code == UNAUTHORIZED or lacks_rights)
    return Refusal(response.status_code, challenge, takes_login, scope if _SCOPE.fullmatch(scope) else "")


async def is_session_unknown(response: Any) -> bool:
    """True if a server has rejected a request without reading it, because the session is unknown."""
    request, status, headers = response.request, response.status_code, response.headers
    if status < 400 or request.method != "POST" or SESSION_HEADER not in request.headers or "www-authenticate" in headers:
        return False
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MAX_REFUSAL_BYTES:
        return bool(status == SESSION_UNKNOWN)
    body = b"".join([chunk async for chunk in response.aiter_bytes()])
    replace_body(response, body)
    words = body.decode(errors="replace")
    return not _UNKNOWN_METHOD.search(words) if status == SESSION_UNKNOWN else bool(_LOST_SESSION.search(words))


def has_own_login(server: MCPServer) -> bool:
    """True if the person configured an Authorization header for the server."""
    return "authorization" in map(str.lower, server.headers)
