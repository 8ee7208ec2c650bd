"""The scene of an attack by an external agent: its end of the wire, the folder of the person, and the forbidden effects."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from foreign_rows import DIE, END, SILENT, STOP, WAIT, Attack

from agentnb import Agent, RunOptions, Store
from agentnb.acp import acp_session, agent_process
from agentnb.acp import watched_folder as watched
from agentnb.acp.known_agents import KnownAgent, known_agents
from agentnb.core.log.well_formed import check_events
from agentnb.core.run.rounds import CallRecord
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.errors import ModelError
from agentnb.tools.builtin.notebook.executed_cells import NotebookFile

KEY = "not-a-key-of-any-provider-0123"
RULES = {"bash": "deny", "write_file(victim.txt)": "deny", "write_file(.env)": "deny", "read_file(.env)": "deny"}
LINKS = {
    "link": "../outside.txt",
    "away": "..",
    "to_victim": "victim.txt",
    "self": ".",
    "keys": ".env",
    "to_notebook": "open.ipynb",
}
PERSONS = {"victim.txt": "precious\n", "notes.txt": "mine\n", "open.ipynb": "{}\n", ".env": "TOKEN=kept\n"}
SECONDS = 20


class Wire:
    """An agent at its end of a pair of sockets, in the place of its process."""

    guard_id = 0

    def __init__(self, attack: Attack, placed: Callable[[Any], Any], stop: Callable[[], None]) -> None:
        self._attack, self._placed, self._stop = attack, placed, stop
        self.answers: dict[int, str] = {}
        """Answers of the client, by the number of the question."""
        self._asked = 0
        self._lines: deque[dict[str, Any]] = deque()

    async def start(self) -> Wire:
        """Open the pair, and play."""
        ours, theirs = socket.socketpair()
        reader, self.writer = await asyncio.open_connection(sock=ours, limit=agent_process.MAX_LINE_BYTES)
        self.reader = agent_process.WholeLines(reader)
        self._reader, self._writer = await asyncio.open_connection(sock=theirs, limit=2**24)
        self._task = asyncio.ensure_future(self._play())
        return self

    def last_line(self) -> str:
        """Return the last standard error of a process."""
        return f"out of memory near {KEY}"

    async def exit(self) -> None:
        """Let it go on: it takes no notice of the end of its input."""

    async def end(self, until: float) -> None:
        """End it."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        for writer in (self._writer, self.writer):
            writer.transport.abort()  # what was not read is lost, as with a process
            with suppress(OSError):
                await writer.wait_closed()

    async def _play(self) -> None:
        try:
            while message := await self._receive():
                if "method" in message and "id" in message:
                    await self._answer(message)
        except (EOFError, OSError):
            self._writer.close()

    async def _receive(self) -> dict[str, Any]:
        line = await self._reader.readline()
        if not line:
            raise EOFError
        message: dict[str, Any] = json.loads(line)
        if "method" not in message:
            result = message.get("result")
            chosen = "error" if "error" in message else (result or {}).get("outcome", {"optionId": "written"})
            self.answers[message["id"]] = chosen if isinstance(chosen, str) else chosen.get("optionId", chosen.get("outcome"))
        return message

    async def _answer(self, message: dict[str, Any]) -> None:
        method = message["method"]
        usual = {"sessionId": "s", "modes": {"currentModeId": "auto"}} if method == "session/new" else {}
        is_prompt = method == "session/prompt"
        if is_prompt:
            usual = {"stopReason": "end_turn"}
            for step in self._attack.steps:
                if step == END:
                    await self._send({"id": message["id"], "result": usual})
                else:
                    await self._take(step)
        reply = self._attack.replies.get(method, {"result": usual})
        if reply == DIE:
            raise EOFError
        if reply != SILENT:
            sent = reply if {"result", "error"} & set(reply) else {"result": reply}
            await self._send({"id": message["id"], **self._placed(sent)})

    async def _take(self, step: Any) -> None:
        if step == DIE:
            raise EOFError
        if step == STOP:
            self._stop()
        elif step == WAIT:
            while len(self.answers) < self._asked:
                await self._receive()
        elif step == SILENT:
            while True:
                await self._receive()
        elif callable(step):
            for each in step():
                await self._take(each)
        elif isinstance(step, str):
            self._writer.write(step.encode(errors="surrogateescape") + b"\n")
            await self._writer.drain()
        else:
            await self._request(self._placed(step))

    async def _request(self, message: dict[str, Any]) -> None:
        """Send a message; of a question, wait for the answer."""
        waits = not message.pop("later", False)
        if message["method"] == "session/update":
            await self._send(message)
            return
        self._asked += 1
        number = self._asked
        if message["method"] == "session/request_permission" and isinstance(message["params"], dict):
            options = [{"optionId": kind, "name": kind, "kind": kind} for kind in self._attack.offered]
            message["params"]["options"] = message.pop("options", options)
        await self._send({"id": number, **message})
        while waits and number not in self.answers:
            await self._receive()

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self._writer.drain()


class Scene:
    """The folder and the home of a person, made anew for one attack."""

    def __init__(self, attack: Attack, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.attack = attack
        self.home, self.work = folder / "home", folder / "home" / "work"
        self.work.mkdir(parents=True)
        for name, text in PERSONS.items():
            (self.work / name).write_text(text)
        (self.home / ".bashrc").write_text("# mine\n")
        for link, target in LINKS.items():
            (self.work / link).symlink_to(target)
        patch.setenv("HOME", str(self.home))
        patch.setenv("HOSTILE_API_KEY", KEY)
        if SILENT in attack.replies.values():
            patch.setattr(acp_session, "SECONDS_TO_START", 0.2)
        patch.setattr(acp_session, "SECONDS_TO_CANCEL", 0.05)
        patch.setattr(acp_session, "SECONDS_BESIDE", 0.01)
        patch.setattr(agent_process, "MAX_LINE_BYTES", 2**20)
        asks_about = ("read", "write", "execute", "network")
        row = KnownAgent((sys.executable,), asks_in="default", asks_about=asks_about, keys=("HOSTILE_API_KEY",), errors="error")
        patch.setitem(known_agents(), "hostile", row)
        patch.setattr(acp_session.AgentProcess, "start", self._start)
        notebook = NotebookFile(self.work / "open.ipynb", 0.0, ())
        patch.setattr(watched, "open_notebook", lambda: notebook)
        self.before = self._files()

    async def _start(self, *arguments: Any) -> Wire:
        self.wire = await Wire(self.attack, self._placed, lambda: self.live.stop()).start()
        return self.wire

    def _placed(self, value: Any) -> Any:
        text = json.dumps(value).replace("WORK", str(self.work)).replace("HOME", str(self.home)).replace("KEY", KEY)
        return json.loads(text)

    def _files(self) -> dict[str, str]:
        found = {}
        for path in self.home.rglob("*"):
            if path.is_file() and not path.is_symlink() and ".local" not in path.parts:
                found[str(path.relative_to(self.home))] = path.read_text()
        return found

    def run(self) -> Run:
        """Have the agent do its worst."""
        agent = Agent(acp="hostile", work_dir=self.work, tools=[total], permissions=RULES)
        store = Store(self.home.parent / "runs")
        options = RunOptions(store=store, show=False, watch=lambda item: None, approve="auto", answer=lambda question: "deny")
        self.live = agent.start("go", options)
        self.error = ""
        try:
            self.ended: Run = self.live.result(SECONDS)
        except ModelError as error:
            self.ended, self.error = error.run, str(error)  # type: ignore[attr-defined]  # it has the run that it ended
        self.log = store.path(self.ended.id).read_text()
        return self.ended

    def harms(self) -> Iterator[str]:
        """Yield the damage of the attack."""
        run = self.ended
        if run.status != self.attack.status:
            yield f"the run is {run.status}: {run.error}"
        check_events(run.events, "the log")
        records: list[CallRecord] = [record for current in run.rounds for record in current.records]
        if [record.call.id for record in records if record.result is None]:
            yield "a call has no result"
        answers = tuple([self.wire.answers[number] for number in sorted(self.wire.answers)])
        if answers != self.attack.answers:
            yield f"it was answered {answers}"
        new = {name: text for name, text in self._files().items() if self.before.get(name) != text}
        if (
            set(self.before) & set(new)
            or set(self.before) - set(self._files())
            or any(not name.startswith("work/") for name in new)
        ):
            yield f"files were changed: {sorted(new)}"
        page = str(run_html(run))
        for name, text in {"the log": self.log, "the card": page, "the error": f"{run.error} {self.error}"}.items():
            if KEY in text:
                yield f"{name} has the key"
        marks = [mark for mark in ("<script", "<img src=x", 'href="javascript:') if mark in page]
        if marks:
            yield f"{marks} became markup"


def total(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)
