"""The MCP server for tests, forked from one process that has imported it: the import is nearly the whole cost of a server.

agentnb starts this program. The program hands its standard streams, arguments, environment and folder to that process, and ends
when and as the fork ends; the fork ends with it, however it ends. Without a forking process above it, the program becomes the
server itself.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

SERVER = str(Path(__file__).with_name("mcp_test_server.py"))


def address(process: int) -> str:
    """Return the abstract name of the socket at which servers are forked for this process and those below it."""
    return f"\0agentnb-servers-of-{process}"


def connected() -> socket.socket | None:
    """Return a connection to what forks servers for a process above this one."""
    process = os.getppid()
    while process > 1:
        asked = socket.socket(socket.AF_UNIX)
        try:
            asked.connect(address(process))
            return asked
        except OSError:
            asked.close()
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def become(arguments: list[str]) -> None:
    """Be the server with these arguments, to whoever started this process."""
    asked = connected() if sys.platform == "linux" else None
    if asked is None:
        os.execv(sys.executable, [sys.executable, SERVER, *arguments])
    told = json.dumps({"arguments": arguments, "environment": dict(os.environ), "folder": str(Path.cwd())}).encode()
    socket.send_fds(asked, [len(told).to_bytes(4, "big")], [0, 1, 2])
    asked.sendall(told)
    signal.signal(signal.SIGTERM, lambda *_: asked.sendall(b"t"))  # the fork is to end first
    for stream in range(3):
        os.close(stream)  # the fork has them, and they end when it does
    code = int.from_bytes(asked.recv(4), "big", signed=True)
    if code < 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(process: int) -> None:
    """Fork a server for each that asks below this process, until standard input ends."""
    import mcp_test_server  # takes most of a second

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address(process))
        door.listen()
        print("ready", flush=True)
        while door in select.select([door, sys.stdin], [], [])[0]:
            asked, _ = door.accept()
            if not os.fork():
                door.close()
                _watch(asked, mcp_test_server.serve)
            asked.close()


def _watch(asked: socket.socket, work: Any) -> None:
    """Fork the server, which ends when the one that asked has ended, and tell that one how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, *_ = socket.recv_fds(asked, 4, 3)
    told = b""
    while len(told) < int.from_bytes(size, "big"):
        told += asked.recv(1 << 20)
    server = os.fork()
    if not server:
        asked.close()
        _work(work, streams, **json.loads(told))
    for stream in (*streams, 0, 1):
        os.close(stream)
    ended = os.pidfd_open(server)
    while ended not in select.select([asked, ended], [], [])[0]:
        heard = asked.recv(1)
        os.kill(server, signal.SIGTERM if heard else signal.SIGKILL)
        if not heard:
            break
    _, status = os.waitpid(server, 0)
    with suppress(OSError):  # it has ended
        asked.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    os._exit(0)


def _work(work: Any, streams: list[int], arguments: list[str], environment: dict[str, str], folder: str) -> None:
    status = 1
    try:
        os.setsid()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = [SERVER, *arguments]
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    become(sys.argv[1:])
