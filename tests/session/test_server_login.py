"""OAuth login to an MCP server: a real server, the official SDK's authorization server, a scripted browser."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import keyring
import pytest
from asserted_sentences import Snapshot
from keyrings import LockedKeyring, MemoryKeyring
from mcp_runs import played, texts
from own_folder import use_own_folder
from protected_servers import ProtectedServer, browse
from pydantic import AnyUrl
from starlette.responses import JSONResponse, RedirectResponse, Response

from agentnb.core.messages import ToolCall
from agentnb.errors import ServerFailed, SettingsError
from agentnb.runtime.questions.model_code import ModelCode
from agentnb.runtime.servers.servers import Servers
from agentnb.session.server_login import SECRET_PROMPT, forget, in_lines, log_in
from agentnb.settings import known_secrets
from agentnb.store.store import Store
from agentnb.tools.mcp.connections.oauth_login import FLOW_LOGGER, MAX_RESPONSE_BYTES
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools

CALL = ToolCall("mcp_docs_echo", {"text": "hi"})


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locked: None) -> Path:
    """The user folder, with a locked keyring."""
    return use_own_folder(monkeypatch, tmp_path / "person")


@pytest.fixture
def docs() -> Iterator[ProtectedServer]:
    with ProtectedServer() as server:
        yield server


@pytest.fixture
def servers() -> Iterator[Servers]:
    held = Servers()
    yield held
    held.close()


def logged_in(
    servers: Servers,
    server: ProtectedServer,
    told: list[str] | None = None,
    visit: Callable[[str], Any] = browse,
    secret: str = "",
    **given: str,
) -> str:
    """Log in with a browser that visits the address this way; return the final message."""
    messages = [] if told is None else told

    def ask(question: str) -> str:
        if question == SECRET_PROMPT:
            return secret
        assert len(messages) < 5, messages
        answer = visit(messages[0].splitlines()[1])
        return answer if isinstance(answer, str) else ""

    live = servers.live(ServerTools("docs", server=MCPServer("docs", server.address)), Path.cwd())
    return log_in(servers, live, lambda *told: messages.append(in_lines(*told)), ask, **given)


def called(servers: Servers, server: ProtectedServer, **options: Any) -> list[str]:
    return texts(played([CALL], [MCPServer("docs", server.address)], servers, **options))


def login_files(person: Path) -> list[Path]:
    return [*(person / "mcp-logins").iterdir()]


def test_browser_login_works_for_runs_and_later_processes(
    docs: ProtectedServer, servers: Servers, person: Path, snapshot: Snapshot
) -> None:
    with pytest.raises(ServerFailed) as refused:
        called(servers, docs)
    assert str(refused.value).replace(docs.origin, "ORIGIN") == snapshot("before")
    told: list[str] = []
    assert logged_in(servers, docs, told) == snapshot("after")
    assert told[0].splitlines()[1].startswith(f"{docs.origin}/authorize?")
    assert called(servers, docs) == ["echo hi"]
    later = Servers()
    assert called(later, docs) == ["echo hi"]
    later.close()
    (file,) = login_files(person)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)


def test_tokens_are_renewed_when_expired_or_refused(docs: ProtectedServer, servers: Servers) -> None:
    docs.authorization.lifetime = 1
    logged_in(servers, docs)
    other = Servers()
    assert called(other, docs) == ["echo hi"]
    docs.authorization.lifetime = 3600
    docs.authorization.forget_access()
    assert called(servers, docs) == ["echo hi"]
    renewals = [path for path, _ in docs.asked].count("/token")
    assert docs.authorization.renewed >= 1
    assert called(other, docs) == ["echo hi"]
    assert [path for path, _ in docs.asked].count("/token") == renewals, "one kernel renews for all"
    other.close()
    (client,) = docs.authorization.clients.values()
    docs.authorization.forget_access()
    renewed = docs.authorization._tokens(client, ["read"], docs.address).model_dump(exclude_none=True)
    docs.instead = {"/token": JSONResponse({**renewed, "id": f"{docs.origin}/id/ann"})}  # as Salesforce answers
    assert called(servers, docs) == ["echo hi"], "what is not of the protocol is not mended"
    docs.instead = {}
    docs.authorization.forget_all()
    (result,) = called(servers, docs)
    assert "it returns 401 Unauthorized" in result and result.endswith("Log in: %agent mcp login docs")
    fresh = Servers()
    with pytest.raises(ServerFailed, match="%agent mcp login docs"):
        called(fresh, docs)
    fresh.close()


def test_moved_server_asks_again_without_the_old_login(docs: ProtectedServer, servers: Servers) -> None:
    logged_in(servers, docs)
    with ProtectedServer() as elsewhere:
        with pytest.raises(ServerFailed, match="%agent mcp login docs"):
            called(servers, elsewhere)
        assert {sent for _, sent in elsewhere.asked} == {""}
        servers.close()
        docs.__exit__()
        with ProtectedServer(docs.port, issuer=elsewhere) as moved:
            later = Servers()
            with pytest.raises(ServerFailed, match="%agent mcp login docs"):
                called(later, moved)
            assert not [path for path, _ in elsewhere.asked if path in ("/token", "/register", "/authorize")]
            logged_in(later, moved)
            assert called(later, moved) == ["echo hi"]
            later.close()


def test_refused_login_explains_why(
    docs: ProtectedServer, servers: Servers, subtests: pytest.Subtests, snapshot: Snapshot
) -> None:
    def by_the_person() -> None:
        docs.authorization.is_refusing = True

    def by_the_token_endpoint() -> None:
        docs.authorization.is_refusing, docs.authorization.complaint = False, "no tokens for"

    for refuse in (by_the_person, by_the_token_endpoint):
        with subtests.test(refuse.__name__):
            refuse()
            with pytest.raises(ServerFailed) as raised:
                logged_in(servers, docs)
            message = str(raised.value).replace(docs.origin, "ORIGIN")
            assert message == snapshot(refuse.__name__)
            assert raised.value.__cause__ is None and raised.value.__suppress_context__
    assert logging.getLogger(FLOW_LOGGER).handlers, "the SDK's errors would be printed"


def test_invalid_responses_end_the_login_without_exposing_secrets(
    docs: ProtectedServer, servers: Servers, subtests: pytest.Subtests, snapshot: Snapshot
) -> None:
    leak = "leaked-0123456789abcdef"
    resource, about, register, token = (
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/register",
        "/token",
    )
    itself = {"authorization_endpoint": f"{docs.origin}/authorize", "token_endpoint": f"{docs.origin}/token"}
    itself |= {"issuer": f"{docs.origin}/", "registration_endpoint": f"{docs.origin}/register"}
    elsewhere = "https://example.org"
    for case, path, answer in (
        ("another resource", resource, {"resource": f"{elsewhere}/mcp", "authorization_servers": [docs.origin]}),
        ("another issuer", about, {**itself, "issuer": elsewhere}),
        ("no end", about, {**itself, "op_policy_uri": docs.origin + "/" * MAX_RESPONSE_BYTES}),
        ("a user name", about, {**itself, "authorization_endpoint": f"https://bank.example@example.org/{'a' * 100}"}),
        ("a fragment", about, {**itself, "authorization_endpoint": f"{elsewhere}/authorize#here"}),
        ("a long address", about, {**itself, "authorization_endpoint": f"{elsewhere}/{'a' * 10_000}"}),
        ("no address", "/mcp", Response(headers={"WWW-Authenticate": 'Bearer resource_metadata="http://example.org:port"'})),
        ("another scheme", "/mcp", Response(headers={"WWW-Authenticate": 'Bearer resource_metadata="file:///etc/passwd"'})),
        ("a loop", token, RedirectResponse(token)),
        ("no client", register, {"client_secret": leak}),
        ("a nested refusal", register, Response("[" * 100_000, 400)),
        ("no token", token, {"refresh_token": leak, "expires_in": "soon"}),
        ("too late a date", token, {"access_token": leak, "expires_in": 10**400}),
        ("a token elsewhere", token, RedirectResponse(f"{elsewhere}/token")),
    ):
        with subtests.test(case):
            docs.instead = {path: answer if isinstance(answer, Response) else JSONResponse(answer)}
            with pytest.raises(ServerFailed) as raised:
                logged_in(servers, docs)
            text = str(raised.value).replace(docs.origin, "ORIGIN")
            assert text == snapshot(case) and leak not in text
    docs.instead = {}
    with pytest.raises(ServerFailed, match="%agent mcp login docs"):
        called(servers, docs)


def test_login_response_with_a_different_state_is_rejected(docs: ProtectedServer, servers: Servers) -> None:
    pages: list[int] = []

    def visit(address: str) -> str:
        pages.append(0)
        back = httpx2.URL(address).params["redirect_uri"]
        if len(pages) == 1:
            pages[0] = httpx2.get(f"{back}?code=theirs-0123456&state=theirs").status_code
        elif len(pages) < 4:
            return [f"{back}?code=theirs-0123456&state=theirs", "http://[::1"][len(pages) - 2]
        else:
            browse(address)
        return ""

    told: list[str] = []
    logged_in(servers, docs, told, visit)
    assert pages[0] == 400
    assert "The browser has not sent an answer" in told[1]
    assert all("not the final address of this login" in one for one in told[2:])
    assert called(servers, docs) == ["echo hi"]


def test_foreign_token_host_is_named(docs: ProtectedServer, servers: Servers) -> None:
    told, other = list[str](), f"http://localhost:{docs.port}/token"
    about = httpx2.get(f"{docs.origin}/.well-known/oauth-authorization-server").json()
    docs.instead = {"/.well-known/oauth-authorization-server": JSONResponse({**about, "token_endpoint": other})}
    logged_in(servers, docs, told)
    assert f"localhost:{docs.port} receives your answer" in told[0]


def test_redirect_address_can_be_pasted(docs: ProtectedServer, servers: Servers) -> None:
    assert logged_in(servers, docs, visit=lambda address: httpx2.get(address).headers["location"] + "\n")
    assert called(servers, docs) == ["echo hi"]


def test_login_secrets_are_stored_only_in_their_file(
    docs: ProtectedServer, servers: Servers, person: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    codes: list[str] = []

    def pasted(address: str) -> str:
        codes.append(httpx2.get(address).headers["location"])
        caplog.clear()  # the browser's own
        return codes[-1]

    docs.authorization.complaint = "not for"
    with pytest.raises(ServerFailed) as raised:
        logged_in(servers, docs, told, pasted)
    docs.authorization.complaint = ""
    told.append(caplog.text)
    told.append(logged_in(servers, docs, visit=pasted))
    secrets = [secret for secret in docs.authorization.given if secret not in told[0]]
    assert len(secrets) >= 5 and not [secret for secret in secrets if secret not in known_secrets()]
    run = played(
        [ToolCall("mcp_docs_echo", {"text": secret}) for secret in secrets],
        [MCPServer("docs", docs.address)],
        servers,
        store=Store(tmp_path / "runs"),
    )
    docs.authorization.forget_all()
    told += [str(raised.value), repr(raised.value.args), *called(servers, docs), caplog.text, str(run.events)]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in login_files(person)]
    assert files
    told += [path.read_bytes().decode(errors="replace") for path in files]
    assert not [text[:300] for text in told[1:] for secret in secrets if secret in text]


def test_header_set_by_the_user_replaces_a_login(docs: ProtectedServer, servers: Servers) -> None:
    logged_in(servers, docs)
    docs.asked.clear()
    with pytest.raises(ServerFailed, match="required header"):
        played([CALL], [MCPServer("docs", docs.address, headers={"authorization": "Bearer of-the-person-01"})], servers)
    assert {sent for _, sent in docs.asked} == {"Bearer of-the-person-01"}


def test_login_in_the_keyring_is_only_referenced_by_the_file(
    docs: ProtectedServer,
    servers: Servers,
    person: Path,
    memory: MemoryKeyring,
) -> None:
    keyring.set_keyring(memory)
    logged_in(servers, docs)
    (file,) = login_files(person)
    assert json.loads(file.read_bytes()) == {"address": docs.address}
    assert docs.authorization.given[-1] in "".join(memory.held.values())
    later = Servers()
    assert called(later, docs) == ["echo hi"]
    keyring.set_keyring(LockedKeyring())
    fresh = Servers()
    with pytest.raises(ServerFailed, match="%agent mcp login docs"):
        called(fresh, docs)
    later.close()
    fresh.close()


def test_unstorable_login_lasts_for_the_process(
    docs: ProtectedServer, servers: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    use_own_folder(monkeypatch, tmp_path / "file")
    assert logged_in(servers, docs).endswith("only in this process")
    assert called(servers, docs) == ["echo hi"]


def test_forgotten_login_is_deleted_everywhere(
    docs: ProtectedServer,
    servers: Servers,
    person: Path,
    memory: MemoryKeyring,
) -> None:
    live = servers.live(ServerTools("docs", server=MCPServer("docs", docs.address)), Path.cwd())
    for backend in (LockedKeyring(), memory):
        keyring.set_keyring(backend)
        logged_in(servers, docs)
        assert forget(servers, live) == "The login at docs was deleted"
        assert (login_files(person), memory.held) == ([], {})
        with pytest.raises(ServerFailed, match="%agent mcp login docs"):
            called(servers, docs)
    assert forget(servers, live) == "No login is stored for docs"


def test_missing_scopes_of_a_call_are_named_and_requested(servers: Servers) -> None:
    with ProtectedServer(tool_right="write") as docs:
        logged_in(servers, docs)
        (result,) = called(servers, docs)
        assert "it returns 403 Forbidden" in result and result.endswith("%agent mcp login docs write")
        told: list[str] = []
        logged_in(servers, docs, told, scope="write")
        assert "scope=read+write" in told[0]
        assert called(servers, docs) == ["echo hi"]
        logged_in(servers, docs)
        assert called(servers, docs, answer=lambda question: browse(question.url) and "done") == ["echo hi"]


def test_refused_call_asks_the_user_to_log_in(docs: ProtectedServer, servers: Servers, subtests: pytest.Subtests) -> None:
    asked: list[Any] = []

    def after(act: Callable[[str], Any], answer: str | None = "done") -> list[str]:
        def answered(question: Any) -> Any:
            asked.append(question)
            act(question.url)
            return answer

        asked.clear()
        docs.authorization.forget_all()
        both = [ToolCall("mcp_docs_echo", {"text": text}) for text in ("hi", "ho")]
        return sorted(texts(played([both], [MCPServer("docs", docs.address)], servers, answer=answered)))

    logged_in(servers, docs)
    assert after(browse) == ["echo hi", "echo ho"]
    (question,) = asked
    assert question.asked_by == "MCP server docs" and docs.address in question.message
    for case, act, answer in (("not done", lambda _: None, "done"), ("declined", lambda _: None, None)):
        with subtests.test(case):
            assert [text.endswith("Log in: %agent mcp login docs") for text in after(act, answer)] == [True, True]
    with subtests.test("another failure"):
        docs.instead = {"/mcp": Response(status_code=500)}
        assert after(browse) and not asked, "the call may have been made"
        docs.instead = {}
    assert called(servers, docs, answer=lambda question: browse(question.url) and "done") == ["echo hi"]
    registered = len(docs.authorization.clients)
    docs.authorization.forget_all()
    assert called(servers, docs)[0].endswith("Log in: %agent mcp login docs")
    assert len(docs.authorization.clients) == registered, "nobody is there"


def test_registered_client_is_not_registered_again(docs: ProtectedServer, servers: Servers) -> None:
    logged_in(servers, docs)
    (client,) = docs.authorization.clients.values()
    assert client.client_secret
    client.token_endpoint_auth_method = "client_secret_basic"

    def visit(address: str) -> None:
        client.redirect_uris = [AnyUrl(httpx2.URL(address).params["redirect_uri"])]
        browse(address)

    docs.instead = {"/register": Response(status_code=403)}
    with pytest.raises(ServerFailed, match="--client=ID"):
        logged_in(servers, docs)
    logged_in(servers, docs, visit=visit, client=client.client_id, secret=client.client_secret)
    assert called(servers, docs) == ["echo hi"]
    docs.authorization.forget_access()
    assert called(servers, docs) == ["echo hi"]
    docs.authorization.forget_all()
    logged_in(servers, docs, visit=visit)
    assert called(servers, docs) == ["echo hi"]
    servers.close()
    docs.__exit__()
    with ProtectedServer() as elsewhere, ProtectedServer(docs.port, issuer=elsewhere) as moved:
        elsewhere.instead = docs.instead
        later = Servers()
        with pytest.raises(ServerFailed, match="--client=ID"):
            logged_in(later, moved)
        later.close()


def test_login_needs_a_user_and_a_server_that_supports_it(
    servers: Servers, subtests: pytest.Subtests, snapshot: Snapshot
) -> None:
    remote, program = MCPServer("docs", "http://127.0.0.1:9/mcp"), MCPServer("docs", "docs-server")
    header = MCPServer("docs", "http://127.0.0.1:9/mcp", headers={"authorization": "Bearer ${TOKEN_OF_DOCS}"})
    for case, server, ask in (
        ("nobody there", remote, None),
        ("a program", program, str),
        ("nothing listens", remote, str),
        ("a header", header, str),
    ):
        with subtests.test(case), pytest.MonkeyPatch.context() as patch:
            patch.setenv("TOKEN_OF_DOCS", "of-the-person-0123")
            live = servers.live(ServerTools("docs", server=server), Path.cwd())
            with pytest.raises((SettingsError, ServerFailed)) as raised:
                log_in(servers, live, print, ask)
            assert str(raised.value) == snapshot(case)
    for act in (lambda: log_in(servers, live, print, str), lambda: forget(servers, live)):
        with ModelCode(None).running(), pytest.raises(SettingsError, match="reserved for the person"):
            act()
