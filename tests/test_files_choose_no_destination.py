"""No file, log or trace chooses where calls and keys go: every entry point is tried against a server that takes keys.

`ENTRY_POINTS` lists the ways in which a name from a file or log becomes a model. Add new ways there.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from marked_logs import cut_log
from own_folder import use_own_folder
from scripted_runs import look
from traitlets.config import Config

from agentnb import Agent, History, Run, Store, ToolCall, Workflow, load_trace, recover, reproduce_sync, settings
from agentnb.agent import from_log
from agentnb.cli import main, program
from agentnb.core.log.wire import encode
from agentnb.errors import UrlNotAllowed, WorkflowError
from agentnb.models import ScriptedModel
from agentnb.models.destinations import allowed_urls
from agentnb.models.destinations.destination import FileModelName
from agentnb.notebook import ipython_extension
from agentnb.notebook.choices import models_to_offer
from agentnb.rerun.fork import fork, fork_sync
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.session import Session
from agentnb.testing import LoopbackServer
from agentnb.workflow import workflow as workflow_module
from agentnb.workflow.tasks.task_calls import ActionCall

HOST = "models.evil.example"
SECRET = "not-a-key-of-any-provider-0123"
VARIABLE = "AWS_SECRET_ACCESS_KEY"
RUNS = Path(".agentnb") / "runs"


@dataclass
class Place:
    """Create a folder with files of another user, and the server that they name."""

    server: LoopbackServer
    lookups: list[str]

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server.url.rpartition(':')[2]}"

    @property
    def name(self) -> str:
        """The model that the files and logs name."""
        return f"compatible:m?url={self.address}/v1&key={VARIABLE}"

    @property
    def allowed(self) -> str:
        """The allowance of the user."""
        return f"{self.address}&key={VARIABLE}"

    def received(self) -> list[int | None]:
        """Return the server's answer; reset it, and the lookups of its name."""
        answers = [request.answered for request in self.server.requests]
        assert not self.lookups or answers, "a call was tried"
        self.server.requests.clear()
        self.lookups.clear()
        return answers

    def workflow(self, name: str = "work.yaml", before: str = "") -> Path:
        """Write a workflow file whose agent has the model."""
        text = f'agents: {{a: {{model: "{self.name}"}}}}\nworkflow: [{before}{{type: agent, name: a, prompt: Go}}]\n'
        Path(name).write_text(text, "utf-8")
        return Path(name)

    def cut_off(self, **agent: Any) -> str:
        """Write the log of an agent run with this model that died after its first round; return its id."""
        model = ScriptedModel([ToolCall("look", {}), "Done."], name=self.name)
        return shortened(Agent(model, tools=[look], **agent).run_sync("go", store=Store(RUNS), show=False), "round_finished")

    def just_begun(self) -> str:
        """Write the log of a run without tools that died in its first round; return its id."""
        model = ScriptedModel(["Done."], name=self.name)
        return shortened(Agent(model).run_sync("go", store=Store(RUNS), show=False), "round_started")

    def suspended(self) -> str:
        """Write the log of a workflow that waits for an answer before the model is called; return its id."""
        with self.alone(self.allowed):
            workflow = Workflow.from_yaml(self.workflow("asks.yaml", "{type: human, id: h, ask: 'Yes?', confirm: true}, "))
            run = asyncio.run(workflow.run("", RunOptions(store=Store(RUNS), suspend=True, show=False)))
        assert run.is_suspended and not self.received()
        return run.id

    @contextmanager
    def alone(self, *urls: str) -> Iterator[None]:
        """Allow these in this block only, as in another process."""
        before = allowed_urls._allowed_here.copy()
        allowed_urls._allowed_here.clear()
        allowed_urls.allow_urls(urls)
        yield
        allowed_urls._allowed_here.clear()
        allowed_urls._allowed_here.update(before)


def shortened(run: Run, kind: str) -> str:
    """Cut the log after the first event of this kind; return the id of the run."""
    return cut_log(RUNS / f"{run.id}.jsonl", kind).stem


def from_elsewhere(run_id: str) -> None:
    """Write the log as another user's agentnb would: without marks, or with those of another secret."""
    path = RUNS / f"{run_id}.jsonl"
    path.write_bytes(b"".join(map(encode, load_trace(path).events)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_limiters: None) -> Iterator[Place]:
    """An empty folder, a key in the environment, and a server of another name that takes that key only."""
    lookups: list[str] = []
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name != HOST:
            return look_up(host, *args, **more)
        lookups.append(name)
        return look_up("127.0.0.1", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    use_own_folder(monkeypatch, tmp_path / "personal")
    monkeypatch.setattr(allowed_urls, "_allowed_here", set())
    for variable in ("AGENTNB_ALLOW_URLS", "AGENTNB_MODEL", *settings.URL_VARIABLES.values(), *settings.KEY_VARIABLES.values()):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(VARIABLE, SECRET)
    with LoopbackServer(lambda body: "Hi.", key=SECRET) as server:
        yield Place(server, lookups)


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """A shell with the extension and nobody to ask: its standard input is not a terminal."""
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    ipython_extension.load(shell)
    yield shell
    ipython_extension.unload(shell)


def in_cell(shell: InteractiveShell, magic: str, line: str, text: str | None = None) -> None:
    """Run a magic; raises the error of the cell."""
    shell.user_ns["look"] = look
    if text is None:
        shell.run_line_magic(magic, line)
    else:
        shell.run_cell_magic(magic, line, text)


def in_shell(*argv: object) -> None:
    """Run a command. Raises `UrlNotAllowed` if the program ends with the code for invalid before it runs anything."""
    code = main([str(one) for one in argv])
    if code == 2:
        raise UrlNotAllowed("", "")
    assert code == 0


def option(urls: list[str]) -> list[str]:
    return [word for url in urls for word in ("--allow-url", url)]


def cell_options(urls: list[str]) -> str:
    return "".join(f" --allow-url '{url}'" for url in urls)


EntryPoint = Callable[[Place, InteractiveShell, list[str]], Any]
"""Uses an entry point with these URLs allowed."""


def file_step(place: Place, shell: InteractiveShell, urls: list[str], options: str = "") -> None:
    place.workflow("inner.yaml")
    in_cell(shell, "workflow", f"{options}{cell_options(urls)}", "workflow:\n  - {id: s, type: workflow, file: inner.yaml}\n")


def rerun_in_a_cell(place: Place, shell: InteractiveShell, urls: list[str]) -> None:
    text = "agents: {b: {replies: [Yes.]}}\nworkflow:\n  - {type: agent, name: b, prompt: Go}\n"
    in_cell(shell, "workflow", "", text)
    place.workflow("inner.yaml")
    again = f"{text}  - {{id: s, type: workflow, file: inner.yaml}}\n"
    in_cell(shell, "workflow", f"--rerun-from s{cell_options(urls)}", again)


def rerun_in_python(place: Place, shell: InteractiveShell, urls: list[str]) -> Run:
    with place.alone(place.allowed):
        run = Workflow.from_yaml(place.workflow()).run_sync("go", store=Store(RUNS), show=False)
    place.received()
    earlier = load_trace(RUNS / f"{run.id}.jsonl")
    return Workflow.of_run(earlier).run_sync("go", rerun_from="a", of=earlier, show=False, allow_urls=urls)


def continued(place: Place, shell: InteractiveShell, urls: list[str]) -> None:
    model = ScriptedModel(["Done."], name=place.name)
    run = Agent(model).run_sync("go", store=Store(RUNS), show=False)
    in_cell(shell, "agent", f"load {run.id}")
    in_cell(shell, "agent", f"--continue{cell_options(urls)}", "More")


def summarised(place: Place, shell: InteractiveShell, urls: list[str]) -> Run:
    """Fork a run whose next request is for a summary."""
    history = History(compact_above=2, keep_recent=1)
    run = load_trace(RUNS / f"{place.cut_off(history=history)}.jsonl")
    return fork_sync(run, 2, allow_urls=urls)


def model_of_a_logged_workflow(place: Place, shell: InteractiveShell, urls: list[str]) -> Run:
    """Recover a workflow whose agents have the model that its log names for all of them."""
    text = "agents: {a: {}}\nworkflow: [{type: human, id: h, ask: 'Yes?', confirm: true}, {type: agent, name: a, prompt: Go}]\n"
    options = RunOptions(store=Store(RUNS), suspend=True, show=False)
    with place.alone():
        run = asyncio.run(Workflow.from_yaml(text).run("", options, model=place.name))
    from_elsewhere(run.id)
    return asyncio.run(recover(run.id, answers={run.waiting[0].id: True}, trust_log=True, allow_urls=urls))


def continued_from_elsewhere(place: Place, shell: InteractiveShell, urls: list[str]) -> None:
    """Continue a run recovered with another model, from a log that claims the user named its model."""
    with place.alone(place.allowed):
        run = Agent(place.name, tools=[look]).run_sync("go", store=Store(RUNS), show=False)
    from_elsewhere(shortened(run, "round_started"))
    shell.user_ns["mine"] = ScriptedModel(["Done."])
    place.received()
    in_cell(shell, "agent", f"recover {run.id} -m mine --no-trust-log")
    in_cell(shell, "agent", f"--continue{cell_options(urls)}", "More")


def task_file(place: Place, shell: InteractiveShell, urls: list[str]) -> Run:
    """Recover a task file whose log names a model, with an action that runs an agent with it."""

    async def work(call: ActionCall) -> str:
        return str((await call.run("a", Agent(call.settings["model"]), "Go")).text)

    text = "stage:\n  one: {action: llm/own:work, input: {}}\n"
    actions, settings = {"llm/own:work": work}, {"model": place.name}
    what = Workflow.from_yaml(text).orchestration(model="simulated:disciplined", settings=settings, actions=actions)
    run = what.start("go", RunOptions(store=Store(RUNS), show=False)).result(60)
    return asyncio.run(recover(shortened(run, "step_started"), actions=actions, allow_urls=urls))


def answered_in_python(place: Place, shell: InteractiveShell, urls: list[str]) -> Run:
    run_id = place.suspended()
    return asyncio.run(recover(run_id, answers={load_trace(RUNS / f"{run_id}.jsonl").waiting[0].id: True}, allow_urls=urls))


def streamed(place: Place, shell: InteractiveShell, urls: list[str]) -> None:
    async def read() -> None:
        async for _ in Agent(FileModelName(place.name)).stream("go", allow_urls=urls):
            pass

    asyncio.run(read())


def nested_file(place: Place, shell: InteractiveShell, urls: list[str]) -> Run:
    """Run a file that runs a file that names the model in a branch not taken at first."""
    place.workflow("deepest.yaml")
    Path("middle.yaml").write_text("workflow: [{id: m, type: workflow, file: deepest.yaml}]\n", "utf-8")
    Path("outer.yaml").write_text("workflow: [{id: o, type: workflow, file: middle.yaml}]\n", "utf-8")
    return Workflow.from_yaml("outer.yaml").run_sync("go", show=False, allow_urls=urls)


ENTRY_POINTS: dict[str, EntryPoint] = {
    "Workflow.run_sync of a file": lambda p, s, urls: Workflow.from_yaml(p.workflow()).run_sync(
        "go", show=False, allow_urls=urls
    ),
    "Workflow.run of a text": lambda p, s, urls: asyncio.run(
        Workflow.from_yaml(p.workflow().read_text()).run("go", show=False, allow_urls=urls)
    ),
    "Workflow.start": lambda p, s, urls: Workflow.from_yaml(p.workflow()).start("go", allow_urls=urls).result(60),
    "a file in a file in a file": nested_file,
    "agentnb exec": lambda p, s, urls: in_shell("exec", p.workflow(), "go", *option(urls)),
    "%%workflow with a file step": file_step,
    "%%workflow --rerun-from": rerun_in_a_cell,
    "rerun_from in Python": rerun_in_python,
    "agentnb recover": lambda p, s, urls: in_shell("recover", p.just_begun(), *option(urls)),
    "agentnb answer": lambda p, s, urls: in_shell("answer", p.suspended(), "yes", *option(urls)),
    "recover an id in Python": lambda p, s, urls: asyncio.run(recover(p.cut_off(), tools=[look], allow_urls=urls)),
    "recover a path in Python": lambda p, s, urls: asyncio.run(
        recover(RUNS / f"{p.cut_off()}.jsonl", tools=[look], allow_urls=urls)
    ),
    "recover a workflow in Python": answered_in_python,
    "recover a workflow whose log names a model": model_of_a_logged_workflow,
    "recover a task file in Python": task_file,
    "%agent recover ID": lambda p, s, urls: in_cell(s, "agent", f"recover {p.cut_off()}{cell_options(urls)}"),
    "%agent recover": lambda p, s, urls: (p.cut_off(), in_cell(s, "agent", f"recover{cell_options(urls)}")),
    "%agent answer": lambda p, s, urls: in_cell(s, "agent", f"answer {p.suspended()}{cell_options(urls)} yes"),
    "%%agent --continue": continued,
    "%%agent --continue from elsewhere": continued_from_elsewhere,
    "fork": lambda p, s, urls: asyncio.run(fork(load_trace(RUNS / f"{p.cut_off()}.jsonl"), 2, tools=[look], allow_urls=urls)),
    "fork_sync": lambda p, s, urls: fork_sync(load_trace(RUNS / f"{p.cut_off()}.jsonl"), 2, allow_urls=urls),
    "fork with options": lambda p, s, urls: fork_sync(
        load_trace(RUNS / f"{p.cut_off()}.jsonl"), 2, options=RunOptions(allow_urls=urls)
    ),
    "a summary": summarised,
    "Agent.run": lambda p, s, urls: asyncio.run(Agent(FileModelName(p.name)).run("go", allow_urls=urls)),
    "Agent.run_sync": lambda p, s, urls: Agent(FileModelName(p.name)).run_sync("go", show=False, allow_urls=urls),
    "Agent.start": lambda p, s, urls: Agent(FileModelName(p.name)).start("go", allow_urls=urls).result(60),
    "Agent.stream": streamed,
}


def test_every_entry_point_requires_the_users_consent(place: Place, shell: InteractiveShell, subtests: pytest.Subtests) -> None:
    for entry_point, use in ENTRY_POINTS.items():
        with subtests.test(entry_point):
            with place.alone(), pytest.raises(UrlNotAllowed):
                use(place, shell, [])
            assert place.received() == []
            with place.alone():
                use(place, shell, [place.allowed])
            assert place.received().count(200) >= 1, "the key arrives where the person allows it"


def text_of_a_cell(place: Place, shell: InteractiveShell) -> None:
    in_cell(shell, "workflow", "", place.workflow().read_text("utf-8"))


def in_defaults(place: Place, shell: InteractiveShell) -> None:
    in_cell(shell, "agent", f"defaults model={place.name}")
    in_cell(shell, "agent", "", "Go")
    in_cell(shell, "agent", "defaults model=")


def in_the_environment(place: Place, shell: InteractiveShell, variable: str, value: str, use: Callable[[], Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, value)
        use()


def without_a_model() -> Path:
    path = Path("plain.yaml")
    path.write_text("agents: {a: {}}\nworkflow: [{type: agent, name: a, prompt: Go}]\n", "utf-8")
    return path


WORDS: dict[str, Callable[[Place, InteractiveShell], Any]] = {
    "%%agent -m": lambda p, s: in_cell(s, "agent", f"-m {p.name}", "Go"),
    "%%workflow -m": lambda p, s: in_cell(s, "workflow", f"-m {p.name}", without_a_model().read_text("utf-8")),
    "the text of a cell": text_of_a_cell,
    "%agent defaults": in_defaults,
    "%agent recover -m": lambda p, s: in_cell(s, "agent", f"recover {p.cut_off()} -m {p.name}"),
    "AGENTNB_MODEL": lambda p, s: in_the_environment(p, s, "AGENTNB_MODEL", p.name, lambda: in_cell(s, "agent", "", "Go")),
    "AGENTNB_ALLOW_URLS": lambda p, s: in_the_environment(
        p, s, "AGENTNB_ALLOW_URLS", p.allowed, lambda: in_shell("exec", p.workflow(), "go")
    ),
    "agentnb exec -m": lambda p, s: in_shell("exec", without_a_model(), "-m", p.name),
    "agentnb recover -m": lambda p, s: in_shell("recover", p.just_begun(), "-m", p.name),
    "Agent in Python": lambda p, s: Agent(p.name).run_sync("go", show=False),
    "Workflow in Python": lambda p, s: Workflow.from_yaml(without_a_model()).run_sync("go", model=p.name, show=False),
    "recover in Python": lambda p, s: asyncio.run(recover(p.cut_off(), tools=[look], model=p.name)),
    "fork in Python": lambda p, s: fork_sync(load_trace(RUNS / f"{p.cut_off()}.jsonl"), 2, model=p.name),
}


def test_choice_by_the_user_is_sufficient_consent(place: Place, shell: InteractiveShell, subtests: pytest.Subtests) -> None:
    for word, use in WORDS.items():
        with subtests.test(word), place.alone():
            use(place, shell)
            assert place.received().count(200) >= 1


def test_conversation_continues_at_its_original_destination(place: Place, shell: InteractiveShell) -> None:
    in_cell(shell, "agent", f"-m {place.name}", "Go")
    in_cell(shell, "agent", "--continue", "More")
    assert place.received() == [200, 200]


def test_reproduced_run_contacts_no_server(place: Place, shell: InteractiveShell) -> None:
    run = Agent(ScriptedModel(["Done."], name=place.name)).run_sync("go", store=Store(RUNS), show=False)
    assert reproduce_sync(load_trace(RUNS / f"{run.id}.jsonl")).text == "Done."
    assert place.received() == []


def test_notebook_asks_once_per_url(
    place: Place, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    answers = ["n", "y"]

    def answer(text: str = "") -> str:
        asked.append(text)
        return answers.pop(0)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    with place.alone(), pytest.raises(UrlNotAllowed):
        file_step(place, shell, [])
    assert place.received() == [] and not (tmp_path / "personal").exists()
    for _ in range(2):
        with place.alone():
            file_step(place, shell, [])
    assert place.received() == [200, 200]
    assert len(asked) == 2 and all(place.address in one and VARIABLE in one for one in asked)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and allowed_urls.FILE in path.name]
    assert written == [tmp_path / "personal" / allowed_urls.FILE]


def test_terminal_asks_about_a_url_before_anything_runs(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(program, "is_at_terminal", lambda: True)
    for command in (["exec", place.workflow(), "go"], ["recover", place.just_begun()], ["answer", place.suspended(), "yes"]):
        with subtests.test(command[0]), place.alone():
            monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
            assert main([*map(str, command)]) == 2 and place.received() == []
            capsys.readouterr()
            monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
            assert main([*map(str, command)]) == 0 and place.received() == [200]
            told = capsys.readouterr().err
            assert told.count(f"{place.address}. The key in {VARIABLE} would go there") == 1
            assert told.startswith("A file or log refers to a model at")
            (settings.personal_folder() / allowed_urls.FILE).unlink()
    for option_of_exec in (["go", "--no-input"], ["-"]):
        with subtests.test(option_of_exec), place.alone():
            monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
            assert main(["exec", "work.yaml", *option_of_exec]) == 2 and place.received() == []
            assert f"--allow-url '{place.allowed}'" in capsys.readouterr().err


def test_run_that_waits_again_names_its_allowed_urls(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path = place.workflow("asks.yaml", "{type: human, id: h, ask: 'Yes?', confirm: true}, ")
    assert main(["exec", str(path), "--allow-url", place.allowed]) == 4
    assert capsys.readouterr().err.splitlines()[-1].endswith(f" --allow-url '{place.allowed}'")


def test_local_server_gets_a_key_only_with_consent(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    text = f'agents: {{a: {{model: "openai:m?url={place.server.url}/v1"}}}}\nworkflow: [{{type: agent, name: a, prompt: Go}}]\n'
    with pytest.raises(WorkflowError, match="requires a key"):
        Workflow.from_yaml(text).run_sync("go", show=False)
    assert [request.answered for request in place.server.requests] == [401]
    place.server.requests.clear()
    Workflow.from_yaml(text).run_sync("go", show=False, allow_urls=[f"{place.server.url}&key=OPENAI_API_KEY"])
    assert [request.answered for request in place.server.requests] == [200]


def test_panel_does_not_offer_disallowed_models_from_logs(place: Place) -> None:
    unclear = "compatible:m?url=http://b\u00fccher.example"
    used = [place.name, "ollama:m", unclear, "anthropic:m?url=http://127.0.0.1:1"]
    assert [name for name in models_to_offer(Session(), {}, used) if name in used] == ["ollama:m"]
    allowed_urls.allow_urls([place.allowed])
    assert [name for name in models_to_offer(Session(), {}, used) if name in used] == [place.name, "ollama:m"]


def test_own_log_keeps_only_consent_given_by_the_user(place: Place, subtests: pytest.Subtests) -> None:
    for kind in (str, FileModelName):
        with place.alone(place.allowed):
            run = Agent(kind(place.name)).run_sync("go", store=Store(RUNS), show=False)
        with subtests.test("own", kind=kind):
            assert type(from_log.logged_model(load_trace(RUNS / f"{run.id}.jsonl"))) is kind
        from_elsewhere(run.id)
        with subtests.test("from elsewhere", kind=kind):
            assert type(from_log.logged_model(load_trace(RUNS / f"{run.id}.jsonl"))) is FileModelName


def test_own_log_of_a_typed_workflow_counts_as_consent(
    place: Place, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    text = place.workflow().read_text("utf-8")
    with place.alone(place.allowed):
        in_cell(shell, "workflow", "", text)
        typed: Run = shell.user_ns["run"]
        read = Workflow.from_yaml(text).run_sync("go", show=False)
    for known in (False, True):
        monkeypatch.setattr(workflow_module, "is_trusted", lambda run, known=known: known)
        for run, kind in ((typed, str if known else FileModelName), (read, FileModelName)):
            with subtests.test(known=known, typed=run is typed):
                assert type(Workflow.of_run(run).spec.agents["a"].model) is kind
