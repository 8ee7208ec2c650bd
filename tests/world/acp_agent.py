"""Real agents over the Agent Client Protocol: each is run as in a cell, and a script on this machine is its model.

    python acp_agent.py ROW PATH FOLDER     tries a row, as JSON, whose agent is on this PATH, in an empty folder

`make world` starts that for each row, where the system allows it in a network namespace that has nothing but the loopback.
No text of an agent is kept: a case says what differs from what it should be.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path[:0] = [path for path in (str(Path(__file__).parent), str(Path(__file__).parents[2])) if path not in sys.path]

from counterpart_cases import Case, placed  # noqa: E402  # beside this file
from environments import ROOT, Environment  # noqa: E402

from agentnb import Agent, Store  # noqa: E402
from agentnb.acp.guard import descendants  # noqa: E402
from agentnb.acp.installed import find_installed  # noqa: E402
from agentnb.acp.known_agents import agent_of  # noqa: E402
from agentnb.core.log.events import CallBlocked, QuestionAsked, TextDelta, Warned  # noqa: E402
from agentnb.core.messages import ToolCall  # noqa: E402
from agentnb.core.usage import Usage  # noqa: E402
from agentnb.detect.run import Run  # noqa: E402
from agentnb.display.lists.undo_text import undo_text  # noqa: E402
from agentnb.errors import ModelError, SettingsError  # noqa: E402
from agentnb.rerun.undo.undoing import undo_run  # noqa: E402
from agentnb.runtime.host.live_run import LiveRun, wait_for_ends  # noqa: E402
from agentnb.testing import Answer, LoopbackServer, Stall, Status  # noqa: E402

TRIED = "turns, calls, stops, files, load, plan, usage, settings, errors, kills"
NAMESPACE = ("unshare", "--map-root-user", "--net")
MARK = "agentnb-case"
"""A word of each prompt. A request that has neither it nor a result after the last reply, as for a title, is not scripted."""
WORDS = "one two three four five six seven eight nine ten"
CANARY = "AGENTNB_CANARY"
"""A variable that nobody names for an agent."""
ENDED = ("completed", "stopped")
"""End of a run after a denied call: codex stops there."""
SECONDS = 60
SECONDS_TO_STOP = 3
SLEEP = "import time; time.sleep(613)"
"""A program that a case looks for among the processes. Qwen runs no command that is ``sleep``."""
KERNEL = """
import sys
from agentnb import Agent, Store
heard = lambda item: print("word", flush=True) if hasattr(item, "text") else None
Agent(acp=sys.argv[1]).run_sync(sys.argv[2], work_dir=sys.argv[3], store=Store(sys.argv[4]), watch=heard)
"""


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield the cases of an agent, from a process that has no variable of the person's."""
    path = f"{environment.path}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        command = [*_namespace(), sys.executable, __file__, json.dumps(row), path, folder]
        variables = {"PATH": path, "HOME": folder, "LANG": "C.UTF-8", CANARY: "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as tried:
            assert tried.stdout is not None
            for line in tried.stdout:
                yield Case(*json.loads(line))
        if tried.returncode:
            yield Case("all of it", f"its cases ended with exit code {tried.returncode}")


def _namespace() -> tuple[str, ...]:
    """Return the words before a command that shut it off from all networks; none where the system has no such thing."""
    can = shutil.which(NAMESPACE[0]) and not subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode
    return NAMESPACE if can else ()


def raise_loopback() -> None:
    """Switch the loopback interface on, as a new namespace has it switched off."""
    up, set_flags = 0x1, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up))


class Difference(Exception):
    """Something is not as it should be."""


def check(actual: object, expected: object) -> None:
    """Raise `Difference` unless both are equal."""
    if actual != expected:
        raise Difference(f"{actual!r} instead of {expected!r}")


class Scene:
    """An agent of a row, its model, and the folder of a case."""

    def __init__(self, row: dict[str, Any], home: Path) -> None:
        self.row, self.name = row, row["name"]
        self.home, self.folder = home, home
        self.lines: list[Any] = []
        self.sent: list[dict[str, Any]] = []
        """The bodies of the requests of the script."""
        self.live: LiveRun | None = None
        """The last run."""
        self.server = LoopbackServer(self._answer, lenient=True).start()
        for name, text in row.get("files", {}).items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._placed(text), encoding="utf-8")
        os.environ.update(self._placed(row.get("env", {})))

    def _placed(self, value: Any, **more: str) -> Any:
        return placed(value, url=self.server.url, home=str(self.home), folder=str(self.folder), **more)

    def _answer(self, body: dict[str, Any]) -> Any:
        messages = [*body.get("messages", ()), *body.get("input", ())]
        replies = [
            place for place, message in enumerate(messages) if message.get("role") == "assistant" or "arguments" in message
        ]
        last = json.dumps(messages[max(replies, default=-1) + 1 :])
        if not body.get("tools") or not (MARK in last or '"tool' in last or "call_output" in last):
            return "A title"
        self.sent.append(body)
        return self.lines.pop(0) if self.lines else "Done."

    def call(self, kind: str, **more: str) -> ToolCall:
        """Return a call of one of the agent's tools, as its model makes it."""
        about = self.row["calls"][kind]
        return ToolCall(about["name"], self._placed(about.get("arguments", {}), **more))

    def shell(self, command: str) -> ToolCall:
        """Return a call that runs a command."""
        return self.call("shell", command=command)

    def start(self, *lines: Any, prompt: str = "Do it.", acp: str = "", **options: Any) -> LiveRun:
        """Start a run whose model says these lines."""
        self.lines = [*lines]
        settings = {name: options.pop(name) for name in ("mode", "tools") if name in options}
        self.live = Agent(acp=acp or self.name, work_dir=self.folder, **settings).start(f"{prompt} ({MARK})", **options)
        return self.live

    def run(self, *lines: Any, **options: Any) -> Run:
        """Return such a run when it has ended, which must be in time."""
        return self.end(self.start(*lines, **options))

    def end(self, live: LiveRun) -> Run:
        """Return a run when it has ended, which must be in time."""
        try:
            return live.result(SECONDS)
        except TimeoutError:
            raise Difference(f"no end within {SECONDS} s") from None

    def stop(self, live: LiveRun) -> None:
        """Stop a run, which must end at once, with all that it began."""
        begun = time.monotonic()
        live.stop()
        check(live.result(SECONDS).status, "cancelled")
        check(time.monotonic() - begun < SECONDS_TO_STOP, True)
        self.check_gone()

    def check_gone(self) -> None:
        """Raise `Difference` if a process of the agent stays."""
        self.wait(lambda: not descendants(os.getpid()))

    def wait(self, is_so: Callable[[], Any], seconds: float = SECONDS) -> None:
        """Wait until something is so. Raises `Difference` if it does not become so."""
        until = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > until:
                raise Difference(f"waited {seconds} s in vain")
            time.sleep(0.05)

    @property
    def last_sent(self) -> str:
        """The messages of the last request of the script."""
        return json.dumps(self.sent[-1])

    @property
    def file(self) -> Path:
        """The file that calls of this case make."""
        return self.folder / "made.txt"


def first_words(do: Callable[[], Any]) -> Callable[[object], None]:
    """Return a watcher that does something at the first words of a reply."""
    left = [do]

    def watch(item: object) -> None:
        if isinstance(item, TextDelta) and left:
            left.pop()()

    return watch


def events(run: Run, kind: type) -> list[Any]:
    """Return the events of a kind."""
    return [event for event in run.events if isinstance(event, kind)]


def results(run: Run) -> list[tuple[str, str]]:
    """Return the name and result of each call."""
    records = [record for current in run.rounds for record in current.records]
    return [(record.call.name, record.result.text if record.result else "") for record in records]


def environs() -> str:
    """Return the variables of all processes below this."""
    return "".join(_of_process(pid, "environ") for pid in descendants(os.getpid()))


def _of_process(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except OSError:  # it has ended meanwhile
        return ""


CASES: dict[str, Callable[[Scene], None]] = {}


def case(name: str) -> Callable[[Callable[[Scene], None]], None]:
    """Return a decorator that adds a function to the cases."""
    return lambda function: CASES.update({name: function})


@case("start")
def _start(scene: Scene) -> None:
    here = find_installed(agent_of(scene.name))
    check(here and here.version, agent_of(scene.name).tried)
    variables: list[str] = []
    run = scene.run("Hello.", watch=first_words(lambda: variables.append(environs())))
    check((run.status, run.text, [event.message for event in events(run, Warned)]), ("completed", "Hello.", []))
    check((CANARY in variables[0], "PATH=" in variables[0]), (False, True))


@case("turn")
def _turn(scene: Scene) -> None:
    pieces: list[str] = []
    run = scene.run(WORDS, watch=lambda item: pieces.append(item.text) if isinstance(item, TextDelta) else None)
    check(("".join(pieces), run.text, run.stop_reason in ("natural", "unchecked")), (WORDS, WORDS, True))


@case("second turn")
def _second_turn(scene: Scene) -> None:
    live = scene.start("First.", "Second.", watch=first_words(lambda: live.say(f"Once more ({MARK}).")))
    run = scene.end(live)
    check("".join(current.text for current in run.rounds), "First.Second.")
    check(("Do it." in scene.last_sent, "Once more" in scene.last_sent), (True, True))


@case("call allowed")
def _allowed(scene: Scene) -> None:
    before: list[bool] = []

    def approve(call: ToolCall, run: Run) -> bool:
        before.append(scene.file.exists())
        return True

    run = scene.run(scene.shell("echo first; echo second > made.txt"), "Done.", approve=approve)
    check((run.status, run.text, before, scene.file.exists()), ("completed", "Done.", [False], True))
    ((name, result),) = results(run)
    check((name, "first" in result), ("bash", True))
    check("made.txt" in events(run, QuestionAsked)[0].question.about.arguments, True)


@case("call rejected")
def _rejected(scene: Scene) -> None:
    run = scene.run(scene.shell("touch made.txt"), "Done.", approve=lambda call, run: False)
    check((run.status in ENDED, scene.file.exists()), (True, False))
    check([event.call.name for event in events(run, CallBlocked)], ["bash"])


@case("denied by a rule")
def _denied(scene: Scene) -> None:
    calls = {"write_file": scene.call("write", path=str(scene.file)), "bash": scene.shell("touch made.txt")}
    asked = dict(zip(calls, ("write", "execute"), strict=True))
    for name, call in calls.items():
        options = {"permissions": {f"{name}(*made.txt)": "deny"}, "approve": "auto"}
        if asked[name] in agent_of(scene.name).asks_about:
            run = scene.run(call, "Done.", **options)
            check((run.status in ENDED, scene.file.exists()), (True, False))
            check([event.call.name for event in events(run, CallBlocked)], [name])
        else:
            with suppress(SettingsError):
                scene.run(call, "Done.", **options)
                raise Difference("a rule about calls that it does not always ask about was accepted")


@case("cancel in a stream")
def _cancel_stream(scene: Scene) -> None:
    heard: list[bool] = []
    live = scene.start(Stall(120, after=8, line=WORDS), watch=first_words(lambda: heard.append(True)))
    scene.wait(lambda: heard)
    scene.stop(live)


@case("cancel in a shell")
def _cancel_shell(scene: Scene) -> None:
    live = scene.start(scene.shell(f'python3 -c "{SLEEP}"'), approve=lambda call, run: True)
    scene.wait(
        lambda: [pid for pid in descendants(os.getpid()) if _of_process(pid, "cmdline").endswith(f"python3\0-c\0{SLEEP}\0")]
    )
    scene.stop(live)


@case("cancel with an open question")
def _cancel_question(scene: Scene) -> None:
    live = scene.start(scene.shell("touch made.txt"))
    scene.wait(lambda: live.run.waiting)
    scene.stop(live)
    check(scene.file.exists(), False)


@case("load")
def _load(scene: Scene) -> None:
    first = scene.run("A blue whale.", prompt="Name an animal.")
    second = scene.run("Remembered.", continue_from=first)
    check((second.text, [event.message for event in events(second, Warned)]), ("Remembered.", []))
    check(("Name an animal." in scene.last_sent, "A blue whale." in scene.last_sent), (True, True))


@case("plan")
def _plan(scene: Scene) -> None:
    run = scene.run(scene.call("plan"), "Planned.", approve="auto")
    check([(todo.title, todo.status) for todo in run.todos], [("First", "in-progress"), ("Second", "not-started")])


@case("usage")
def _usage(scene: Scene) -> None:
    lines = [Answer(word, usage=Usage(1_000, 20)) for word in ("First.", "Second.")]
    live = scene.start(*lines, watch=first_words(lambda: live.say(f"Once more ({MARK}).")))
    usage = scene.end(live).usage
    counts, is_known = (usage.input, usage.output), agent_of(scene.name).usage in ("turn", "session", "requests")
    check((2_000, 40) if is_known or counts != (None, None) else counts, counts)


@case("mode set")
def _mode(scene: Scene) -> None:
    run = scene.run("Hello.", mode=scene.row["mode"], approve="auto")
    check((run.status, run.text), ("completed", "Hello."))
    check(["does not ask" in event.message for event in events(run, Warned)], [True])  # and no change of its mode
    try:
        scene.run("Hello.", mode="no-such-mode", approve="auto")
    except ModelError:
        return
    raise Difference("no error for a mode that it does not have")


@case("model set")
def _model(scene: Scene) -> None:
    run = scene.run("Hello.", acp=f"{scene.name}:{scene.row['model']}")
    models = [request.body.get("model") for request in scene.server.requests]
    check((run.status, scene.row.get("sent_model", "scripted-2") in models), ("completed", True))


@case("file written or found, and undone or named")
def _file(scene: Scene) -> None:
    store = Store(scene.home / "runs")
    run = scene.run(scene.call("write", path=str(scene.file)), "Done.", approve=lambda call, run: True, store=store)
    check((run.status, scene.file.exists()), ("completed", True))
    report = undo_text(undo_run(store, run.id))
    check((scene.file.exists(), "made.txt" in report) in ((False, True), (True, True)), True)


@case("function of the notebook")
def _function(scene: Scene) -> None:
    def total(numbers: list[int]) -> int:
        """Add numbers."""
        return sum(numbers)

    run = scene.run(scene.call("function"), "Added.", tools=[total], approve=lambda call, run: True)
    check((run.status, results(run), len(events(run, QuestionAsked)) <= 1), ("completed", [("total", "1234")], True))
    check("1234" in scene.last_sent, True)
    check(scene.call("function").name in json.dumps(scene.sent[-1]["tools"]), True)


@case("wrong key")
def _wrong_key(scene: Scene) -> None:
    try:
        run = scene.run(*[Status(401, "The key is wrong.")] * 50)
    except ModelError:
        return
    check((run.status, bool(run.error)), ("failed", True))


@case("overload")
def _overload(scene: Scene) -> None:
    run = scene.run(Status(529, "Overloaded"), "Done.")
    check((run.status, run.text[-5:]), ("completed", "Done."))  # copilot says before that it tries again


@case("agent killed")
def _agent_killed(scene: Scene) -> None:
    heard: list[bool] = []
    live = scene.start(Stall(120, after=8, line=WORDS), watch=first_words(lambda: heard.append(True)))
    scene.wait(lambda: heard)
    guard = descendants(os.getpid())[0]
    os.kill(descendants(guard)[0], signal.SIGKILL)
    try:
        scene.end(live)
    except ModelError as error:
        check((live.run.status, "has ended" in str(error)), ("failed", True))
        return scene.check_gone()
    raise Difference("no error")


@case("kernel killed")
def _kernel_killed(scene: Scene) -> None:
    scene.lines = [Stall(120, after=8, line=WORDS)]
    store = scene.home / "killed"
    command = [sys.executable, "-c", KERNEL, scene.name, f"Do it. ({MARK})", str(scene.folder), str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}) as kernel:
        assert kernel.stdout is not None
        check(kernel.stdout.readline(), b"word\n")
        time.sleep(1)
        begun = descendants(os.getpid())
        kernel.kill()
    scene.wait(lambda: not [pid for pid in begun if _of_process(pid, "cmdline")])
    check([path for path in store.glob("*.jsonl") if "two" in path.read_text()] != [], True)


def main(row: str, path: str, folder: str) -> None:
    """Print each case and its problem as a line of JSON, then the findings of the server about the agent's requests."""
    with suppress(OSError):  # where there is no namespace, it is on
        raise_loopback()
    os.environ["PATH"] = path
    scene = Scene(json.loads(row), Path(folder))
    only = scene.row.get("only", CASES)
    for name, do in CASES.items():
        if name not in only:
            continue
        scene.folder = Path(tempfile.mkdtemp(dir=folder))
        try:
            do(scene)
            problem = ""
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[1]
            problem = f"line {place.lineno}: {error if isinstance(error, Difference) else repr(error)}"
        if scene.live is not None:
            scene.live.stop()  # one whose case has failed may still run
            wait_for_ends([scene.live], SECONDS)
        print(json.dumps([name, problem]), flush=True)
    scene.server.close()
    for problem in dict.fromkeys(scene.server.problems):
        print(f"  request of {scene.name}: {problem[:200]}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
