"""A web server at loopback in a thread of its own, while a block runs."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a server, and logs none."""

    def sent(self) -> Any:
        """Return the JSON of the request."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send the whole answer; ``_`` in names of headers means ``-``."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a client that closes early, as one does that reads up to a limit."""


class LoopbackThread:
    """Serves with this handler, at a free port, from the beginning of a block to its end."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
