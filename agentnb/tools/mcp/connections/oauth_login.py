"""OAuth login to an MCP server through the official SDK, and requests on behalf of a logged-in person."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncGenerator
from concurrent.futures import Future, InvalidStateError
from contextlib import aclosing, closing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from agentnb import settings
from agentnb.advice import Advised, LogInToServer
from agentnb.core.messages import visible
from agentnb.core.redaction import redact
from agentnb.core.schema.web_addresses import WebAddress, web_address
from agentnb.errors import ServerFailed, SettingsError
from agentnb.tools.defaults import LOGIN_SECONDS
from agentnb.tools.mcp.connections.lenient_results import replace_body
from agentnb.tools.mcp.connections.refusal import NOT_ALLOWED, UNAUTHORIZED
from agentnb.tools.mcp.connections.stored_logins import StoredLogin, load_login, redact_login, store_login
from agentnb.tools.mcp.mcp_server import MCPServer

if TYPE_CHECKING:
    from httpx2 import URL, Auth, Request, Response
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

LOOPBACK = "127.0.0.1"
ANSWER_PATH = "/callback"
REQUEST_SECONDS = 30.0
MAX_RESPONSE_BYTES = 1_000_000
"""Maximum number of bytes read from an authorization server's response."""
MAX_WORDS = 300
"""Maximum number of characters of server text repeated in an error."""
UNREADABLE = (ValueError, ArithmeticError, RecursionError)
"""Errors raised while parsing an invalid response from an authorization server."""
BASIC = "client_secret_basic"
FLOW_LOGGER = "mcp.client.auth.oauth2"
SILENT = logging.NullHandler()
"""Handler that discards log messages of the SDK, which would otherwise be printed into the person's cell."""
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
"""Request that triggers the login, and has no effect without a session."""
PAGE = "<!doctype html><meta charset=utf-8><title>agentnb</title><p>"
ARRIVED = f"{PAGE}agentnb has received your answer. You can close this page and return to your notebook.".encode()
NOT_EXPECTED = f"{PAGE}agentnb is not waiting for this login.".encode()


class _Tokens:
    """OAuth state for an address, and its storage, as required by the SDK."""

    def __init__(self, address: str, answered_at: str, **handlers: Any) -> None:
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        client_metadata = OAuthClientMetadata(client_name="agentnb", redirect_uris=[AnyUrl(answered_at)])
        self._provider: OAuthClientProvider = OAuthClientProvider(address, client_metadata, self, **handlers)
        self._is_stored = True
        self._named: OAuthClientInformationFull | None = None
        """Client chosen by the person, for this or the previous login."""
        # The SDK logs errors with the content of responses.
        logger = logging.getLogger(FLOW_LOGGER)
        logger.addFilter(_without_cause)
        logger.addHandler(SILENT)

    async def get_tokens(self) -> OAuthToken | None:
        """Return None: a login starts without earlier tokens."""
        return None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return None: each login registers its own client, for its own redirect address."""
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Redact the client's secret."""
        redact_login(client_info.model_dump())

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens from the authorization server."""
        context = self._provider.context
        kept = StoredLogin(
            context.server_url,
            _dump(tokens),
            _dump(context.client_info),
            _dump(context.oauth_metadata),
            _dump(context.protected_resource_metadata),
            context.token_expiry_time,
            names_client=self._named is not None and context.client_info is self._named,
        )
        redact_login(kept.tokens, kept.client)
        self._is_stored = await asyncio.to_thread(store_login, kept)


class LoggedIn(_Tokens):
    """Authenticates requests. Renews expired or refused tokens, but does not start a login."""

    def __init__(self, kept: StoredLogin) -> None:
        super().__init__(kept.address, f"http://{LOOPBACK}{ANSWER_PATH}")
        self._take(kept)

    @property
    def auth(self) -> Auth:
        """The authentication as the HTTP client expects it."""
        from httpx2 import Auth

        auth = Auth()
        auth.async_auth_flow = self._flow  # type: ignore[method-assign]
        return auth

    async def reload(self) -> None:
        """Reload the stored login: another kernel may have renewed or replaced it."""
        self._take(await asyncio.to_thread(load_login, self._provider.context.server_url))

    def _take(self, kept: StoredLogin | None) -> None:
        from mcp.shared import auth as models

        if kept is None:
            return
        context = self._provider.context
        with suppress(ValueError):  # changed by another program: the person logs in again
            context.client_info = models.OAuthClientInformationFull.model_validate(kept.client)
            self._named = context.client_info if kept.names_client else None
            if kept.metadata:
                context.oauth_metadata = models.OAuthMetadata.model_validate(kept.metadata)
            if kept.resource:
                context.protected_resource_metadata = models.ProtectedResourceMetadata.model_validate(kept.resource)
            context.current_tokens = models.OAuthToken.model_validate(kept.tokens)
            context.token_expiry_time = kept.expires

    def _usable(self, refused: str) -> str:
        """Return the token to send, or "" if it was refused, or has expired and can be renewed."""
        context = self._provider.context
        is_spent = context.can_refresh_token() and not context.is_token_valid()
        token = context.current_tokens.access_token if context.current_tokens and not is_spent else ""
        return "" if token == refused else token

    async def _flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        # The SDK's own flow would start a login, and holds its lock until the response: a call could not ask the person.
        from mcp.client.auth import OAuthFlowError

        context, refused = self._provider.context, ""
        for _ in range(2):
            answer: Response | None = None
            async with context.lock:
                if not self._usable(refused):
                    await self.reload()
                if not self._usable(refused) and context.can_refresh_token():
                    answer = yield await self._provider._refresh_token()
                    _limit(answer)
                    with suppress(OAuthFlowError, *UNREADABLE):
                        await self._provider._handle_refresh_response(answer)
                    if not context.current_tokens:  # refused: another kernel may have renewed it first
                        await self.reload()
                token = self._usable(refused)
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            elif refused and answer is None:
                return  # after a renewal, repeat the request for its refusal: the last response is the result of the flow
            response = yield request
            if response.status_code != UNAUTHORIZED or not token:
                return
            refused = token


class Login(_Tokens):
    """A login that the person completes in the browser: call `run` on an event loop, `take` and `give_up` in any thread."""

    def __init__(self, server: MCPServer, scope: str = "", client: tuple[str, str] | None = None) -> None:
        """``server``: with its variables filled in; ``scope``: scopes to request in addition to earlier ones.

        ``client``: id and secret of a registered client; the secret may be empty.
        """
        self._socket = socket.create_server((LOOPBACK, 0))
        self._answered_at = f"http://{LOOPBACK}:{self._socket.getsockname()[1]}{ANSWER_PATH}"
        super().__init__(
            server.command_or_url, self._answered_at, redirect_handler=self._show, callback_handler=self._wait_for_answer
        )
        self._server = server
        self._scope = scope
        self._client = client
        self._state = ""
        self._is_challenged = False
        self._refusal = ""
        """A server's most recent refusal."""
        self.address: Future[WebAddress] = Future()
        """Address of the login page."""
        self.note = ""
        """Host that receives the browser's answer, if it differs from the login page."""
        self._answer: Future[dict[str, str]] = Future()

    @property
    def is_answered(self) -> bool:
        """True once the browser has returned, or the login is over."""
        return self._answer.done()

    def take(self, address: str) -> bool:
        """Accept the browser's final address. Returns False if it belongs to another login."""
        url = settings.parse_url(address)
        parameters = {name: values[0] for name, values in parse_qs(url.query if url else "").items()}
        if not self._state or not secrets.compare_digest(parameters.get("state", "").encode(), self._state.encode()):
            return False
        settings.redact_values({"AUTH_CODE": parameters.get("code", "")})
        self._end(parameters)
        return True

    def give_up(self) -> None:
        """End the login, unless it has an answer."""
        self._end({"error": "the login was cancelled"})

    def _end(self, answer: dict[str, str]) -> None:
        with suppress(InvalidStateError):  # answered already
            self._answer.set_result(answer)

    async def run(self) -> bool:
        """Log in and store the tokens. Returns False if they could not be stored. Raises `ServerFailed`."""
        from httpx2 import HTTPError, InvalidURL, TimeoutException
        from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError

        advice: Advised = ""
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                with closing(await asyncio.start_server(self._receive, sock=self._socket)):
                    await self._log_in()
                return self._is_stored
        except (TimeoutError, TimeoutException):
            is_waiting = self._state and not self.is_answered
            why = f"nobody logged in within {LOGIN_SECONDS / 60:.0f} minutes" if is_waiting else "it did not answer in time"
        except OAuthRegistrationError:  # their messages repeat responses of servers
            why = self._refusal or "its authorization server does not register clients"
            lead = f"Register a client there, with the redirect address http://{LOOPBACK}{ANSWER_PATH}, and pass its id"
            advice = LogInToServer(name=self._server.name, scope=self._scope, client="ID", lead=lead)
        except (OAuthTokenError, *UNREADABLE):
            why = self._refusal or "its authorization server returned no usable token"
        except (OAuthFlowError, HTTPError, InvalidURL, OSError) as error:
            why = self._refusal or _error_text(str(error)) or type(error).__name__
        raise ServerFailed(f"The login to the MCP server {self._server.name} failed: {why}", advice) from None

    async def _log_in(self) -> None:
        from httpx2 import AsyncClient, Timeout
        from mcp.client.auth import OAuthFlowError
        from mcp.client.auth.utils import union_scopes
        from mcp_types import LATEST_PROTOCOL_VERSION

        address = self._server.command_or_url
        if self._scope and (before := await asyncio.to_thread(load_login, address)) is not None:
            self._scope = union_scopes(before.tokens.get("scope"), self._scope) or ""
        accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}
        hooks: Any = {"request": [self._check], "response": [self._note]}
        async with (
            AsyncClient(auth=self._provider, timeout=Timeout(REQUEST_SECONDS), event_hooks=hooks) as http,
            http.stream("POST", address, json=PING, headers={**self._server.headers, **accept}) as response,
        ):
            if response.status_code in NOT_ALLOWED:
                raise OAuthFlowError(f"it still returns {response.status_code} after login")

    async def _check(self, request: Request) -> None:
        self._check_scheme(request.url)

    def _check_scheme(self, url: URL) -> None:
        from mcp.client.auth import OAuthFlowError

        if self._server.command_or_url.lower().startswith("https:") and url.scheme != "https":
            raise OAuthFlowError(f"it redirects to {url.scheme}://{url.host}, which is not encrypted")

    async def _note(self, response: Response) -> None:
        if self._is_challenged:
            _limit(response)
            if response.request.method == "POST" and response.status_code >= 400:
                self._refusal = await _refusal(response)
            return
        # A login takes place even if the server allows anonymous requests, or its response never ends.
        replace_body(response, b"")
        self._is_challenged, response.status_code = True, 403 if self._scope else UNAUTHORIZED
        if self._scope:
            wanted = response.headers.get("www-authenticate", "Bearer")
            response.headers["www-authenticate"] = f'error="insufficient_scope", scope="{self._scope}", {wanted}'

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client chosen by the person, or None to register one for this login."""
        from mcp.shared.auth import OAuthClientInformationFull

        if self._client is not None:
            client_id, secret = self._client
            redact_login({"client_secret": secret})
            self._named = OAuthClientInformationFull(client_id=client_id, client_secret=secret or None)
        elif (before := await asyncio.to_thread(load_login, self._server.command_or_url)) is not None and before.names_client:
            with suppress(ValueError):  # changed by another program
                self._named = OAuthClientInformationFull.model_validate(before.client)
        return self._named

    async def _show(self, address: str) -> None:
        from httpx2 import URL
        from mcp.client.auth import OAuthFlowError

        endpoint, _, query = address.rpartition("?")  # the endpoint may have its own query
        try:
            shown = web_address(f"{endpoint}{'&' if '?' in endpoint else '?'}{query}")
        except SettingsError as error:
            raise OAuthFlowError(error.what) from None
        if "#" in endpoint:
            raise OAuthFlowError(f"{endpoint} cannot be opened: it has a fragment")
        self._check_scheme(URL(shown.opened))
        client, metadata = self._provider.context.client_info, self._provider.context.oauth_metadata
        if self._client is not None and client is not None and client.client_secret:
            methods = (metadata and metadata.token_endpoint_auth_methods_supported) or [BASIC]
            client.token_endpoint_auth_method = BASIC if BASIC in methods else "client_secret_post"
            client.issuer = self._provider._expected_issuer()  # the secret goes to no other authorization server
        self._state = parse_qs(query)["state"][-1]
        token_host = URL(self._provider._get_token_endpoint()).netloc.decode()
        self.note = "" if token_host == shown.ascii_host else f". {token_host} receives your answer"
        self.address.set_result(shown)

    async def _wait_for_answer(self) -> AuthorizationCodeResult:
        from mcp.client.auth import OAuthFlowError
        from mcp.shared.auth import AuthorizationCodeResult

        answer = await asyncio.wrap_future(self._answer)
        if "error" in answer:
            raise OAuthFlowError(": ".join(filter(None, [answer["error"], answer.get("error_description")])))
        return AuthorizationCodeResult(code=answer.get("code", ""), state=answer["state"], iss=answer.get("iss"))

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a browser on this machine, redirected by an authorization server."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                is_ours = self.take(head.split(b" ", 2)[1].decode("ascii", "replace"))
                page, status = (ARRIVED, "200 OK") if is_ours else (NOT_EXPECTED, "400 Bad Request")
                header = f"Content-Type: text/html\r\nContent-Length: {len(page)}\r\nConnection: close"
                writer.write(f"HTTP/1.1 {status}\r\n{header}\r\n\r\n".encode() + page)
                await writer.drain()
        except (OSError, IndexError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser
        finally:
            writer.close()


def _dump(model: Any) -> dict[str, Any]:
    return {} if model is None else model.model_dump(mode="json", exclude_none=True)


def _error_text(text: str) -> str:
    """Return server text for an error: one line, truncated, without secrets."""
    return redact(visible(text), settings.known_secrets()).replace("\n", " ").strip()[:MAX_WORDS]


async def _refusal(response: Response) -> str:
    """Return an authorization server's refusal, with the error fields of OAuth."""
    reason = ""
    with suppress(*UNREADABLE):
        answer = await response.aread() and response.json()
        words = [answer.get(key) for key in ("error", "error_description")] if isinstance(answer, dict) else []
        reason = _error_text(": ".join([word for word in words if isinstance(word, str)]))
    return f"{response.request.url.copy_with(query=None)} answers {response.status_code}" + (f" ({reason})" if reason else "")


def _limit(response: Response) -> None:
    """Make a response raise an error if it exceeds the size limit."""
    from mcp.client.auth import OAuthFlowError

    read = response.aiter_bytes

    async def read_limited(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        remaining = MAX_RESPONSE_BYTES
        async with aclosing(read(chunk_size)) as chunks:
            async for chunk in chunks:
                if (remaining := remaining - len(chunk)) < 0:
                    raise OAuthFlowError(f"{response.request.url.copy_with(query=None)} sent too large a response")
                yield chunk

    response.aiter_bytes = read_limited  # type: ignore[method-assign]


def _without_cause(record: logging.LogRecord) -> bool:
    record.exc_info = record.exc_text = None
    return True
