"""Program that connects an agent with sockets of the kernel.

AGENTNB_DOOR=SECRET python bridge.py SOCKET     connects its standard streams, for the notebook's functions
python bridge.py FOLDER COMMAND...              runs a command in a network of its own, connected with the folder's sockets

Does not import agentnb, and does not interpret the data.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

CHUNK = 65_536
SECRET = "AGENTNB_DOOR"
"""Variable that holds the secret for the door."""
PROXY = "proxy"
"""Socket in the folder that is the command's proxy; the others have the numbers of the ports that they replace."""
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
DIRECT = "localhost,127.0.0.1,::1"
"""Hosts that need no proxy: the command's own servers, and the ports that this program listens on."""


def connect_streams(path: str) -> None:
    """Copy data between the standard streams and a socket until either side closes."""
    door = socket.socket(socket.AF_UNIX)
    door.connect(path)
    door.sendall(os.environ.get(SECRET, "").encode() + b"\n")

    def to_agent() -> None:
        while data := door.recv(CHUNK):
            while data:
                data = data[os.write(1, data) :]
        os._exit(0)

    threading.Thread(target=to_agent, daemon=True).start()
    while data := os.read(0, CHUNK):
        door.sendall(data)


def run_connected(folder: Path, command: list[str]) -> None:
    """Become the command, and leave a process behind that connects the ports with the sockets."""
    listeners = {_open_port(int(path.name)): path for path in folder.iterdir() if path.name.isdigit()}
    proxy = _open_port(0)  # last, so that it takes none of their ports
    if middle := os.fork():
        os.waitpid(middle, 0)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        settings = {"NODE_USE_ENV_PROXY": "1", "NO_PROXY": DIRECT, "no_proxy": DIRECT}
        os.execvpe(command[0], command, {**os.environ, **dict.fromkeys(VARIABLES, address), **settings})
    if os.fork():  # so that the process is no child of the command
        os._exit(0)
    for listener, path in listeners.items():
        threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    _accept(proxy, folder / PROXY)


def _open_port(port: int) -> socket.socket:
    """Listen on a port at all addresses. In a network of its own, these are the loopback's."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _accept(listener: socket.socket, path: Path) -> None:
    while True:
        client, _ = listener.accept()
        kernel = socket.socket(socket.AF_UNIX)
        try:
            kernel.connect(str(path))
        except OSError:  # the run has ended
            client.close()
            continue
        for source, target in ((client, kernel), (kernel, client)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            end.shutdown(how)


if __name__ == "__main__":
    if sys.argv[2:]:
        run_connected(Path(sys.argv[1]), sys.argv[2:])
    else:
        connect_streams(sys.argv[1])
