"""Fake agent: speaks the protocol over standard input and output, and runs the command named by a prompt.

    python fake_agent.py [MISBEHAVIOUR]

A message out of order ends it with an error on standard error, and exit code 3.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Hundreds of processes of this program start in the tests: what few prompts need is imported there, and `typing` nowhere.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "ever", "name": "Yes, always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def connect(place: str) -> str:
    """Connect with an address by itself, without a proxy."""
    import socket

    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), 2):
        return "connected"


def tunnel(place: str) -> str:
    """Ask the proxy for a connection, as for https, and return the first line of the answer of the proxy and of the host."""
    import socket
    from urllib.parse import urlsplit

    with socket.create_connection(("127.0.0.1", urlsplit(os.environ["HTTPS_PROXY"]).port), 2) as proxy:
        proxy.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        answer = proxy.makefile("rb")
        first = answer.readline()
        while answer.readline().strip():
            pass
        if b" 200 " in first:
            proxy.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            first += answer.readline()
        return first.decode().replace("\r\n", " ").strip()


def get(url: str) -> str:
    """Return the body of the response to a GET request."""
    from urllib.request import Request, urlopen

    return urlopen(Request(url, headers={"Proxy-Secret": "x"}), timeout=5).read().decode()  # type: ignore[no-any-return]


def resolve(name: str) -> str:
    """Return the addresses of a host."""
    import socket

    return str(socket.getaddrinfo(name, 80))


def unix(name: str) -> str:
    """Connect with an abstract socket."""
    import socket

    socket.socket(socket.AF_UNIX).connect("\0" + name)
    return "connected"


WAYS: dict[str, Callable[[str], str]] = {way.__name__: way for way in (get, connect, tunnel, resolve, unix)}


class Agent:
    """The state of the process."""

    def __init__(self) -> None:
        self.next_id = 0
        self.session = ""
        self.mode, self.model = "auto", ""
        self.is_cancelled = False
        self.calls = 0
        self.turns = 0
        self.cost = 0.0
        self.reason = "end_turn"
        self.client: dict[str, Any] = {}
        self.options = OPTIONS
        self.record = ""
        """A file to write at the end of the stream."""
        self.argument = ""
        """The prompt after its first word."""

    def send(self, **message: Any) -> None:
        """Send a message."""
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def receive(self) -> dict[str, Any]:
        """Return the next message; end the process at the end of the stream."""
        line = sys.stdin.readline()
        if not line:
            if self.record:
                Path(self.record).touch()
            sys.exit(0)
        return json.loads(line)  # type: ignore[no-any-return]

    def update(self, update: str, **fields: Any) -> None:
        """Send an update of the session."""
        self.send(method="session/update", params={"sessionId": self.session, "update": {"sessionUpdate": update, **fields}})

    def say(self, text: str, kind: str = "agent_message_chunk") -> None:
        """Send words, or thoughts."""
        self.update(kind, content={"type": "text", "text": text})

    def ask(self, call_id: str, **about: Any) -> str:
        """Ask for permission, and return the option that was selected; ``cancelled`` for none."""
        self.next_id += 1
        params = {"sessionId": self.session, "toolCall": {"toolCallId": call_id, **about}, "options": self.options}
        self.send(id=self.next_id, method="session/request_permission", params=params)
        while True:
            message = self.receive()
            if message.get("id") == self.next_id and "method" not in message:
                outcome = message["result"]["outcome"]
                return outcome.get("optionId", "cancelled")  # type: ignore[no-any-return]
            if message.get("method") == "session/cancel":
                self.is_cancelled = True

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request of the client's, and return the answer."""
        self.next_id += 1
        self.send(id=self.next_id, method=method, params={"sessionId": self.session, **params})
        while (message := self.receive()).get("id") != self.next_id:
            pass
        return message

    def call(self, kind: str, title: str, **arguments: Any) -> str:
        """Announce a call."""
        self.calls += 1
        call_id = f"call-{self.calls}"
        self.update("tool_call", toolCallId=call_id, title=title, kind=kind, status="pending", rawInput=arguments)
        return call_id

    def end(self, call_id: str, text: str, status: str = "completed") -> None:
        """Report the end of a call."""
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        self.update("tool_call_update", toolCallId=call_id, status=status, content=content)

    # Commands for prompts

    def hello(self) -> None:
        """Think, and greet."""
        self.say("Who is there?", "agent_thought_chunk")
        self.say("Hello ")
        self.say("there.")

    def store(self) -> None:
        """Store the conversation only at the end."""
        self.record = self.argument
        self.say("Later.")

    def environment(self) -> None:
        """Say the names of its variables."""
        self.say(" ".join(sorted(os.environ)))

    def words(self) -> None:
        """Say many words, each by itself."""
        for _ in range(5_000):
            self.say("tok ")

    def write(self) -> None:
        """Write a file, if that is allowed."""
        self.say("I will write.")
        call_id = self.call("edit", "Write a.txt", path="a.txt", content="alpha\n")
        if self.ask(call_id) != "yes":
            self.end(call_id, "The person rejected it.", "failed")
            self.say("Was rejected.")
            return
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        Path("a.txt").write_text("alpha\n")
        self.end(call_id, "1 line written")
        self.say("Written.")

    def unasked(self) -> None:
        """Run a command without asking."""
        call_id = self.call("execute", "echo out", command="echo out")
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        self.end(call_id, "out")
        self.say("Ran.")

    def burst(self) -> None:
        """Run three commands without asking, with words after each, and send everything at once."""
        lines: list[str] = []
        self.send = lambda **message: lines.append(json.dumps({"jsonrpc": "2.0", **message}) + "\n")  # type: ignore[method-assign]
        for _ in range(3):
            self.unasked()
        del self.send
        print("".join(lines), end="", flush=True)

    def blind(self) -> None:
        """Ask about a command by its id, without ever telling it."""
        self.update("tool_call", toolCallId="blind", title="Run something", kind="execute", status="pending")
        self.say(self.ask("blind"))

    def choices(self) -> None:
        """Ask twice about one command: with the named options, each an id, a name and a kind, and with its usual ones."""
        call_id = self.call("execute", "ls", command="ls")
        names = ("optionId", "name", "kind")
        self.options = [dict(zip(names, option, strict=True)) for option in json.loads(self.argument)]
        first, self.options = self.ask(call_id), OPTIONS
        second = self.ask(call_id)
        self.end(call_id, "")
        self.say(f"{first} {second}")

    def through(self) -> None:
        """Ask about a file, the named one or a.txt, and have it written."""
        path = self.argument or "a.txt"
        call_id = self.call("edit", f"Write {path}", path=path, content="alpha\n")
        if self.ask(call_id, rawInput={"diff": "+alpha"}) == "yes":
            self.request("fs/write_text_file", path=str(Path(path).absolute()), content="alpha\n")
            self.end(call_id, "1 line written")
            self.say("Written.")
        else:
            self.end(call_id, "rejected", "failed")
            self.say("Was rejected.")

    def again(self) -> None:
        """Have the named file written, and write the same text itself, as opencode does."""
        self.through()
        Path(self.argument).write_text("alpha\n")

    def alone(self) -> None:
        """Write, replace, touch and delete files without telling the client."""
        Path("new.txt").write_text("new")
        Path("old.txt").write_text("other")
        Path("touched.txt").write_text("same")
        os.utime("touched.txt", (1, 1))
        Path("gone.txt").unlink()
        self.say("Done.")

    def parting(self) -> None:
        """Wait for a cancellation, and write files only then, the last one a moment later."""
        self.muse()
        Path("old.txt").write_text("other")
        self.say("Written.")
        time.sleep(0.1)
        Path("new.txt").write_text("new")

    def edit(self) -> None:
        """Write the named file without telling the client."""
        Path(self.argument).write_text("{}")
        self.say("Edited.")

    def fetch(self) -> None:
        """Read the second line of the named file through the client."""
        call_id = self.call("read", f"Read {self.argument}", path=self.argument)
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        answer = self.request("fs/read_text_file", path=str(Path(self.argument).absolute()), line=2, limit=1)
        self.end(call_id, answer["result"]["content"] if "result" in answer else "no", "completed")
        self.say(str(answer.get("error", {}).get("code", "")))

    def terminal(self, call_id: str = "", **options: Any) -> None:
        """Run the named command in a terminal as kimi does, with all five requests, and report its end."""
        assert self.client["terminal"], "it is announced"
        whole = f"cd '{Path.cwd()}' && {self.argument}"
        variables = [{"name": "NO_COLOR", "value": "1"}, {"name": "SHELL", "value": "/bin/bash"}]
        about = {"command": "/bin/bash", "args": ["-c", whole], "env": variables, "cwd": str(Path.cwd()), **options}
        created = self.request("terminal/create", **about)
        if "error" in created:
            self.say(f"refused: {created['error']['data']['details']}")
            return
        about = created["result"]
        assert list(about) == ["terminalId"], about
        if call_id:
            content = [{"type": "terminal", **about}]
            self.update("tool_call_update", toolCallId=call_id, status="in_progress", content=content)
        ended = self.request("terminal/wait_for_exit", **about)["result"]
        output = self.request("terminal/output", **about)["result"]
        assert output["exitStatus"] == ended, output
        assert self.request("terminal/kill", **about)["result"] == {}
        assert self.request("terminal/release", **about)["result"] == {}
        assert "error" in self.request("terminal/output", **about), "it is released"
        self.say(json.dumps([output["output"], output["truncated"], ended["exitCode"], ended["signal"]]))

    def shell(self) -> None:
        """Ask about the named command, and have it run in a terminal."""
        call_id = self.call("execute", "Bash", command=self.argument)
        if self.ask(call_id) == "yes":
            self.terminal(call_id)
            self.end(call_id, "The agent's words for it.")
        else:
            self.end(call_id, "rejected", "failed")

    def placed(self) -> None:
        """Ask about commands, each with the named arguments, and show only the command, as opencode does."""
        for arguments in json.loads(self.argument):
            call_id = self.call("execute", "Bash", **arguments)
            self.say(self.ask(call_id, rawInput={"command": arguments["command"]}))
            self.end(call_id, "")

    def switch(self) -> None:
        """Ask about a harmless command, and have the named one run in its place."""
        call_id = self.call("execute", "Bash", command="true")
        if self.ask(call_id) == "yes":
            self.update("tool_call_update", toolCallId=call_id, rawInput={"command": self.argument})
            self.terminal(call_id)
            self.end(call_id, "")

    def peek(self) -> None:
        """Report how many keys were masked in the named file, as read through the client and as a command prints it."""
        call_id = self.call("read", "Read", path=self.argument)
        content = self.request("fs/read_text_file", path=str(Path(self.argument).absolute()))["result"]["content"]
        self.end(call_id, content)
        about = self.request("terminal/create", command=f"cat {self.argument}")["result"]
        self.request("terminal/wait_for_exit", **about)
        output = self.request("terminal/output", **about)["result"]["output"]
        self.say(str([text.count("[key]") for text in (content, output)]))

    def probe(self) -> None:
        """Look for the named file through the client."""
        self.say(str(self.request("fs/read_text_file", path=str(Path(self.argument).absolute()))["error"]["code"]))

    def unasked_shell(self) -> None:
        """Have the named command run in a terminal without asking first."""
        call_id = self.call("execute", "Bash", command=self.argument)
        self.terminal(call_id)
        self.end(call_id, "The agent's words for it.", "failed")

    def task(self) -> None:
        """Have the named command run in a terminal within an unrelated call."""
        call_id = self.call("other", "Task")
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        time.sleep(0.3)
        self.terminal()
        self.end(call_id, "Task done.")

    def short(self) -> None:
        """Keep ten bytes of the output of the named command."""
        self.terminal(outputByteLimit=10)

    def leave(self) -> None:
        """Start the named command in a terminal, and end the turn once it has printed."""
        call_id = self.call("execute", "Bash", command=self.argument)
        about = self.request("terminal/create", command=self.argument)["result"]
        while not self.request("terminal/output", **about)["result"]["output"]:
            time.sleep(0.01)
        self.end(call_id, "It runs on.")

    def elsewhere(self) -> None:
        """Name a folder outside the working folder for the command."""
        self.terminal(command=self.argument, args=[], cwd=str(Path.cwd().parent))

    def below(self) -> None:
        """Name a folder inside the working folder for the command."""
        self.terminal(command=self.argument, args=[], cwd=str(Path("sub").absolute()))

    def variable(self) -> None:
        """Give the named command a variable that changes programs."""
        self.terminal(env=[{"name": "BASH_ENV", "value": "x"}])

    def metered(self) -> None:
        """Report the usage of two requests with messages, as qwen does."""
        for words in ("Counted ", "twice."):
            self.say(words)
            about = {"usage": {"inputTokens": 100, "outputTokens": 5, "totalTokens": 105}}
            self.update("agent_message_chunk", content={"type": "text", "text": ""}, _meta=about)

    def diff(self) -> None:
        """Edit a file, and report the change as the result."""
        call_id = self.call("edit", "Edit a.txt", path="a.txt")
        content = [{"type": "diff", "path": "a.txt", "oldText": "old\n", "newText": "alpha\n"}]
        self.update("tool_call_update", toolCallId=call_id, status="completed", content=content)
        self.say("Edited.")

    def piecewise(self) -> None:
        """Run a command in its own terminal, and send its output beside the content, as codex does."""
        call_id = self.call("execute", "echo out", command="echo out")
        terminal = {"type": "terminal", "terminalId": "its-own"}
        for piece in ("ou", "t"):
            about = {"terminal_output_delta": {"data": piece}}
            self.update("tool_call_update", toolCallId=call_id, status="in_progress", content=[terminal], _meta=about)
        self.update("tool_call_update", toolCallId=call_id, status="completed")
        self.say("Ran.")

    def growing(self) -> None:
        """Announce a running command while its arguments stream as text, and ask by title alone, as kimi does."""
        call_id = self.call("execute", "Bash")
        for text in ('{"comm', '{"command": "touch ', '{"command": "touch a.txt"}'):
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
            self.update("tool_call_update", toolCallId=call_id, status="in_progress", content=content)
            time.sleep(0.02)
        content = [{"type": "content", "content": {"type": "text", "text": "Running: touch a.txt"}}]
        self.end(call_id, self.ask(call_id, title="Bash", content=content))

    def garbled(self) -> None:
        """Ask about calls with invalid JSON, and report the answers."""
        answers = []
        for text in ("\ud800", 10_000 * '{"a":'):
            call_id = self.call("execute", "Bash")
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
            self.update("tool_call_update", toolCallId=call_id, content=content)
            answers.append(self.ask(call_id, title="Bash"))
            self.end(call_id, "")
        self.say(" ".join(answers))

    def unannounced(self) -> None:
        """Have files written without a call, one of them outside the folder."""
        for path in (self.argument or "b.txt", "../outside.txt"):
            answer = self.request("fs/write_text_file", path=str(Path(path).absolute()), content="beta\n")
            self.say("refused " if "error" in answer else "written ")

    def idle(self) -> None:
        """Announce a call, and make none."""
        self.call("execute", "make", command="make")

    def two(self) -> None:
        """Make two calls at once, and ask about both."""
        first, second = self.call("read", "Read b.txt", path="b.txt"), self.call("execute", "ls", command="ls")
        for call_id in (first, second):
            self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        self.end(second, "b.txt")
        self.end(first, "beta")
        self.say("Both.")

    def both(self) -> None:
        """Ask about two calls at once, and end them once both are answered."""
        calls = self.call("edit", "Write a.txt", path="a.txt", content=""), self.call("execute", "ls", command="ls")
        for number, call_id in enumerate(calls):
            params = {"sessionId": self.session, "toolCall": {"toolCallId": call_id}, "options": OPTIONS}
            self.send(id=f"both-{number}", method="session/request_permission", params=params)
        answers = {message["id"]: message["result"]["outcome"]["optionId"] for message in (self.receive(), self.receive())}
        for number, call_id in enumerate(calls):
            self.end(call_id, answers[f"both-{number}"], "completed" if answers[f"both-{number}"] == "yes" else "failed")
        self.say(str(sorted(answers.values())))

    def plan(self) -> None:
        """Send a plan, twice."""
        entries = [{"content": "Load", "status": "in_progress", "priority": "high"}, {"content": "Tell", "status": "pending"}]
        self.update("plan", entries=entries)
        self.say("Planned.")
        self.update("plan", entries=[{**entries[0], "status": "completed"}, entries[1]])

    def sleep(self) -> None:
        """Start a process that leaves the group, and wait for a cancellation."""
        import subprocess

        subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.say("Sleeping")
        while not self.is_cancelled:
            self.is_cancelled = self.receive().get("method") == "session/cancel"

    def muse(self) -> None:
        """Think without text, and wait for a cancellation."""
        self.say("Hm", "agent_thought_chunk")
        while not self.is_cancelled:
            self.is_cancelled = self.receive().get("method") == "session/cancel"

    def deaf(self) -> None:
        """Start a process, and ignore everything."""
        import subprocess

        subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.say("Deaf")
        while True:
            self.receive()

    def half(self) -> None:
        """Send half a text, and the rest once a file exists."""
        self.say("Half")
        while not Path("go").exists():
            self.receive()
        self.say(" and half.")

    def die(self) -> None:
        """End in the middle of a turn, with a variable of the person in the error, where a long line is cut."""
        self.say("Now ")
        print(f"out of memory {'.' * 470}{os.environ.get('WANTED')}\n}}", file=sys.stderr, flush=True)
        os._exit(9)

    def late(self) -> None:
        """Announce a running command before asking about it, as opencode does."""
        call_id = self.call("execute", "make", command="make")
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        time.sleep(0.2)
        self.end(call_id, self.ask(call_id), "failed")

    def crash(self) -> None:
        """End while a call runs."""
        call_id = self.call("execute", "make", command="make")
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(9)

    def open(self) -> None:
        """End the turn without reporting the end of a call."""
        call_id = self.call("execute", "make", command="make")
        self.ask(call_id)

    def error(self) -> None:
        """Answer the prompt with an error while a call runs."""
        call_id = self.call("execute", "make", command="make")
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        raise KeyError(call_id)

    def disguise(self) -> None:
        """Ask about a command by the name of a function of the notebook."""
        call_id = self.call("execute", "notebook_total", command="rm -r data")
        self.say(self.ask(call_id))

    def grow(self) -> None:
        """Send the arguments of a call again as they grow, then its result."""
        call_id = self.call("execute", "echo out", command="echo out")
        for end in range(1, 50):
            content = [{"type": "content", "content": {"type": "text", "text": '{"command": "echo out"}'[:end]}}]
            self.update("tool_call_update", toolCallId=call_id, status="pending", content=content)
        self.ask(call_id)
        self.end(call_id, "out")

    def drift(self) -> None:
        """Change to the named mode in both forms, and later than a cancellation takes run a command without asking."""
        self.mode = self.argument
        self.update("current_mode_update", currentModeId=self.mode)
        self.settle()
        time.sleep(1.5)
        Path("drifted.txt").write_text("")
        self.unasked()

    def wander(self) -> None:
        """Change its mode within a call, which goes on until a cancellation."""
        call_id = self.call("other", "Task", prompt="look")
        self.update("tool_call_update", toolCallId=call_id, status="in_progress")
        time.sleep(0.3)
        self.update("current_mode_update", currentModeId="auto")
        self.muse()
        self.end(call_id, "Task done.")

    def settle(self) -> None:
        """Report the mode and the named model, as agents do after any change."""
        current = {"mode": self.mode, "model": self.argument}
        options = [{"id": name, "category": name, "currentValue": value} for name, value in current.items()]
        self.update("config_option_update", configOptions=options)
        self.update("available_commands_update", availableCommands=[{"name": "x", "description": "its own text"}])

    def change(self) -> None:
        """Run a different command from the approved one."""
        call_id = self.call("execute", "ls", command="ls")
        if self.ask(call_id) == "yes":
            self.update("tool_call_update", toolCallId=call_id, status="in_progress", rawInput={"command": "rm -r data"})
            self.end(call_id, "gone")
            self.say("Changed.")

    def spend(self) -> None:
        """Report the cost of the session, before a call and after it."""
        self.cost += 0.25
        self.update("usage_update", used=1, size=9, cost={"amount": self.cost, "currency": "USD"})
        self.unasked()
        self.cost += 0.5
        self.update("usage_update", used=2, size=9, cost={"amount": self.cost, "currency": "USD"})

    def refuse(self) -> None:
        """Report a provider error as text."""
        self.say("Error: 401 invalid key\nTry again later.")

    def cut(self) -> None:
        """End the turn at a limit."""
        self.say("Half of it")
        self.reason = "max_tokens"

    def odd(self) -> None:
        """Send unknown kinds and invalid lines."""
        for colour in ("red", "blue"):
            self.update("colour_update", colour=colour)
        self.update(["no", "kind"])  # type: ignore[arg-type]
        print("this is no JSON", flush=True)
        self.say("Odd.")

    def function(self) -> None:
        """List the tools of the server that it was given, and call the first with three numbers."""
        self.offered(self.call("other", "notebook_total", numbers=[1, 2, 3]))

    def replaced(self) -> None:
        """Replace the word "older" in the named file through the server."""
        (server,) = self.servers
        _, result = called(server, path=self.argument, old="older", new="newer")
        self.say(result)

    def added(self) -> None:
        """Call the tool of an MCP server, which adds two numbers, through the server that it was given."""
        (server,) = self.servers
        found, result = called(server, a=1, b=2)
        self.say(f"{found}: {result}")

    def library(self) -> None:
        """Call the tool as most agents do, with the library of MCP."""
        import asyncio  # as long to import as everything above, in each of hundreds of processes

        (server,) = self.servers
        found, result = asyncio.run(called_by_library(server, a=1, b=2))
        self.say(f"{found}: {result}")

    def keyless(self) -> None:
        """Call the function without the variables of its server, and report whether it was served."""
        (server,) = self.servers
        try:
            called({**server, "env": []})
            self.say("served")
        except BaseException:
            self.say("refused")

    def masked(self) -> None:
        """Call the function too, and report how many keys were masked in its result."""
        (server,) = self.servers
        _, result = called(server)
        self.say(str(result.count("[key]")))

    def named(self) -> None:
        """Call the function, with the tool name beside a title, as qwen does."""
        call_id = self.call("other", "total (notebook MCP Server)")
        self.update("tool_call_update", toolCallId=call_id, _meta={"toolName": "mcp__notebook__total"})
        self.offered(call_id, title='{"numbers": [1, 2, 3]}')

    def aside(self) -> None:
        """Call the function while a command runs."""
        self.offered(self.call("execute", "make", command="make"))

    def subagent(self) -> None:
        """Run a call with an inner call that ends later."""
        outer = self.call("other", "Task", prompt="look")
        self.update("tool_call_update", toolCallId=outer, status="in_progress")
        inner = self.call("execute", "ls", command="ls")
        time.sleep(0.3)
        answer = self.ask(inner)
        self.end(outer, "Task done.")
        self.end(inner, answer)
        self.say(answer)

    def offered(self, call_id: str, **about: Any) -> None:
        """Ask about a call, and call the first tool of the server within it."""
        (server,) = self.servers
        if self.ask(call_id, **about) == "yes":
            found, result = called(server)
            self.end(call_id, result)
            self.say(f"{found}: {result}")

    def tries(self) -> None:
        """Read and write the files listed in a file, and report each result."""
        for how, path in json.loads(Path("tries.json").read_text()):
            try:
                file = Path(path).expanduser()
                _ = file.read_bytes() if how == "read" else file.write_text("left")
                self.say("yes ")
            except OSError:
                self.say("no ")

    def reaches(self) -> None:
        """Try the ways to the network that are listed in a file, and report each result."""
        for how, place in json.loads(Path("ways.json").read_text()):
            try:
                self.say(f"{WAYS[how](place)}\n")
            except OSError as error:
                self.say(f"{type(error).__name__} {getattr(error, 'code', '')}\n")

    # The protocol

    def answer(self, message: dict[str, Any]) -> Any:
        """Return the result of a request."""
        method, params = message["method"], message.get("params") or {}
        if method == "initialize":
            assert params["protocolVersion"] == 1, params
            self.client = params["clientCapabilities"]
            return {
                "protocolVersion": 1,
                "agentCapabilities": {
                    "loadSession": "forgetful" not in sys.argv,
                    "promptCapabilities": {"image": "sees" in sys.argv},
                },
                "agentInfo": {"name": "fake", "version": "1"},
            }
        if method == "session/new":
            assert Path(params["cwd"]).is_absolute(), params
            self.servers = params["mcpServers"]
            self.session = f"s-{os.getpid()}"
            modes = [{"id": name, "name": name} for name in ("default", "auto")]
            return {"sessionId": self.session, "modes": {"currentModeId": self.mode, "availableModes": modes}}
        if method == "session/load":
            self.say("Lost ")  # a notification, whatever its result
            if "lost" in sys.argv:
                raise KeyError(params["sessionId"])
            self.session = params["sessionId"]
            self.cost, self.turns = 0.75, 7
            self.update("user_message_chunk", content={"type": "text", "text": "hello"})
            self.say("Hello there.")
            return {}
        assert params["sessionId"] == self.session, params
        if method == "session/set_mode":
            self.mode = self.mode if "stubborn" in sys.argv else params["modeId"]
            self.update("current_mode_update", currentModeId=self.mode)
            return {}
        if method == "session/set_config_option":
            assert params["configId"] == "model", params
            self.model = params["value"]
            return {}
        if method == "session/prompt":
            self.is_cancelled, self.reason = False, "end_turn"
            self.turns += 1
            text = " ".join(block.get("text", "") for block in params["prompt"])
            self.argument = text.partition(" ")[2]
            for word in text.split():
                play = getattr(self, word.strip("."), None)
                if callable(play):
                    play()
            if text.startswith("blocks"):
                self.say(json.dumps(params["prompt"]))
            if text in ("session", "mode", "model"):
                self.say(getattr(self, text))
            times = self.turns if "sums" in sys.argv else 1
            return {
                "stopReason": "cancelled" if self.is_cancelled else self.reason,
                "usage": {"inputTokens": 12 * times, "outputTokens": 3 * times, "totalTokens": 15 * times},
            }
        raise AssertionError(method)

    def serve(self) -> None:
        """Answer requests until the stream ends."""
        while True:
            message = self.receive()
            if "id" not in message:
                continue
            try:
                self.send(id=message["id"], result=self.answer(message))
            except KeyError as error:
                self.send(
                    id=message["id"], error={"code": -32603, "message": "Internal error", "data": {"details": f"lost {error}"}}
                )
            if "unread" in sys.argv and message["method"] == "session/set_mode":
                self.say("Reads no more.")
                time.sleep(600)


def called(server: dict[str, Any], **arguments: Any) -> tuple[str, str]:
    """Call the first tool of a server, by default with three numbers, and return its name and its result.

    The library of MCP, which `called_by_library` uses, takes ten times as long to import as the rest of a test.
    """
    import subprocess

    with subprocess.Popen(
        [server["command"], *server["args"]],
        env={**os.environ, **variables_of(server)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def asked(method: str, **params: Any) -> Any:
            print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())["result"]

        asked("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "fake", "version": "1"})
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), file=process.stdin, flush=True)
        (tool,) = asked("tools/list")["tools"]
        result = asked("tools/call", name=tool["name"], arguments=arguments or {"numbers": [1, 2, 3]})
        return tool["name"], result["content"][0]["text"]


async def called_by_library(server: dict[str, Any], **arguments: Any) -> tuple[str, str]:
    """Call the first tool of a server as most agents do, and return its name and its result."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(command=server["command"], args=server["args"], env=variables_of(server))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        (tool,) = (await session.list_tools()).tools
        result = await session.call_tool(tool.name, arguments)
        return tool.name, result.content[0].text  # type: ignore[union-attr]


def variables_of(server: dict[str, Any]) -> dict[str, str]:
    """The environment variables of a server."""
    return {variable["name"]: variable["value"] for variable in server["env"]}


if __name__ == "__main__":
    Agent().serve()
