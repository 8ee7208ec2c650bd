"""HTTP at the socket level, as needed for chunks, pauses and broken connections."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from agentnb.testing.received import Received
from agentnb.testing.replies.reply_format import Delivery

Post: TypeAlias = Callable[[str, bytes, dict[str, str]], tuple[Received | None, Delivery]]
Get: TypeAlias = Callable[[str, dict[str, str]], Delivery]

LOOK_EVERY = 0.02
"""Seconds between checks, during a pause, of whether the client is still connected."""
THREAD = "agentnb-loopback"
PATIENCE = 5.0
"""Maximum seconds to wait for a thread when closing."""


class Listener:
    """Listens on a local port, with a thread for each connection."""

    def __init__(self, post: Post, get: Get) -> None:
        self.post = post
        self.get = get
        self.closed = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._serve, name=THREAD, daemon=True)

    @property
    def port(self) -> int:
        """The port."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and break open connections."""
        if self.closed.is_set():
            return
        self.closed.set()
        if self._thread.is_alive():
            # A connection wakes the thread at once; `serve_forever` would have to poll.
            socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()
            self._thread.join()
        self._server.server_close()
        self._server.break_connections()

    def _serve(self) -> None:
        while not self.closed.is_set():
            self._server.handle_request()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._open: dict[threading.Thread, socket.socket] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's: it resolves the machine's name, which may take seconds.
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return not self.listener.closed.is_set()

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self._serve, args=(request, client_address), name=THREAD, daemon=True)
        self._open[thread] = request
        thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self._open.pop(threading.current_thread(), None)

    def break_connections(self) -> None:
        """Wake the threads that are waiting for a client, and wait for them to exit."""
        for thread, connection in list(self._open.items()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error, unless the client has disconnected."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _HungUp(ConnectionError):
    """The client has disconnected, or the server is closing."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        try:
            length = int(self.headers.get("content-length", ""))
        except ValueError:
            self.send_error(411)
            return
        received, delivery = self.server.listener.post(urlsplit(self.path).path, self.rfile.read(length), self._headers())
        try:
            self._deliver(delivery)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            if received is not None:
                received.hung_up = not self.server.listener.closed.is_set()

    def do_GET(self) -> None:
        self._deliver(self.server.listener.get(urlsplit(self.path).path, self._headers()))

    def log_message(self, *_: Any) -> None:
        """Do not log."""

    def version_string(self) -> str:
        return "loopback"

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _deliver(self, delivery: Delivery) -> None:
        if delivery.pause_before == 0 and not delivery.ping:
            self._pause(delivery)
        if delivery.chunks or delivery.ending == "good":
            self._head(delivery)
            for index, chunk in enumerate(delivery.chunks):
                if index == delivery.pause_before and (index or delivery.ping):
                    self._pause(delivery)
                self._write(chunk, delivery.in_pieces)
            if delivery.pause_before is not None and delivery.pause_before >= max(1, len(delivery.chunks)):
                self._pause(delivery)
        while delivery.again:
            self._write(delivery.again, delivery.in_pieces)
        if delivery.ending != "good":
            self._break(torn=delivery.ending == "reset")
        elif delivery.in_pieces:
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, delivery: Delivery) -> None:
        self.send_response(delivery.status)
        self.send_header("content-type", delivery.content_type)
        for name, value in delivery.headers.items():
            self.send_header(name, value)
        if delivery.in_pieces:
            self.send_header("transfer-encoding", "chunked")
        else:
            # One byte more than sent if the body is to be truncated.
            self.send_header("content-length", str(sum(map(len, delivery.chunks)) + (delivery.ending != "good")))
        self.end_headers()

    def _write(self, chunk: bytes, in_pieces: bool) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if in_pieces else chunk)

    def _pause(self, delivery: Delivery) -> None:
        until = time.monotonic() + delivery.seconds
        while time.monotonic() < until:
            if self.server.listener.closed.wait(LOOK_EVERY):
                raise _HungUp
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise _HungUp
            if delivery.ping:
                self._write(delivery.ping, in_pieces=True)

    def _break(self, torn: bool) -> None:
        self.close_connection = True
        if torn:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # Closed here, below the file objects made of it, so that no orderly end is sent first.
            socket.close(self.connection.detach())
