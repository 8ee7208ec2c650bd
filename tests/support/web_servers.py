"""Web servers on loopback, and a network of names and public addresses that lead to them."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from httpcore2 import AnyIOBackend
from loopback_thread import Handler, LoopbackThread

from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.web import fetching
from agentnb.tools.builtin.web.web_group import Web
from agentnb.tools.tool import ToolContext, ToolOutcome

PUBLIC = "93.184.216.34"
OTHER_PUBLIC = "93.184.216.35"


@dataclass(frozen=True)
class Reply:
    """What a server answers."""

    body: bytes | str = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        body = self.body.encode() if isinstance(self.body, str) else self.body
        handler.send_response(self.status)
        headers = {"Content-Type": self.content_type, "Content-Length": str(len(body)), **self.headers}
        for name, value in headers.items():
            if value:
                handler.send_header(name, value)
        handler.end_headers()
        with suppress(OSError):  # a client that has read enough
            handler.wfile.write(body)


def redirect(location: str, status: int = 302, **headers: str) -> Reply:
    """A reply that leads elsewhere."""
    return Reply(status=status, headers={"Location": location, **headers})


Answer: TypeAlias = Reply | Callable[[BaseHTTPRequestHandler], None]


class WebServer(LoopbackThread):
    """A server of these pages, by path; it notes what it is asked."""

    def __init__(self, pages: dict[str, Answer], context: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        """Host and path of each request."""
        self.headers: list[dict[str, str]] = []
        outer = self

        class OfPages(Handler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append((self.headers["Host"], self.path))
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                answer = pages.get(self.path, Reply("nothing", status=404))
                (answer.send if isinstance(answer, Reply) else answer)(self)

        super().__init__(OfPages)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that does not trust it
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)


class Disguised:
    """A connection to loopback that looks like one to a public address."""

    def __init__(self, stream: Any, address: str) -> None:
        self._stream, self._address = stream, address

    def get_extra_info(self, name: str) -> Any:
        if name in ("client_addr", "server_addr"):
            return ("192.168.1.7" if name == "client_addr" else self._address, 1)
        return self._stream.get_extra_info(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass
class Network:
    """Names with the addresses of each lookup, the last of which is repeated; public addresses that lead to local ports."""

    names: dict[str, list[list[str]]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)
    is_disguised: bool = True

    async def resolve(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        if host not in self.names:
            raise OSError("unknown")
        lookups = self.names[host]
        return lookups.pop(0) if len(lookups) > 1 else lookups[0]

    async def connect(self, address: str, port: int) -> Any:
        self.connected.append(address)
        stream = await AnyIOBackend().connect_tcp("127.0.0.1", self.ports.get(address, 1))
        return Disguised(stream, address) if self.is_disguised else stream

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetching, "resolve", self.resolve)
        monkeypatch.setattr(fetching, "connect", self.connect)


@contextmanager
def public_server(monkeypatch: pytest.MonkeyPatch, pages: dict[str, Answer]) -> Iterator[tuple[WebServer, Network]]:
    """A server with the name ``page.test`` and a public address."""
    with WebServer(pages) as server:
        network = Network({"page.test": [[PUBLIC]]}, {PUBLIC: server.port})
        network.install(monkeypatch)
        yield server, network


def web_fetch(url: str, **settings: Any) -> ToolOutcome:
    """Call the tool."""
    (tool,) = Web(**settings).tools
    return asyncio.run(tool.run({"url": url}, ToolContext("r-1", "toolu_1", Path(), call_in_thread)))


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for this name, and the file of it that a client trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted, private = folder / f"{name}.pem", folder / f"{name}.key"
    trusted.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, private)
    return context, trusted
