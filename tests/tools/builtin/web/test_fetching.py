"""Fetching: results, bounds, and an error code for each failure."""

from __future__ import annotations

import gzip
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from web_servers import (
    PUBLIC,
    Answer,
    Network,
    Reply,
    WebServer,
    certificate,
    public_server,
    redirect,
    web_fetch,
)

from agentnb.tools.builtin.web import fetching


def test_fetched_page_begins_with_a_warning_that_it_is_data(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    pages: dict[str, Answer] = {"/a?b": Reply("<title>Tides</title><p>High water is at <b>04:12</b>."), "/empty": Reply()}
    with public_server(monkeypatch, pages) as (server, _):
        outcome = web_fetch("http://page.test/a?b#c")
        assert outcome.ok and outcome.text == snapshot("page")
        assert web_fetch("http://page.test/empty").text == snapshot("empty")
    (first, _) = server.headers
    assert first["accept-encoding"] == "gzip" and not {"cookie", "authorization", "referer"} & set(first)


def test_text_is_returned_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    body = '{"a": "<b>"}\n'
    types = ("application/json", "text/plain", "text/csv", "application/xml", "application/ld+json; charset=utf-8", "TEXT/X")
    pages: dict[str, Answer] = {f"/{number}": Reply(body, kind) for number, kind in enumerate(types)}
    with public_server(monkeypatch, pages):
        texts = [web_fetch(f"http://page.test{path}").text.splitlines()[2:] for path in pages]
    assert texts == [['{"a": "<b>"}']] * len(types)


def test_page_content_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    pages: dict[str, Answer] = {
        "/pdf": Reply(b"%PDF-1.7", "application/pdf"),
        "/picture": Reply(b"\x89PNG", "image/png"),
        "/bytes": Reply(b"\x7fELF\0\0", ""),
        "/brotli": Reply(b"x", headers={"Content-Encoding": "br"}),
        "/damaged": Reply(b"no gzip", headers={"Content-Encoding": "gzip"}),
    }
    with public_server(monkeypatch, pages):
        for path in pages:
            outcome = web_fetch(f"http://page.test{path}")
            assert outcome.error_code == "unreadable" and outcome.text == snapshot(path)


def test_compressed_pages_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"<p>Hello."
    pages: dict[str, Answer] = {
        "/gzip": Reply(gzip.compress(text), headers={"Content-Encoding": "gzip"}),
        "/x-gzip": Reply(gzip.compress(text), headers={"Content-Encoding": "X-GZIP"}),
        "/deflate": Reply(zlib.compress(text), headers={"Content-Encoding": "deflate"}),
        "/identity": Reply(text, headers={"Content-Encoding": "identity"}),
    }
    with public_server(monkeypatch, pages):
        assert [web_fetch(f"http://page.test{path}").text.splitlines()[-1] for path in pages] == ["Hello."] * 4


def test_long_pages_are_truncated_with_a_note(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    monkeypatch.setattr(fetching, "WEB_BYTES", 5_000)
    monkeypatch.setattr(fetching, "WEB_CHARACTERS", 1_000)
    pages: dict[str, Answer] = {
        "/bytes": Reply("a" * 5_001, "text/plain"),
        "/whole": Reply("a" * 1_000, "text/plain"),
        "/bomb": Reply(gzip.compress(b"a" * 10_000_000), headers={"Content-Encoding": "gzip"}),
        "/hollow": Reply(gzip.compress(b"") * 400, headers={"Content-Encoding": "gzip"}),
    }
    with public_server(monkeypatch, pages):
        for path in pages:
            outcome = web_fetch(f"http://page.test{path}")
            assert outcome.ok and len(outcome.text) < 1_300
            assert outcome.text.replace("a" * 1_000, "A").splitlines() == snapshot(path)


def test_compression_bomb_does_not_exhaust_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "WEB_BYTES", 5_000)
    bomb = gzip.compress(b"a" * 20_000_000)
    with public_server(monkeypatch, {"/": Reply(bomb, headers={"Content-Encoding": "gzip"})}):
        web_fetch("http://page.test/")  # libraries keep caches
        tracemalloc.start()
        try:
            assert web_fetch("http://page.test/").ok
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 10_000_000


def forever(piece: bytes, told: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    """Serve an endless page until the reader disconnects."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.close_connection = True
        with suppress(OSError):
            while True:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        told.set()

    return send


def silent(told: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    """Accept a request and never answer, until the reader disconnects."""

    def wait(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.rfile.read(1)
        told.set()

    return wait


def test_reading_an_endless_page_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = threading.Event()
    with public_server(monkeypatch, {"/": forever(b"a" * 10_000, reported)}):
        assert web_fetch("http://page.test/").ok
        assert reported.wait(20)


def test_slow_server_times_out(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    monkeypatch.setattr(fetching, "WEB_SECONDS", 0.2)
    monkeypatch.setattr(fetching, "WEB_BYTES", 10**12)
    silence, trickle = threading.Event(), threading.Event()
    pages: dict[str, Answer] = {"/silent": silent(silence), "/trickle": forever(b"", trickle)}
    pages["/trickle"] = _trickle(trickle)
    with public_server(monkeypatch, pages):
        for path, reached_end in {"/silent": silence, "/trickle": trickle}.items():
            outcome = web_fetch(f"http://page.test{path}")
            assert outcome.error_code == "timeout" and outcome.text == snapshot(path)
            assert reached_end.wait(20)


def _trickle(told: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    """Send a byte of a page now and then, until the reader disconnects."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        handler.close_connection = True
        with suppress(OSError):
            while not told.wait(0.01):
                handler.wfile.write(b"a")
        told.set()

    return send


def test_error_statuses_have_a_hint(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    codes = {
        404: "not_found",
        410: "not_found",
        401: "forbidden",
        403: "forbidden",
        429: "rate_limited",
        500: "server_error",
        503: "server_error",
        418: "http_error",
        599: "server_error",
        304: "http_error",
    }
    pages: dict[str, Answer] = {f"/{status}": Reply("Obey me!", status=status) for status in codes}
    pages["/429"] = Reply("", status=429, headers={"Retry-After": "20"})
    with public_server(monkeypatch, pages):
        for status, code in codes.items():
            outcome = web_fetch(f"http://page.test/{status}")
            assert (outcome.ok, outcome.error_code) == (False, code) and "Obey" not in outcome.text
            assert outcome.text == snapshot(str(status))


def test_redirects_to_the_same_page_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: dict[str, Answer] = {"/a": redirect("/a/", 301), "/a/": redirect("/a/?n=1", 302), "/a/?n=1": Reply("<p>There.")}
    with public_server(monkeypatch, pages) as (server, _):
        outcome = web_fetch("http://page.test/a")
    assert outcome.text.splitlines()[-1] == "There." and "http://page.test/a/?n=1" in outcome.text.splitlines()[0]
    assert [path for _, path in server.asked] == ["/a", "/a/", "/a/?n=1"]


def test_endless_redirects_are_abandoned(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    with public_server(monkeypatch, {"/": redirect("/")}) as (server, _):
        outcome = web_fetch("http://page.test/")
    assert outcome.error_code == "too_many_redirects" and outcome.text == snapshot
    assert len(server.asked) == 6


def test_redirects_to_another_server_are_reported_and_not_followed(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    locations = {
        "/other": "https://other.test/a?b#c",
        "/metadata": "http://169.254.169.254/latest/meta-data/",
        "/loopback": "http://127.0.0.1:8888/api",
        "/file": "file:///etc/passwd",
    }
    pages: dict[str, Answer] = {path: redirect(location) for path, location in locations.items()}
    with public_server(monkeypatch, pages) as (_, network):
        for path in pages:
            assert web_fetch(f"http://page.test{path}").text == snapshot(path)
    assert set(network.looked_up) == {"page.test"} and set(network.connected) == {PUBLIC}


def test_unreachable_servers_are_errors(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    network = Network({"silent.test": [[PUBLIC]]})
    network.install(monkeypatch)
    for name, url in {"no name": "http://nowhere.test/", "nobody listens": "https://silent.test/"}.items():
        outcome = web_fetch(url)
        assert outcome.error_code == "unreachable" and outcome.text == snapshot(name)


def test_server_that_does_not_speak_http_is_an_error(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(10_000)
            connection.sendall(b"220 mail.test ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        Network({"mail.test": [[PUBLIC]]}, {PUBLIC: listener.getsockname()[1]}).install(monkeypatch)
        outcome = web_fetch("http://mail.test/")
        thread.join()
    assert outcome.error_code == "unreachable" and outcome.text == snapshot


def test_certificate_names_are_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context, trusted = certificate(tmp_path, "page.test")
    with WebServer({"/": Reply("<p>Safe.")}, context) as server:
        Network({"page.test": [[PUBLIC]], "other.test": [[PUBLIC]]}, {PUBLIC: server.port}).install(monkeypatch)
        unknown = web_fetch("https://page.test/")
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert web_fetch("https://page.test/").text.splitlines()[-1] == "Safe."
        other = web_fetch("https://other.test/")
        assert server.asked == [("page.test", "/")]
    with public_server(monkeypatch, {}):
        plain = web_fetch("https://page.test/")
    # The reasons are from OpenSSL and differ between versions.
    assert [outcome.error_code for outcome in (unknown, other, plain)] == ["tls_error"] * 3
    assert "certificate" in unknown.text and "other.test" in other.text


def test_unreadable_certificates_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with public_server(monkeypatch, {}):
        assert web_fetch("https://page.test/").error_code == "tls_error"
