"""What a browser does with a live card, without one: it hears the widgets of a kernel, and tells them what was clicked."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from real_kernel import PATIENCE, Kernel

from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY

LEFT = "__import__('ipywidgets').widget._instances"


class Browser:
    """A page with a way to the kernel of its own, which is heard while a cell runs, where the kernel can do that at all."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.client = BlockingKernelClient()  # with a session of its own: two of the same name would get each other's replies
        self.client.load_connection_info(kernel.manager.get_connection_info(session=False))
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)
        self.cards: list[str] = []
        """The widgets of cards that were opened, oldest first."""
        self.closed: list[str] = []
        self.said: list[dict[str, Any]] = []
        """What the newest card was told."""
        self.states: list[dict[str, Any]] = []
        """What the newest card was changed to."""
        self.shown: list[dict[str, Any]] = []
        """What displays showed."""
        self.ended: list[str] = []
        """Cells that have ended, by their requests."""
        self.printed = ""
        self._begun: list[str] = []
        self._count = 0
        self._subshell = self._own_subshell() if HEARS_WHILE_BUSY else None

    def _own_subshell(self) -> str:
        asked = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(asked)
        while True:
            answer = self.client.control_channel.get_msg(timeout=PATIENCE)
            if answer["parent_header"].get("msg_id") == asked["header"]["msg_id"]:
                return str(answer["content"]["subshell_id"])

    def close(self) -> None:
        """End what still runs, and go."""
        if set(self._begun) - set(self.ended):
            self.kernel.manager.interrupt_kernel()
        self.client.stop_channels()

    def start(self, code: str) -> str:
        """Run a cell, and do not wait for it; its request."""
        self._begun.append(self.client.execute(code))
        return self._begun[-1]

    def run(self, code: str) -> None:
        """Run a cell and wait until it has ended."""
        request = self.start(code)
        self.until(lambda: request in self.ended)

    def run_beside(self, code: str) -> None:
        """Run code while a cell keeps the kernel busy, and wait until it has ended."""
        asked = {"code": code, "silent": True, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        message = self.client.session.msg("execute_request", asked)
        message["header"]["subshell_id"] = self._subshell
        self.client.shell_channel.send(message)
        self.until(lambda: message["header"]["msg_id"] in self.ended)

    def start_card(self, code: str) -> str:
        """Run a cell, and wait until it shows a card; its request."""
        known = len(self.cards)
        self.said.clear()
        request = self.start(code)
        self.until(lambda: len(self.cards) > known)
        return request

    def send(self, content: Any) -> None:
        """Tell the newest card something."""
        data = {"comm_id": self.cards[-1], "data": {"method": "custom", "content": content}}
        message = self.client.session.msg("comm_msg", data)
        if self._subshell is not None:
            message["header"]["subshell_id"] = self._subshell
        self.client.shell_channel.send(message)

    def greet(self, page: str = "page") -> dict[str, Any]:
        """Say that the card is shown here, until it tells all there is to show."""
        known, latest = len(self.said), time.monotonic() + PATIENCE
        while not any(one.get("whole") or one["kind"] == "ended" for one in self.said[known:]):
            assert time.monotonic() < latest, self.printed
            self.send({"do": "hello", "page": page})  # again: the first may go to the shell that the cell keeps busy
            self.listen(0.2)
        return next(one for one in reversed(self.said) if one.get("whole") or one["kind"] == "ended")

    def ask(self, **message: Any) -> str:
        """Do what a click does, and wait until it is heard; what was wrong, if anything."""
        self._count += 1
        number = f"click {self._count}"
        self.send({**message, "id": number})
        self.until(lambda: any(one.get("id") == number for one in self.said))
        return str(next(one for one in self.said if one.get("id") == number)["error"])

    def until(self, true: Callable[[], bool], patience: float = 20) -> None:
        """Listen until that is so."""
        latest = time.monotonic() + patience
        while not true():
            assert time.monotonic() < latest, (self.said[-3:], self.printed)
            self._listen()

    def listen(self, seconds: float) -> None:
        """Listen that long."""
        latest = time.monotonic() + seconds
        while time.monotonic() < latest:
            self._listen()

    def _listen(self) -> None:
        try:
            self._take(self.client.get_iopub_msg(timeout=0.02))
        except queue.Empty:
            return

    def _take(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_open" and "_esm" in content["data"].get("state", {}):
            self.cards.append(content["comm_id"])
        elif kind == "comm_close" and content["comm_id"] in self.cards:
            self.closed.append(content["comm_id"])
        elif kind == "comm_msg" and self.cards[-1:] == [content["comm_id"]] and content["data"].get("method") == "custom":
            self.said.append(content["data"]["content"])
        elif kind == "comm_msg" and self.cards[-1:] == [content["comm_id"]] and content["data"].get("method") == "update":
            self.states.append(content["data"]["state"])
        elif kind in ("display_data", "update_display_data"):
            self.shown.append(content["data"])
        elif kind == "stream":
            self.printed += content["text"]
        elif kind == "error":
            self.printed += "\n".join(content["traceback"])
        elif kind == "status" and content["execution_state"] == "idle":
            self.ended.append(message["parent_header"].get("msg_id", ""))
