"""MCP servers that want a login, with the authorization server of the official SDK, and a browser that follows its script."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from typing import Any, Self

import httpx2
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer as SDKServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl
from starlette.responses import Response

RIGHTS = ["read", "write"]


class Authorization:
    """An authorization server that lets everybody in, and notes the secrets that it has given out."""

    def __init__(self) -> None:
        self.given: list[str] = []
        """Every secret that it gave: codes, tokens, secrets of clients."""
        self.renewed = 0
        self.is_refusing = False
        self.complaint = ""
        """Why it gives no tokens, before the code that was to be exchanged."""
        self.lifetime: int | None = 3600
        """Seconds that it says an access token lasts."""
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    def forget_access(self) -> None:
        """Have no access token count any more, as if they had expired."""
        self.access.clear()

    def forget_all(self) -> None:
        """Have no token count any more."""
        self.access.clear()
        self.refresh.clear()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info
        self.given += [client_info.client_secret] if client_info.client_secret else []

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.is_refusing:
            raise AuthorizeError("access_denied", "The person said no")
        code = self._secret("code")
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or RIGHTS[:1],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            **params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly", "resource"}),
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: OAuthClientInformationFull, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: OAuthClientInformationFull, code: AuthorizationCode) -> OAuthToken:
        if self.complaint:
            raise TokenError("invalid_grant", f"{self.complaint} {code.code}")
        del self.codes[code.code]
        return self._tokens(client, code.scopes, code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.renewed += 1
        return self._tokens(client, scopes or refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        raise NotImplementedError

    def _tokens(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = self._secret("access"), self._secret("refresh")
        self.access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes, resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.lifetime, scope=" ".join(scopes))

    def _secret(self, kind: str) -> str:
        self.given.append(f"{kind}-{secrets.token_hex(16)}")
        return self.given[-1]


class ProtectedServer:
    """An MCP server with one tool at a port of loopback, for those who are logged in at its authorization server."""

    def __init__(self, port: int = 0, issuer: ProtectedServer | None = None, tool_right: str = "") -> None:
        """``issuer``: the server whose authorization server counts, by default its own; ``tool_right``: what the tool needs."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen()  # whoever comes before the server serves waits
        self.port: int = self._socket.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.address = f"{self.origin}/mcp"
        self.asked: list[tuple[str, str]] = []
        """The path of each request, and its header Authorization."""
        self.instead: dict[str, Response] = {}
        """Answers by path, in place of the server's own."""
        self.authorization = Authorization() if issuer is None else issuer.authorization
        self._tool_right = tool_right
        self._has_started = threading.Event()
        auth = AuthSettings(
            issuer_url=AnyHttpUrl(self.origin if issuer is None else issuer.origin),
            resource_server_url=AnyHttpUrl(self.address),
            required_scopes=RIGHTS[:1],
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=RIGHTS, default_scopes=RIGHTS),
            validate_token_resource=True,
        )
        who: dict[str, Any] = (
            {"auth_server_provider": self.authorization} if issuer is None else {"token_verifier": self.authorization}
        )
        server = SDKServer("docs", auth=auth, **who)
        hints = ToolAnnotations(read_only_hint=True)
        server.add_tool(lambda text: f"echo {text}", name="echo", description="Repeat", annotations=hints)
        self._app = server.streamable_http_app()
        how: dict[str, Any] = {"log_level": "critical", "timeout_graceful_shutdown": 1}  # else Python 3.12 waits for the client
        self._server = uvicorn.Server(uvicorn.Config(self._noted, interface="asgi3", lifespan="on", **how))
        self._thread = threading.Thread(target=self._serve)

    async def _noted(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, self._on_lifespan(send))
        sent = dict(scope["headers"]).get(b"authorization", b"").decode()
        self.asked.append((scope["path"], sent))
        if scope["path"] in self.instead:
            return await self.instead[scope["path"]](scope, receive, send)
        if not (self._tool_right and scope["path"] == "/mcp" and scope["method"] == "POST"):
            return await self._app(scope, receive, send)
        message = await receive()
        token = self.authorization.access.get(sent.rpartition(" ")[2])
        if token is None or self._tool_right in token.scopes or b'"tools/call"' not in message["body"]:
            first = [message]

            async def again() -> Any:
                return first.pop() if first else await receive()

            return await self._app(scope, again, send)
        wanted = f'Bearer error="insufficient_scope", scope="{self._tool_right}"'
        return await Response(status_code=403, headers={"WWW-Authenticate": wanted})(scope, receive, send)

    def _on_lifespan(self, send: Any) -> Any:
        async def noted(message: Any) -> None:
            await send(message)
            self._has_started.set()

        return noted

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._has_started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._socket.close()


def browse(address: str) -> httpx2.Response:
    """Open an address in a browser, which goes where it is led."""
    return httpx2.get(address, follow_redirects=True)
