"""Logging in to an MCP server by OAuth, as the official SDK does it, and the requests of one that is logged in.

It is imported where a login is used: the SDK's part of it takes a while to load.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from httpx2 import AsyncClient, HTTPError, Request, Response, Timeout
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl

from agentnb import settings
from agentnb.core.messages import visible
from agentnb.core.redaction import redact
from agentnb.errors import ServerFailed
from agentnb.tools.mcp.connections.kept_logins import KeptLogin, keep_login, kept_login, redact_login
from agentnb.tools.mcp.server import MCPServer

CLIENT_NAME = "agentnb"
LOOPBACK = "127.0.0.1"
ANSWER_PATH = "/callback"
LOGIN_SECONDS = 600.0
"""Seconds that the person has in the browser."""
REQUEST_SECONDS = 30.0
MAX_WORDS = 300
"""Characters of an authorization server's words that an error repeats."""
UNAUTHORIZED = 401
FLOW_LOGGER = "mcp.client.auth.oauth2"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
"""The request that asks for the login. Nothing comes of it without a session."""
PAGE = "<!doctype html><meta charset=utf-8><title>agentnb</title><p>"
ARRIVED = f"{PAGE}Your answer has arrived. You can close this page and go back to your notebook.".encode()
NOT_EXPECTED = f"{PAGE}This is not the login that agentnb waits for.".encode()


class _Provider(OAuthClientProvider):
    """The SDK's login at one address, which keeps what it gets."""

    def __init__(self, address: str, answered_at: str, **handlers: Any) -> None:
        metadata = OAuthClientMetadata(client_name=CLIENT_NAME, redirect_uris=[AnyUrl(answered_at)])
        super().__init__(address, metadata, self, **handlers)
        self.is_kept = True
        """Whether the last login could be stored."""
        # The SDK logs its errors, which hold what servers have answered, and addresses with the person's codes.
        logging.getLogger(FLOW_LOGGER).addFilter(_without_cause)

    async def get_tokens(self) -> OAuthToken | None:
        """Return none: a login begins without those before."""
        return None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return none: what is registered waits at an address of this login only."""
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Redact the secret of the client."""
        redact_login(client_info.model_dump())

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep what the authorization server gave."""
        context, client = self.context, self.context.client_info
        assert client is not None, "its tokens were asked for"
        kept = KeptLogin(
            context.server_url,
            tokens.model_dump(mode="json", exclude_none=True),
            client.model_dump(mode="json", exclude_none=True),
            _dumped(context.oauth_metadata),
            _dumped(context.protected_resource_metadata),
            context.token_expiry_time,
        )
        redact_login(kept.tokens, kept.client)
        self.is_kept = await asyncio.to_thread(keep_login, kept)


class LoggedIn(_Provider):
    """The requests of a person who is logged in. It renews tokens that expire or are refused, and asks for nothing else."""

    def __init__(self, kept: KeptLogin) -> None:
        super().__init__(kept.address, f"http://{LOOPBACK}{ANSWER_PATH}")
        self._take(kept)

    def _take(self, kept: KeptLogin | None) -> None:
        if kept is None:
            return
        context = self.context
        context.current_tokens = OAuthToken.model_validate(kept.tokens)
        context.token_expiry_time = kept.expires
        context.client_info = OAuthClientInformationFull.model_validate(kept.client)
        context.oauth_metadata = None if kept.metadata is None else OAuthMetadata.model_validate(kept.metadata)
        if kept.resource is not None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept.resource)

    def _usable(self, refused: str) -> str:
        """Return the token to send; empty if it has expired, or is the refused one."""
        tokens = self.context.current_tokens
        return tokens.access_token if tokens and self.context.is_token_valid() and tokens.access_token != refused else ""

    async def _auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        # The SDK's own flow would log in anew, and holds its lock until the response: a call could not ask the person.
        refused = ""
        for _ in range(2):
            async with self.context.lock:
                if not self._usable(refused):
                    # Another kernel may have renewed it.
                    self._take(await asyncio.to_thread(kept_login, self.context.server_url))
                if not self._usable(refused) and self.context.can_refresh_token():
                    await self._handle_refresh_response((yield await self._refresh_token()))
                token = self._usable(refused)
            if refused and not token:
                return
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            response = yield request
            if response.status_code != UNAUTHORIZED or not token:
                return
            refused = token


class Login:
    """One login, which the person completes in the browser. `run` belongs on an event loop; the rest is for any thread."""

    def __init__(self, server: MCPServer, scope: str = "") -> None:
        """``server``: with the values of its variables; ``scope``: rights to ask for besides those of before."""
        self._server = server
        self._scope = scope
        self._state = ""
        self._refusal = ""
        """The last answer of a server that refused a step."""
        self._is_asked = False
        self.address: Future[str] = Future()
        """Where the person logs in."""
        self._answer: Future[dict[str, str]] = Future()

    @property
    def is_answered(self) -> bool:
        """Whether the browser has come back, or the login was given up."""
        return self._answer.done()

    def take(self, address: str) -> bool:
        """Take the address at which the browser ended; return whether it is one of this login."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
        if not self._state or not secrets.compare_digest(given.get("state", "").encode(), self._state.encode()):
            return False
        settings.redact_values({"AUTH_CODE": given.get("code", "")})
        with suppress(Exception):  # it came twice
            self._answer.set_result(given)
        return True

    def give_up(self) -> None:
        """End the login without an answer."""
        with suppress(Exception):  # it has one
            self._answer.set_result({"error": "interrupted"})

    async def run(self) -> bool:
        """Log in and keep the tokens; return whether they could be stored. Raises `ServerFailed`."""
        try:
            async with asyncio.timeout(LOGIN_SECONDS), self._listening() as answered_at:
                return await self._logged_in(answered_at)
        except TimeoutError:
            why = f"nobody has logged in for {LOGIN_SECONDS / 60:.0f} minutes" if self._state else "it did not answer in time"
        except (OAuthRegistrationError, OAuthTokenError) as error:  # their texts hold answers of servers
            step = "registers no client" if isinstance(error, OAuthRegistrationError) else "gives no token"
            why = self._refusal or f"its authorization server {step} that can be used"
        except (OAuthFlowError, HTTPError, ValueError, OSError) as error:
            why = self._refusal or _shown(str(error)) or type(error).__name__
        raise ServerFailed(f"The login at the MCP server {self._server.name} failed: {why}") from None

    async def _logged_in(self, answered_at: str) -> bool:
        server = self._server
        before = await asyncio.to_thread(kept_login, server.command_or_url)
        granted = before.tokens.get("scope") if before is not None and self._scope else None
        more = union_scopes(granted, self._scope)
        provider = _Interactive(self, server.command_or_url, answered_at, more)
        headers = {
            **server.headers,
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": LATEST_PROTOCOL_VERSION,
        }
        hooks: Any = {"request": [self._check], "response": [self._note]}
        async with (
            AsyncClient(auth=provider, timeout=Timeout(REQUEST_SECONDS), event_hooks=hooks) as http,
            http.stream("POST", server.command_or_url, json=PING, headers=headers) as response,
        ):
            if response.status_code in (UNAUTHORIZED, 403):
                raise OAuthFlowError(f"it answers {response.status_code} after the login, too")
        return provider.is_kept

    async def _check(self, request: Request) -> None:
        if self._server.command_or_url.lower().startswith("https:") and request.url.scheme != "https":
            raise OAuthFlowError(f"it leads to {request.url.scheme}://{request.url.host}, where anybody could read along")

    async def _note(self, response: Response) -> None:
        if not self._is_asked:  # whatever a server lets everybody do: this is a login
            self._is_asked, response.status_code = True, UNAUTHORIZED
        elif response.request.method == "POST" and response.status_code >= 400:
            self._refusal = await _refusal(response)

    async def ask(self, address: str) -> None:
        """Show the person where to log in."""
        self._state = parse_qs(urlsplit(address).query)["state"][0]
        settings.redact_values({"AUTH_STATE": self._state})
        self.address.set_result(address)

    async def answer(self) -> AuthorizationCodeResult:
        """Wait until the browser comes back. Raises `OAuthFlowError` if the person or the server refused."""
        given = await asyncio.wrap_future(self._answer)
        if "error" in given:
            raise OAuthFlowError(": ".join(filter(None, [given["error"], given.get("error_description", "")])))
        return AuthorizationCodeResult(code=given.get("code", ""), state=given["state"], iss=given.get("iss"))

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[str]:
        """Wait for the browser on this machine; yield the address that it is sent to."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    path = head.split(b" ", 2)[1].decode("ascii", "replace")
                    is_ours = path.partition("?")[0] == ANSWER_PATH and self.take(path)
                    page, status = (ARRIVED, "200 OK") if is_ours else (NOT_EXPECTED, "400 Bad Request")
                    length = f"Content-Type: text/html\r\nContent-Length: {len(page)}\r\nConnection: close"
                    writer.write(f"HTTP/1.1 {status}\r\n{length}\r\n\r\n".encode() + page)
                    await writer.drain()
            except (OSError, IndexError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

        async with await asyncio.start_server(answer, LOOPBACK, 0) as listening:
            yield f"http://{LOOPBACK}:{listening.sockets[0].getsockname()[1]}{ANSWER_PATH}"


class _Interactive(_Provider):
    """The SDK's flow, in which a person logs in."""

    def __init__(self, login: Login, address: str, answered_at: str, more: str | None) -> None:
        super().__init__(address, answered_at, redirect_handler=login.ask, callback_handler=login.answer)
        self._more = more

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        asked = self.context.client_metadata
        asked.scope = union_scopes(asked.scope, self._more)
        return await super()._perform_authorization_code_grant()


def _dumped(model: Any) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _shown(text: str) -> str:
    """Return words of a server for an error: in a line, bounded, without secrets."""
    return redact(visible(text), settings.known_secrets()).replace("\n", " ").strip()[:MAX_WORDS]


async def _refusal(response: Response) -> str:
    """Return how an authorization server refused a step, in the words that the protocol has for that."""
    said = ""
    with suppress(ValueError):
        given = await response.aread() and response.json()
        words = [given.get(key) for key in ("error", "error_description")] if isinstance(given, dict) else []
        said = _shown(": ".join([word for word in words if isinstance(word, str)]))
    return f"{response.request.url.copy_with(query=None)} answers {response.status_code}" + (f" ({said})" if said else "")


def _without_cause(record: logging.LogRecord) -> bool:
    record.exc_info = record.exc_text = None
    return True
