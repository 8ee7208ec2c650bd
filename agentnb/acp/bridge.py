"""Program that an agent starts to reach the notebook's functions; it connects its standard streams to the door's
socket.

AGENTNB_DOOR=SECRET python bridge.py SOCKET

Does not import agentnb, and does not interpret the data.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

CHUNK = 65_536
SECRET = "AGENTNB_DOOR"
"""Variable that holds the secret for the door."""


def main() -> None:
    """Copy data in both directions until either side closes."""
    door = socket.socket(socket.AF_UNIX)
    door.connect(sys.argv[1])
    door.sendall(os.environ.get(SECRET, "").encode() + b"\n")

    def to_agent() -> None:
        while data := door.recv(CHUNK):
            while data:
                data = data[os.write(1, data) :]
        os._exit(0)

    threading.Thread(target=to_agent, daemon=True).start()
    while data := os.read(0, CHUNK):
        door.sendall(data)


if __name__ == "__main__":
    main()
