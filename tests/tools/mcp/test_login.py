"""Requests with a login at an MCP server, and the stored login."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from mcp.client.auth import OAuthFlowError
from own_folder import use_own_folder

from agentnb.settings import known_secrets
from agentnb.tools.mcp.connections.oauth_login import MAX_RESPONSE_BYTES, LoggedIn, Login
from agentnb.tools.mcp.connections.refusal import refusal_of
from agentnb.tools.mcp.connections.stored_logins import FOLDER, StoredLogin, load_login, store_login
from agentnb.tools.mcp.mcp_server import MCPServer

ADDRESS = "https://docs.example.org/mcp"
KEPT = StoredLogin(ADDRESS, {"access_token": "first-0123456789", "refresh_token": "again-0123456789"}, {"client_id": "c"})


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locked: None) -> Path:
    """The folder of a person whose keyring is locked."""
    return use_own_folder(monkeypatch, tmp_path / "person")


def request() -> httpx2.Request:
    return httpx2.Request("POST", ADDRESS)


async def exchanged(auth: Any, answer: Any) -> list[httpx2.Request]:
    """Return the requests of one request that is answered so."""
    flow, sent = auth.async_auth_flow(request()), []
    try:
        one = await anext(flow)
        while True:
            sent.append(httpx2.Request(one.method, one.url, headers=one.headers, content=one.content))
            one = await flow.asend(answer(one))
    except StopAsyncIteration:
        return sent


def test_concurrent_requests_do_not_wait_for_each_other() -> None:
    async def both() -> list[str]:
        auth = LoggedIn(KEPT).auth
        flows = [auth.async_auth_flow(request()) for _ in range(2)]
        return [(await asyncio.wait_for(anext(flow), 30)).headers["authorization"] for flow in flows]

    assert asyncio.run(both()) == ["Bearer first-0123456789"] * 2


def test_server_that_rejects_every_token_is_called_only_twice() -> None:
    renewals = iter(range(100))

    def answer(sent: httpx2.Request) -> httpx2.Response:
        if sent.url.path == "/mcp":
            return httpx2.Response(401, request=sent)
        given = {"access_token": f"renewed-{next(renewals):012}", "refresh_token": "next-0123456789"}
        return httpx2.Response(200, json=given, request=sent)

    sent = asyncio.run(exchanged(LoggedIn(KEPT).auth, answer))
    assert [one.url.path for one in sent] == ["/mcp", "/token", "/mcp"]
    assert sent[-1].headers["authorization"] == "Bearer renewed-000000000000"
    assert {"renewed-000000000000", "next-0123456789"} <= {*known_secrets()}
    kept = load_login(ADDRESS)
    assert kept is not None and kept.tokens["refresh_token"] == "next-0123456789"


def test_login_is_kept_when_its_renewal_is_refused() -> None:
    store_login(KEPT)
    for status in (400, 503):
        sent = asyncio.run(
            exchanged(
                LoggedIn(KEPT).auth,
                lambda one, status=status: httpx2.Response(401 if one.url.path == "/mcp" else status, request=one),
            )
        )
        assert [one.url.path for one in sent] == ["/mcp", "/token", "/mcp"]
        assert load_login(ADDRESS) == KEPT


def test_expired_token_is_renewed_before_it_is_sent() -> None:
    def answer(sent: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"access_token": "renewed-0123456789"}, request=sent)

    metadata = {
        "issuer": "https://login.example.org",
        "authorization_endpoint": "https://login.example.org/authorize",
        "token_endpoint": "https://login.example.org/oauth/token",
        "response_types_supported": ["code"],
    }
    kept = msgspec.structs.replace(KEPT, expires=1.0, metadata=metadata)
    sent = asyncio.run(exchanged(LoggedIn(kept).auth, answer))
    assert [str(one.url) for one in sent] == [metadata["token_endpoint"], ADDRESS]
    assert sent[-1].headers["authorization"] == "Bearer renewed-0123456789"


def test_expired_token_is_sent_if_it_cannot_be_renewed() -> None:
    kept = msgspec.structs.replace(KEPT, tokens={"access_token": "first-0123456789"}, expires=1.0)
    (sent,) = asyncio.run(exchanged(LoggedIn(kept).auth, lambda one: httpx2.Response(200, request=one)))
    assert sent.headers["authorization"] == "Bearer first-0123456789"


def test_unreadable_renewal_does_not_fail_the_run(subtests: pytest.Subtests) -> None:
    for case, content in {
        "nested": b"[" * 100_000,
        "late": b'{"access_token":"t","expires_in":1' + b"0" * 400 + b"}",
        "no end": b"{" + b" " * MAX_RESPONSE_BYTES,
    }.items():
        with subtests.test(case):

            def answer(sent: httpx2.Request, content: bytes = content) -> httpx2.Response:
                if sent.url.path == "/mcp":
                    return httpx2.Response(401, request=sent)
                return httpx2.Response(200, stream=httpx2.ByteStream(content), request=sent)

            sent = asyncio.run(exchanged(LoggedIn(KEPT).auth, answer))
            assert [one.url.path for one in sent] == ["/mcp", "/token", "/mcp"]


def test_login_renewed_by_another_kernel_is_used() -> None:
    store_login(KEPT)
    newer = msgspec.structs.replace(KEPT, tokens={"access_token": "newer-0123456789"})

    def answer(sent: httpx2.Request) -> httpx2.Response:
        if sent.url.path == "/token":
            store_login(newer)
            return httpx2.Response(400, request=sent)
        return httpx2.Response(200 if "newer" in sent.headers["authorization"] else 401, request=sent)

    sent = asyncio.run(exchanged(LoggedIn(KEPT).auth, answer))
    assert [one.url.path for one in sent] == ["/mcp", "/token", "/mcp"]
    (later,) = asyncio.run(exchanged(LoggedIn(newer).auth, answer))
    assert later.headers["authorization"] == "Bearer newer-0123456789"


def test_login_file_changed_by_another_program_is_ignored(person: Path, subtests: pytest.Subtests) -> None:
    store_login(KEPT)
    (file,) = (person / FOLDER).iterdir()
    whole = file.read_bytes()
    for case, data in {
        "half": whole[: len(whole) // 2],
        "of another address": whole.replace(b"docs.example", b"evil.example"),
        "nested": b'{"address":' + b"[" * 100_000,
        "no text": b"\xff\xfe",
        "in a keyring that has it not": b'{"address":"' + ADDRESS.encode() + b'"}',
    }.items():
        with subtests.test(case):
            file.write_bytes(data)
            assert load_login(ADDRESS) is None
    file.write_bytes(whole.replace(b'"access_token":"first-0123456789"', b'"access_token":7'))
    kept = load_login(ADDRESS)
    assert kept is not None
    (sent,) = asyncio.run(exchanged(LoggedIn(kept).auth, lambda one: httpx2.Response(200, request=one)))
    assert "authorization" not in sent.headers


def test_https_login_never_uses_plain_http() -> None:
    login = Login(MCPServer("docs", ADDRESS))
    login._socket.close()
    asyncio.run(login._check(httpx2.Request("GET", "https://login.example.org/token")))
    for step in (
        login._check(httpx2.Request("GET", "http://169.254.169.254/latest")),
        login._show("http://login.example.org/authorize?state=s"),
    ):
        with pytest.raises(OAuthFlowError, match="which is not encrypted"):
            asyncio.run(step)


def test_login_address_keeps_its_own_query_parameters() -> None:
    login = Login(MCPServer("docs", ADDRESS))
    login._socket.close()
    endpoint, query = "https://login.example.org/authorize?tenant=7", "state=s&resource=https%3A%2F%2Fexample.org%2Fmcp%3Fa"
    asyncio.run(login._show(f"{endpoint}?{query}"))
    assert login.address.result().opened == f"{endpoint}&{query}"
    assert login.take("http://127.0.0.1:1/callback?code=c&state=s")


def test_server_scopes_cannot_inject_another_command(subtests: pytest.Subtests) -> None:
    for scope, named in {
        "files:read files:write": "files:read files:write",
        "https://www.example.org/auth/drive.readonly": "https://www.example.org/auth/drive.readonly",
        "read; rm -rf ~": "",
        "--forget": "",
        "read --forget": "",
        "$(reboot)": "",
        "a\u202eb": "",
        "x" * 200: "",
    }.items():
        with subtests.test(scope):
            challenge = f'Basic realm="docs", Bearer error="insufficient_scope", scope="{scope}"'
            response = httpx2.Response(403, headers={"WWW-Authenticate": challenge.encode()}, request=request())
            refusal = refusal_of(response, MCPServer("docs", ADDRESS))
            assert refusal is not None and refusal.takes_login and refusal.scope == named
