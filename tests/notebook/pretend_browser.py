"""A simulated browser for live cards: it receives widgets from a kernel and sends clicks."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from real_kernel import PATIENCE, Kernel, until_ready

from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY

LEFT = "__import__('ipywidgets').widget._instances"


class Browser:
    """A page with its own channel to the kernel, heard during a cell where the kernel supports that."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.client = BlockingKernelClient()  # with its own session: two with the same name would get each other's replies
        self.client.load_connection_info(kernel.manager.get_connection_info(session=False))
        self.client.start_channels()
        until_ready(self.client)
        self.cards: list[str] = []
        """Widgets of opened cards, oldest first."""
        self.closed: list[str] = []
        self.said: list[dict[str, Any]] = []
        """Messages to the newest card."""
        self.states: list[dict[str, Any]] = []
        """State changes of the newest card."""
        self.shown: list[dict[str, Any]] = []
        """Displayed bundles."""
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
        """Stop live runs and disconnect."""
        if set(self._begun) - set(self.ended):
            self.kernel.manager.interrupt_kernel()
        self.client.stop_channels()

    def start(self, code: str) -> str:
        """Start a cell without waiting and return its request."""
        self._begun.append(self.client.execute(code))
        return self._begun[-1]

    def run(self, code: str) -> None:
        """Run a cell and wait for its end."""
        request = self.start(code)
        self.until(lambda: request in self.ended)

    def run_beside(self, code: str) -> None:
        """Run code beside a busy cell and wait for its end."""
        asked = {"code": code, "silent": True, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        message = self.client.session.msg("execute_request", asked)
        message["header"]["subshell_id"] = self._subshell
        self.client.shell_channel.send(message)
        self.until(lambda: message["header"]["msg_id"] in self.ended)

    def start_card(self, code: str) -> str:
        """Run a cell, wait until it shows a card, and return its request."""
        count = len(self.cards)
        self.said.clear()
        request = self.start(code)
        self.until(lambda: len(self.cards) > count)
        return request

    def send(self, content: Any) -> None:
        """Send a message to the newest card."""
        data = {"comm_id": self.cards[-1], "data": {"method": "custom", "content": content}}
        message = self.client.session.msg("comm_msg", data)
        if self._subshell is not None:
            message["header"]["subshell_id"] = self._subshell
        self.client.shell_channel.send(message)

    def greet(self, page: str = "page") -> dict[str, Any]:
        """Report the card as shown and wait for its whole content."""
        known = len(self.said)
        self.insist(
            {"do": "hello", "page": page},
            lambda: any(message.get("whole") or message["kind"] == "ended" for message in self.said[known:]),
        )
        return next(message for message in reversed(self.said) if message.get("whole") or message["kind"] == "ended")

    def insist(self, content: Any, heard: Callable[[], bool]) -> None:
        """Repeat a message to the newest card until it is heard, as the page does: the first may go to the busy shell."""
        latest = time.monotonic() + PATIENCE
        while not heard():
            assert time.monotonic() < latest, self.printed
            self.send(content)
            self.listen(0.2, heard)

    def ask(self, **message: Any) -> str:
        """Send a click, wait for the acknowledgement, and return its error, if any."""
        self._count += 1
        number = f"click {self._count}"
        self.send({**message, "id": number})
        self.until(lambda: any(one.get("id") == number for one in self.said))
        return str(next(message for message in self.said if message.get("id") == number)["error"])

    def until(self, true: Callable[[], bool], patience: float = 20) -> None:
        """Listen until the condition holds."""
        latest = time.monotonic() + patience
        while not true():
            assert time.monotonic() < latest, (self.said[-3:], self.printed)
            self._listen()

    def listen(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Listen for this many seconds, or until it is enough."""
        latest = time.monotonic() + seconds
        while time.monotonic() < latest and not enough():
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
