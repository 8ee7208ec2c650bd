"""A key planted at any entry point is exposed nowhere: not in the log, the run, the card, a request, or an error.

`ENTRY_POINTS` lists the ways in which text reaches a run or the user. Add new ways there.
"""

from __future__ import annotations

import html
import io
import itertools
import json
import os
import re
import threading
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from git_repositories import GitRepository
from github_server import Answer, GitHubServer, issue
from quick_models import quick
from streamed_replies import Streamed, Streaming
from summarising import Summarising
from web_servers import Reply as WebReply
from web_servers import WebServer, redirect

from agentnb import Agent, Run, Store, Workflow, diff, import_traces, load_trace, save_trace, settings, tables, to_code
from agentnb.context.history_settings import History
from agentnb.context.request_builder import RequestBuilder
from agentnb.core.guidance import Guidance
from agentnb.core.log.events import AnyEvent, Delta, Event, QuestionAnswered, QuestionAsked, TextDelta, ThinkingDelta
from agentnb.core.log.wire import encode
from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.redaction import redact
from agentnb.core.todos import Todos
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.lists.history_list import history_text
from agentnb.display.lists.undo_text import undo_text
from agentnb.errors import ModelError, SettingsError, TraceError
from agentnb.models.model import Reply, Retry
from agentnb.models.scripted import ScriptedModel
from agentnb.notebook.card.view import CardView
from agentnb.notebook.commands import tools
from agentnb.notebook.commands.todos_command import todo_text
from agentnb.notebook.dry import dry_text
from agentnb.notebook.magic_errors import one_line_errors
from agentnb.notebook.widget_tools import error_words
from agentnb.policies import Continue, Stop
from agentnb.policies.gates.gate_verdicts import Block
from agentnb.rerun.undo.undoing import undo_run
from agentnb.runtime.host.live_run import LiveRun
from agentnb.session.session import Session
from agentnb.testing import LoopbackServer, Misbehaviour, Status
from agentnb.testing.replies.lines import as_answer
from agentnb.testing.replies.reply_format import Asked, Delivery, Wire
from agentnb.tools.builtin.github.github_group import GitHub
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.builtin.web.web_group import Web
from agentnb.tools.todos.board import TodoBoard
from agentnb.tools.tool import ToolContext, ToolOutcome

KEY = "sk-test-0123456789abcdef"
ESCAPED = KEY.replace("-", "\\u002d")
OTHER = "or-fedcba9876543210"


class Bench:
    """Makes runs, and collects everything visible of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.store = Store(folder / "runs")
        self.seen: dict[str, list[str]] = {}
        self.live: LiveRun | None = None
        self.runs: list[Run] = []

    def see(self, place: str, *texts: object) -> None:
        self.seen.setdefault(place, []).extend(map(str, texts))

    def run(self, *replies: Any, model: Any = None, prompt: str = "go", **settings_: Any) -> Run:
        """Return a run with a scripted model or the given one, seen from everywhere. ``answer`` is for its tool's questions."""
        rules, before, answer = (settings_.pop(name, None) for name in ("rules", "continue_from", "answer"))
        model = model or ScriptedModel(replies)
        agent = Agent(model, **settings_)
        if rules:
            object.__setattr__(agent, "bundle", agent.bundle._replace(**rules))
        self.dry(agent, prompt)
        card = LiveCard()
        run = None
        started, asked = threading.Event(), threading.Event()

        def watch(item: AnyEvent | Delta) -> None:
            started.wait(20)
            self.see("told to watchers", encode(item).decode() if isinstance(item, Event) else item.text)
            card.take(item)
            self.see("live card", json.dumps([card.frame(), card.whole()]))
            if isinstance(item, QuestionAsked):
                asked.set()

        try:
            self.live = agent.start(prompt, store=self.store, watch=watch, continue_from=before)
            started.set()
            if answer is not None:
                assert asked.wait(20)
                self.live.answer(answer)
            run = self.live.result(30)
        except Exception as error:
            self.error(error)
            run = self.live.run if self.live is not None else None
        self.see("requests", *[(one.system, list(one.messages), one.tools) for one in getattr(model, "requests", ())])
        if run is not None and run.events:
            self.look_at(run)
        return run or Run()

    def dry(self, agent: Agent, prompt: str) -> None:
        request = agent.first_request(prompt)
        self.see("dry run", dry_text("scripted:script", request), (request.system, list(request.messages), request.tools))

    def error(self, error: BaseException) -> None:
        """Show an error that the user gets."""
        self.see("errors", error, repr(error), repr(error.args), *traceback.format_exception(error))

    def look_at(self, run: Run) -> None:
        self.runs.append(run)
        self.see("log in memory", *[encode(event).decode() for event in run.events])
        state = (run.prompt, run.system, run.tools, run.settings, run.messages, run.text, run.todos, run.warnings, run.error)
        self.see("run", state, run.rounds, run.waiting, run.questions, run.conversation_todos, run.agent, run.model)
        self.see("page", page_html(run), run_html(run), run_text(run))

    def look_at_tables(self, runs: list[Run]) -> None:
        for name in tables.NAMES:
            self.see("tables", getattr(tables, name)(runs).to_csv())

    def leaks(self) -> list[str]:
        """Return the places that show the key, in any spelling."""
        files = [path.read_text(encoding="utf-8") for path in self.folder.rglob("*.jsonl")]
        places = {"log file": files, **self.seen}
        told = {place: plain("\n".join(texts)) for place, texts in places.items()}
        return [f"{place}: {known}" for place, text in told.items() for known in (KEY[:20], OTHER) if known in text]


def plain(text: str) -> str:
    """Return the text with JSON and HTML escapes undone twice."""
    found = [text]
    for _ in range(2):
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda one: chr(int(one[1], 16)), html.unescape(text))
        found.append(text)
    return "\n".join(found)


@pytest.fixture
def new_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Bench]:
    """Create a bench in a process that knows one key from the environment."""
    numbers = itertools.count()

    def made() -> Bench:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        for name in ("OPENAI_API_KEY", "GITHUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)  # an earlier entry may have set it
        monkeypatch.setattr(settings, "_held", settings._Held())
        folder = tmp_path / f"bench{next(numbers)}"
        folder.mkdir()
        return Bench(folder, monkeypatch)

    return made


# Entry points: tool output


def gives(value: Any) -> Callable[[Bench], None]:
    """Let a tool return this."""

    def plant(bench: Bench) -> None:
        def look() -> Any:
            """Look."""
            return value

        bench.run(ToolCall("look"), "Done.", tools=[look])

    return plant


def raises(bench: Bench) -> None:
    def fail() -> None:
        """Fail."""
        raise RuntimeError(f"401 for {os.environ['ANTHROPIC_API_KEY']}")

    def fail_from() -> None:
        """Fail with a cause."""
        try:
            fail()
        except RuntimeError as error:
            raise ValueError("no luck") from error

    bench.run(ToolCall("fail"), ToolCall("fail_from"), "Done.", tools=[fail, fail_from])


def result_table(bench: Bench) -> None:
    frame = pd.DataFrame({"value": [f"key: {KEY}", "x", 1.5], KEY: [1, 2, 3]}, index=[KEY, "b", "c"])
    gives(frame)(bench)


def outcome(**fields: Any) -> Callable[[Bench], None]:
    """Let a tool return an outcome with this."""

    def plant(bench: Bench) -> None:
        async def look() -> ToolOutcome:
            """Look."""
            return ToolOutcome(**{"ok": False, "parts": (Text("no"), Image("image/png", b"1")), **fields})

        bench.run(ToolCall("look"), "Done.", tools=[look])

    return plant


def read_on_in_a_result(bench: Bench) -> None:
    def look() -> str:
        """Look."""
        return "x" * 3000 + KEY + "y" * 3000

    call = ToolCall("read_tool_result", {"call_id": "a", "start": 2900})
    bench.run(ToolCall("look", {}, "a"), call, "Done.", tools=[look], history=History(result_characters=1000))


# Entry points: text of the user or the agent's author


def tool_schema(bench: Bench) -> None:
    def fetch(url: str, token: str = os.environ["ANTHROPIC_API_KEY"]) -> str:
        """Fetch."""
        return f"{url} with {token == KEY}"

    run = bench.run(ToolCall("fetch", {"url": "a"}), "Done.", tools=[fetch])
    assert run.rounds[0].results[0].text == "a with True"  # the tool has its default


def tool_description(bench: Bench) -> None:
    def fetch() -> str:
        return "nothing"

    fetch.__doc__ = f"Fetch with {KEY}."
    bench.run(ToolCall("fetch"), "Done.", tools=[fetch])


def repository_instructions(bench: Bench) -> None:
    (bench.folder / "AGENTS.md").write_text(f"Be kind. export ANTHROPIC_API_KEY={KEY}", encoding="utf-8")
    before = bench.run("Hello.", work_dir=bench.folder)
    assert "Be kind. export ANTHROPIC_API_KEY=[key]" in before.system
    bench.run("Well.", work_dir=bench.folder, continue_from=before)


def said_while_it_runs(bench: Bench) -> None:
    def wait() -> str:
        """Say something while it runs."""
        assert bench.live is not None
        bench.live.say(f"use {KEY}")
        return "ok"

    bench.run(ToolCall("wait"), "Done.", "Done.", tools=[wait])


def said_to_the_card(bench: Bench) -> None:
    card = LiveCard()
    run = bench.run("Done.")
    for event in run.events[:2]:
        card.take(event)
    card.note_command("say", f"use {KEY}")
    bench.see("live card", card.whole())
    bench.see("log in memory", "[key]" in json.dumps(card.whole()) and "[key]")


def rules(**given: Any) -> Callable[[Bench], None]:
    """Put this into guides, policies and the line with each request."""
    return lambda bench: bench.run("Hm.", "Hm.", rules=given) and None


def once(run: Run) -> Continue | None:
    """A policy that continues once, with these words."""
    return Continue("said", f"Go on with {KEY}", (Guidance("own", "text", f"And {KEY}"),)) if len(run.rounds) == 1 else None


def gate(bench: Bench) -> None:
    def closed(call: ToolCall, run: Run) -> Block:
        return Block(KEY, ToolResult(call.id, call.name, (Text(f"no {KEY}"),), True, KEY))

    bench.run(ToolCall("look"), "Done.", tools=[lambda_tool], rules={"gates": (closed,)})


def older_conversation(bench: Bench) -> None:
    """Continue a run of a process that did not know the key yet."""
    bench.monkeypatch.delenv("ANTHROPIC_API_KEY")
    bench.monkeypatch.setattr(settings, "_held", settings._Held())
    before = Agent(ScriptedModel([ToolCall("look", {"a": KEY}, KEY), f"It is {KEY}"])).run_sync(f"Is it {KEY}?")
    assert KEY in before.text
    bench.monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    bench.run("Well.", continue_from=before)


# Entry points: the todo list


def board_of_the_person(bench: Bench) -> None:
    class ReadAnew(TodoBoard):
        def read(self) -> Any:
            return list(super().read())

    board = ReadAnew()
    board.add(f"Log in with {KEY}")
    run = bench.run("Hm.", "Hm.", "Done.", todos=board)
    assert len([event for event in run.events if type(event).__name__ == "TodosChanged"]) <= 1  # the list is equal at each look
    bench.see("printed", todo_text(board))


def board_that_cannot_be_read(bench: Bench) -> None:
    class Broken(TodoBoard):
        def read(self) -> Todos:
            raise OSError(f"401 for {KEY}")

    assert len(bench.run("Done.", todos=Broken()).warnings) == 1


def todos_of_the_model(bench: Bench) -> None:
    todo = {"id": 1, "title": f"Log in with {KEY}", "status": "not-started"}
    bench.run(ToolCall("agent_manage_todos", {"operation": "write", "todoList": [todo]}), "Hm.", "Hm.", "Hm.", todos=True)


# Entry points: questions


def question(schema: dict[str, Any] | None, answer: Any, got: Any) -> Callable[[Bench], None]:
    """Let a tool ask, and answer it."""

    def plant(bench: Bench) -> None:
        heard = []

        async def ask(context: ToolContext) -> str:
            """Ask."""
            heard.append(await context.ask(f"Is it {KEY}?", schema))
            return str(heard[0])

        run = bench.run(ToolCall("ask"), "Done.", tools=[ask], answer=answer)
        assert heard == [got]
        assert [event.answer for event in run.events if isinstance(event, QuestionAnswered)] == [redact(answer)]

    return plant


# Entry points: the model and its server


def reply(*parts: Any, **fields: Any) -> Callable[[Bench], None]:
    """Let the model reply this, and then answer."""

    def look(**given: Any) -> str:
        """Look."""
        return f"got {given}"

    return lambda bench: bench.run(Reply(Message("assistant", parts), **fields), "Done.", "Done.", tools=[look]) and None


def arguments(bench: Bench) -> None:
    """The tool gets the arguments as in the log."""
    got = []

    def look(where: str) -> str:
        """Look."""
        got.append(where)
        return where

    bench.run(ToolCall("look", {"where": KEY}), "Done.", tools=[look])
    assert got == ["[key]"]


def ids_alike_without_the_key(bench: Bench) -> None:
    calls = [ToolCall("look", {"n": n}, identity) for n, identity in enumerate((KEY, KEY[:20], f"{KEY}{KEY}"))]
    run = bench.run(calls, [ToolCall("look", {}, KEY)], "Done.", tools=[lambda_tool])
    ids = [record.call.id for round_ in run.rounds for record in round_.records]
    assert len(set(ids)) == 4 and all(record.result for round_ in run.rounds for record in round_.records)


def lambda_tool(n: int = 0) -> str:
    """Look."""
    return "ok"


lambda_tool.__name__ = "look"


def streams(*items: Any) -> Callable[[Bench], None]:
    return lambda bench: bench.run(model=Streaming([Streamed(*items)])) and None


DONE = Reply(Message("assistant", (Text(f"It is {KEY}."),)))
IN_PIECES = [TextDelta(piece) for piece in ("It", " is s", "k-te", "st-0123", "456789abcd", "ef", ".")]
THOUGHTS = [ThinkingDelta(piece) for piece in ("Is it sk-", "test-0123456789a", "bcdef")]


def fails(error: Exception) -> Callable[[Bench], None]:
    """Let the model fail in the first round, and in a later one."""

    def plant(bench: Bench) -> None:
        bench.run(error)
        bench.run(ToolCall("look"), error, tools=[lambda_tool])
        assert all("[key]" in str(run.error) for run in bench.runs)
        assert len(bench.runs) == 2

    return plant


def final_answer_that_does_not_come(bench: Bench) -> None:
    script = [ToolCall("look"), ModelError(f"no {KEY}")]
    assert bench.run(*script, tools=[lambda_tool], max_rounds=1, on_limit="final_answer").warnings


def bug(bench: Bench) -> None:
    """The log is redacted; the exception is shown unchanged, since it is not for the user to correct."""

    def broken(*given: object, **more: object) -> None:
        raise RuntimeError(f"a bug with {KEY}")

    with bench.monkeypatch.context() as patched:
        patched.setattr(RequestBuilder, "request", broken)
        with pytest.raises(RuntimeError):
            Agent(ScriptedModel(["Done."])).run_sync("go", store=bench.store)
    bench.look_at(bench.store.load(bench.store.ids()[-1]))


@dataclass(frozen=True)
class Repeats(Misbehaviour):
    """Run a gateway that repeats the key in all that it generates, and in the reply."""

    line: Any

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        good = wire.deliver(as_answer(self.line), asked)
        made_up = re.compile(rb'("(?:id|call_id|item_id|model|finish_reason|stop_reason)": ?")')
        chunks = [made_up.sub(rb"\g<1>" + KEY.encode(), chunk) for chunk in good.chunks]
        return Delivery(chunks, good.status, good.content_type, good.headers)


def gateway(provider: str) -> Callable[[Bench], None]:
    def plant(bench: Bench) -> None:
        script = [Repeats([f"It is {KEY}", ToolCall("look", {"n": 1, KEY: KEY})]), Repeats(f"Well, {KEY}"), "Done."]
        with LoopbackServer(script) as server:
            bench.run(model=server.model(provider), tools=[lambda_tool], max_rounds=2)
            assert bench.runs[-1].text == "Well, [key]"
            bench.run(model=server.model(provider), continue_from=bench.runs[-1])
            bench.see("requests", *[request.raw.decode() for request in server.requests])
            assert [request.answered for request in server.requests] == [200, 200, 200]

    return plant


def refusal(provider: str) -> Callable[[Bench], None]:
    """Let a server refuse with the key in its message, also where it is cut off."""

    def plant(bench: Bench) -> None:
        script = [Status(401, f"Wrong key {KEY}"), Status(400, "x" * 485 + KEY), Status(503, KEY), Status(400, KEY)]
        with LoopbackServer(script) as server:
            for _ in range(3):
                bench.run(model=quick(server.model(provider)))
        assert all("[key]" in str(run.error) for run in (bench.runs[0], bench.runs[2])) and bench.runs[2].rounds[0].retries

    return plant


def summary(words: Any) -> Callable[[Bench], None]:
    def plant(bench: Bench) -> None:
        model = Summarising([ToolCall("look", {"n": n}) for n in range(4)] + ["Done."], [words], priced=False)
        run = bench.run(model=model, tools=[lambda_tool], history=History(compact_above=6, keep_recent=2))
        assert any(round_.compactions for round_ in run.rounds)

    return plant


# Entry points: GitHub and the web


def github(call: ToolCall, path: str, answer: Answer) -> Callable[[Bench], None]:
    """Let GitHub answer a call like this, with the token in its message."""

    def plant(bench: Bench) -> None:
        bench.monkeypatch.setenv("GITHUB_TOKEN", OTHER)
        with GitHubServer({path: answer}, OTHER) as server:
            tools = [GitHub(repo="octo/tides", url=server.url)]
            bench.run(call, "Done.", tools=tools, permissions={"github": "allow"})
        assert [asked.token for asked in server.asked] == [OTHER] and server.problems == []

    return plant


GET, LIST = ToolCall("github_get_issue", {"number": 12}), ToolCall("github_list_issues", {})
WRITE = ToolCall("github_create_comment", {"number": 12, "body": f"It is {KEY}"})
ISSUES = "/repos/octo/tides/issues"
PLANTED = issue(12, title=f"No {OTHER}", body=f"It is {OTHER}", labels=[OTHER], user={"login": OTHER}, state=OTHER)


def page(answer: WebReply, path: str = "/") -> Callable[[Bench], None]:
    """Fetch a page with the key."""

    def plant(bench: Bench) -> None:
        with WebServer({path: answer}) as server:
            call = ToolCall("web_fetch", {"url": f"http://127.0.0.1:{server.port}{path}"})
            bench.run(call, "Done.", tools=[Web(local=True)], permissions={"network": "allow"})
        assert server.asked

    return plant


# Entry points: the built-in tools of files, git and the shell


def desk(bench: Bench) -> GitRepository:
    """Create a working folder whose files contain the key, one of them in the last commit only."""
    repository = GitRepository.make(bench.folder / "work")
    repository.commit("First", notes_txt=f"It is {KEY}\n", code_py="x = 1\n")
    repository.write("code.py", f"x = '{KEY}'\n")
    return repository


def builtin(*calls: ToolCall, tools: Any, is_error: bool = False) -> Callable[[Bench], None]:
    """Return calls of built-in tools whose results contain the key."""

    def plant(bench: Bench) -> None:
        allowed = {"bash": "allow", "git": "allow", "write_file": "allow"}
        run = bench.run(*calls, "Done.", tools=tools, work_dir=desk(bench).folder, permissions=allowed)
        told = [round_.results[0] for round_ in run.rounds if round_.results]
        assert [(one.is_error, "[key]" in one.text) for one in told] == [(is_error, True)] * len(calls)

    return plant


def bash(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command})


READS = (
    ToolCall("read_file", {"path": "notes.txt"}),
    ToolCall("search_files", {"pattern": "It is"}),
    ToolCall("git_diff", {}),
)
OVERWRITE = ToolCall("write_file", {"path": "notes.txt", "content": f"It was {KEY[::-1]}\n"})


def variables_of_the_shell(bench: Bench) -> None:
    """Values whose names mark them as secrets, though they do not look like keys."""
    shell = Shell(env={"DATABASE_PASSWORD": OTHER, "REGION": "brest"})
    bench.see("errors", shell, repr(shell), shell.as_logged)
    builtin(bash("echo $REGION $DATABASE_PASSWORD"), bash("env >&2"), tools=[shell])(bench)
    assert bench.runs[-1].rounds[0].results[0].text == "brest [key]\n"


def question_about(call: ToolCall, shown: str) -> Callable[[Bench], None]:
    """Ask the user about a call, and show this of it."""

    def plant(bench: Bench) -> None:
        folder, rules_ = desk(bench).folder, {call.name: "ask"}
        run = bench.run(call, "Done.", tools=["files", "shell"], work_dir=folder, permissions=rules_, answer="approve")
        (asked,) = [encode(event).decode() for event in run.events if isinstance(event, QuestionAsked)]
        assert shown in asked
        assert not run.rounds[0].results[0].is_error

    return plant


def file_before_it_is_written(bench: Bench) -> None:
    folder = desk(bench).folder
    run = bench.run(
        ToolCall("read_file", {"path": "notes.txt"}),
        OVERWRITE,
        "Done.",
        tools=["files"],
        work_dir=folder,
        permissions={"write_file": "allow"},
    )
    assert (folder / "notes.txt").read_text() == OVERWRITE.arguments["content"]
    for kept in (bench.folder / "runs").glob(".before-*/*"):
        bench.see("before-images", kept.read_text())
    bench.see("undo", undo_text(undo_run(bench.store, run.id)))


# Entry points: keys that become known late


def typed_while_it_runs(bench: Bench) -> None:
    def look() -> str:
        """Look."""
        settings.keep_key("OPENROUTER_API_KEY", OTHER)
        return OTHER

    bench.run(ToolCall("look"), f"It is {OTHER}", tools=[look])


def set_by_a_tool(bench: Bench) -> None:
    """As after loading a file of variables."""

    def look() -> str:
        """Look."""
        bench.monkeypatch.setenv("OPENAI_API_KEY", OTHER)
        return OTHER

    bench.run(ToolCall("look"), f"It is {OTHER}", tools=[look])


def forgotten_while_it_runs(bench: Bench) -> None:
    settings.keep_key("OPENROUTER_API_KEY", OTHER)

    def look() -> str:
        """Look."""
        settings.forget_key("OPENROUTER_API_KEY")
        return OTHER

    bench.run(ToolCall("look"), f"It is {OTHER}", tools=[look])


# Entry points: errors and output beside runs


def error_of_a_magic(bench: Bench) -> None:
    @one_line_errors
    def magic() -> None:
        raise SettingsError(f"no {KEY}", f"take {KEY}") from ValueError(KEY)

    with pytest.raises(SettingsError) as caught:
        magic()
    bench.error(caught.value)
    bench.see("printed", *caught.value._render_traceback_())  # type: ignore[attr-defined]


def error_in_a_widget(bench: Bench) -> None:
    refused = SettingsError(f"no {KEY}", f"take {KEY}")
    bench.see("errors", *[error_words(error, "An action") for error in (refused, ValueError(f"That failed: {KEY}"))])


def todos_in_the_card(bench: Bench) -> None:
    """Let the card read the board itself."""
    board = TodoBoard()
    board.add(f"Log in with {KEY}")
    view = CardView.__new__(CardView)
    view._live = cast(Any, SimpleNamespace(board=board))
    view._card = cast(Any, SimpleNamespace(run=SimpleNamespace(should_continue=True, is_suspended=False)))
    bench.see("live card", view._todos())


def listed_tool(bench: Bench) -> None:
    """Show ``%agent tools NAME``."""

    def fetch(token: str = KEY) -> str:
        """Fetch."""
        return token

    with redirect_stdout(io.StringIO()) as printed:
        tools(Session(), cast(Any, SimpleNamespace(user_ns={"fetch": fetch})), "fetch")
    bench.see("printed", printed.getvalue())


def file_before_a_change(bench: Bench) -> None:
    """Change a file with a key in its content, name and new content; another file gets it meanwhile."""
    work = bench.folder / "work"
    work.mkdir()

    async def edit(context: ToolContext) -> str:
        """Edit."""
        for name, before, after in ((KEY, b"old", b"new"), ("a", KEY.encode(), b"new"), ("b", b"old", KEY.encode())):
            context.keep_before(work / name, before, after)
        return KEY

    run = bench.run(ToolCall("edit"), "Done.", tools=[edit], work_dir=work)
    (folder,) = (bench.folder / "runs").glob(".before-*")
    bench.see("before-images", *[file.read_text() for file in folder.iterdir()])
    bench.see("undo", undo_text(undo_run(bench.store, run.id)))


ENTRY_POINTS: dict[str, Callable[[Bench], object]] = {
    "file: before it is changed": file_before_a_change,
    "result: text": gives(f"key: {KEY}"),
    "result: plain data": gives({"key": KEY, KEY: [KEY]}),
    "result: escaped as in JSON": gives(f'{{"key": "{ESCAPED}", "deep": "{{\\"key\\": \\"{ESCAPED}\\"}}"}}'),
    "result: escaped as in Markdown and HTML": gives(f"sk\\-{KEY[3:]} sk&#45;{KEY[3:]}"),
    "result: parts": outcome(parts=(Text(KEY), Image("image/png", b"1"), Text(f"and {KEY}"))),
    "result: table for the eye": result_table,
    "result: error code": outcome(error_code=KEY),
    "result: exception": raises,
    "result: read on in a long one": read_on_in_a_result,
    "tool: default value in its schema": tool_schema,
    "tool: description": tool_description,
    "system prompt": lambda bench: bench.run("Done.", system=f"Use {KEY}."),
    "name of the agent": lambda bench: bench.run("Done.", name=f"agent {KEY}"),
    "name of the model": lambda bench: bench.run(model=ScriptedModel(["Done."], name=f"scripted:{KEY}")),
    "instructions of the repository": repository_instructions,
    "prompt": lambda bench: bench.run("Done.", prompt=f"Use {KEY}."),
    "conversation of an older run": older_conversation,
    "said while it runs": said_while_it_runs,
    "said to the card, not yet read": said_to_the_card,
    "guide": rules(guides=(lambda run: Guidance("own", "text", f"Use {KEY}"),)),
    "policy": rules(policies=(once,)),
    "policy: reason to stop": rules(policies=(lambda run: Stop(KEY, "stopped", problem=f"no {KEY}", hint=KEY, warning=KEY),)),
    "gate": gate,
    "line with each request": rules(note=lambda run: f"Use {KEY}"),
    "todos: board of the person": board_of_the_person,
    "todos: board that cannot be read": board_that_cannot_be_read,
    "todos: of the model": todos_of_the_model,
    "question: text and answer": question(None, f"It is {KEY}", f"It is {KEY}"),
    "question: choices": question({"type": "string", "enum": [KEY, "none"]}, "[key]", "[key]"),
    "question: names of fields": question({"type": "object", "properties": {KEY: {"default": KEY}}}, {KEY: KEY}, {KEY: KEY}),
    "reply: text": reply(Text(f"It is {KEY}")),
    "reply: text, escaped as in Markdown": reply(Text(f"It is sk\\-{KEY[3:]} or sk&#45;{KEY[3:]}")),
    "reply: thinking": reply(Thinking(f"It is {KEY}"), Text("Hm.")),
    "reply: arguments": arguments,
    "reply: names of arguments, nested": reply(ToolCall("look", {"given": [{KEY: {"a": [KEY]}}]})),
    "reply: arguments that are no object": reply(ToolCall("look", f"not JSON {KEY}")),
    "reply: name of the tool": reply(ToolCall(KEY)),
    "reply: id of the call": reply(ToolCall("look", {}, KEY)),
    "reply: ids that are alike without it": ids_alike_without_the_key,
    "reply: metadata of a part": reply(Text("Hm.", {"id": KEY})),
    "reply: stop reason": reply(Text("Hm."), stop_reason=KEY),
    "reply: metadata": reply(Text("Hm."), metadata={"id": KEY, "model": KEY, KEY: [KEY]}),
    "stream: in pieces": streams(*IN_PIECES, DONE),
    "stream: thoughts in pieces": streams(*THOUGHTS, TextDelta(KEY[:9]), DONE),
    "stream: broken off": streams(*IN_PIECES, ModelError("gone")),
    "stream: broken off in the key": streams(*IN_PIECES[:-2], TextDelta("abc"), ModelError("gone")),
    "stream: tried again": streams(*IN_PIECES, Retry(1, 0.0, f"503 {KEY}"), *IN_PIECES, DONE),
    "stream: no reply at its end": streams(*IN_PIECES),
    "error of the model": fails(ModelError(f"no {KEY}", f"take {KEY}")),
    "error of the model's code": fails(RuntimeError(f"illegal header {KEY}")),
    "error: no final answer": final_answer_that_does_not_come,
    "error: a bug": bug,
    "gateway: Messages": gateway("anthropic"),
    "gateway: Chat Completions": gateway("compatible"),
    "gateway: Responses": gateway("openai-responses"),
    "refusal: Messages": refusal("anthropic"),
    "refusal: Chat Completions": refusal("compatible"),
    "GitHub: refusal": github(GET, f"{ISSUES}/12", Answer(401, {"message": f"Bad credentials: {OTHER}"})),
    "GitHub: refusal, cut off in the key": github(GET, f"{ISSUES}/12", Answer(422, {"message": f"{OTHER} {'x' * 290}{OTHER}"})),
    "GitHub: issue": github(GET, f"{ISSUES}/12", Answer(200, PLANTED)),
    "GitHub: issues": github(LIST, ISSUES, Answer(200, [PLANTED])),
    "GitHub: moved": github(LIST, ISSUES, Answer(200, [{**PLANTED, "repository_url": f"https://x/repos/octo/{OTHER}"}])),
    "GitHub: comment": github(WRITE, f"{ISSUES}/12/comments", Answer(201, {"html_url": f"https://x/{OTHER}"})),
    "web: page": page(WebReply(f"<title>{KEY}</title><p>It is {KEY} or sk&#45;{KEY[3:]}. <a href='/{KEY}'>Look</a>")),
    "web: type": page(WebReply("x", f"application/{KEY}")),
    "web: redirect": page(redirect(f"https://other.test/?key={KEY}")),
    "files and git: what they read": builtin(*READS, tools=["files", "git"]),
    "bash: output": builtin(bash("cat notes.txt"), bash("cat notes.txt >&2"), tools=["shell"]),
    "bash: output of a failure": builtin(bash("cat notes.txt; cat code.py >&2; exit 3"), tools=["shell"], is_error=True),
    "bash: variables": variables_of_the_shell,
    "bash: question": question_about(bash(f"echo {KEY}"), "echo [key]"),
    "write_file: question": question_about(OVERWRITE, "-It is [key]"),
    "write_file: before it is written": file_before_it_is_written,
    "summary": summary(f"Call the server with {KEY}."),
    "summary: error": summary(RuntimeError(f"illegal header {KEY}")),
    "key: typed while it runs": typed_while_it_runs,
    "key: set by a tool": set_by_a_tool,
    "key: forgotten while it runs": forgotten_while_it_runs,
    "todos: in the card": todos_in_the_card,
    "tool: listed for the person": listed_tool,
    "error of a magic": error_of_a_magic,
    "error in a widget": error_in_a_widget,
}


@pytest.mark.slow("a key at each of 83 entry points, most with their own run")
@pytest.mark.req("R2.35", "R2.38")
def test_planted_key_is_never_exposed_from_any_entry_point(new_bench: Callable[[], Bench], subtests: pytest.Subtests) -> None:
    runs: list[Run] = []
    for entry_point, plant in ENTRY_POINTS.items():
        with subtests.test(entry_point):
            bench = new_bench()
            plant(bench)
            runs += bench.runs
            assert bench.leaks() == []
            seen = " ".join(text for texts in bench.seen.values() for text in texts)
            assert "[key]" in seen  # the key was there
    bench = new_bench()
    bench.look_at_tables(runs)
    assert bench.leaks() == []


# Unchanged text


def test_other_text_of_a_result_is_unchanged(new_bench: Callable[[], Bench]) -> None:
    bench = new_bench()
    outcome(ok=True, parts=(Text(f"key: {KEY}"), Image("image/png", b"1")))(bench)
    assert bench.runs[0].rounds[0].results[0].parts == (Text("key: [key]"), Image("image/png", b"1"))
    result_table(bench)
    display = bench.runs[1].rounds[0].records[0].display
    assert display is not None and display.columns == ("value", "[key]")
    assert display.rows == (("[key]", "key: [key]", 1), ("b", "x", 2), ("c", 1.5, 3))


def test_all_known_keys_are_masked(new_bench: Callable[[], Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = new_bench()
    monkeypatch.setenv("OPENROUTER_API_KEY", OTHER)
    settings.find_key("OPENROUTER_API_KEY")
    settings.keep_key("openai", "kept-0123456789")
    gives(f"{KEY} {OTHER} kept-0123456789")(bench)
    assert bench.runs[0].rounds[0].results[0].text == "[key] [key] [key]"


def test_run_without_keys_is_unchanged(new_bench: Callable[[], Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = new_bench()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    streams(*IN_PIECES, DONE)(bench)
    gives(KEY)(bench)
    assert bench.runs[0].text == f"It is {KEY}." and bench.runs[1].rounds[0].results[0].text == KEY
    assert [one for one in bench.seen["told to watchers"] if not one.startswith("{")][:7] == [one.text for one in IN_PIECES]


# Foreign files


NAMED = "litellm-0123456789-fedcba"
WORKFLOW = """
agents:
  writer: {model: "compatible:x?url=http://localhost:9/v1&key=LITELLM_KEY", replies: [It is %s.]}
workflow:
  - {id: look, type: tool, name: look}
  - {id: write, type: agent, name: writer}
"""


def test_key_named_only_by_a_file_is_masked_at_once(new_bench: Callable[[], Bench]) -> None:
    bench = new_bench()
    bench.monkeypatch.setenv("LITELLM_KEY", NAMED)
    told: list[str] = []

    def look() -> str:
        """Look."""
        return f"got {NAMED}"

    def watch(item: AnyEvent | Delta) -> None:
        told.append(encode(item).decode() if isinstance(item, Event) else item.text)

    workflow = Workflow.from_yaml(WORKFLOW % NAMED, tools=[look])
    run = workflow.run_sync(f"Use {NAMED}", store=bench.store, watch=watch)
    seen = [run_text(run), page_html(run), *told, *[path.read_text() for path in bench.store.folder.glob("*.jsonl")]]
    assert NAMED not in "".join(seen) and "[key]" in run_text(run)


def test_errors_never_repeat_a_key_from_a_file(new_bench: Callable[[], Bench], subtests: pytest.Subtests) -> None:
    bench = new_bench()
    bench.monkeypatch.setenv("LITELLM_KEY", NAMED)
    settings.secrets()
    unknown = "sk-ant-api03-" + "Ab1" * 10
    agents = '{a: {model: "compatible:x?url=http://localhost:9/v1&key=LITELLM_KEY"}}'
    texts = {
        "type": "workflow: [{type: %s, name: a}]",
        "id": "workflow: [{id: %s x, type: agent, name: a}]",
        "name": "workflow: [{type: agent, name: %s}]",
        "goto": "workflow: [{type: goto, goto: %s}]",
        "key of a step": "workflow: [{type: agent, name: a, %s: 1}]",
        "template": "workflow: [{type: agent, name: a, input: '{{ $steps.%s.output }}'}]",
        "key of the file": "%s: 1\nworkflow: [{type: agent, name: a}]",
        "tool": "agents: {b: {tools: [%s]}}\nworkflow: [{type: agent, name: b}]",
        "task file": "stage: %s\ntasks: {%s: {action: %s}}",
        "no YAML": "workflow: [%s: [}",
    }
    for place, text in texts.items():
        for key in (KEY, NAMED, unknown):
            with subtests.test(f"{place}, {key[:6]}"):
                whole = text.replace("%s", key)
                with pytest.raises(SettingsError) as caught:
                    Workflow.from_yaml(f"agents: {agents}\n{whole}" if "agents" not in whole else whole, tools=[])
                bench.error(caught.value)
                assert key not in f"{caught.value} {caught.value!r} {getattr(caught.value, 'problems', '')}"
    with pytest.raises(TraceError) as broken:
        load_trace(_written(bench.folder / f"{KEY}.json", "{}"))
    assert KEY not in str(broken.value) and "[key]" in str(broken.value)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("spelled", [KEY, ESCAPED, f"sk\\-{KEY[3:]}", f"sk&#45;{KEY[3:]}"], ids=["plain", "JSON", "md", "HTML"])
def test_known_key_in_a_foreign_trace_is_never_exposed(new_bench: Callable[[], Bench], spelled: str) -> None:
    bench = new_bench()
    call = {"id": spelled, "type": "function", "function": {"name": "look", "arguments": json.dumps({spelled: spelled})}}
    messages = [
        {"role": "system", "content": f"Use {spelled}"},
        {"role": "user", "content": f"Use {spelled}"},
        {"role": "assistant", "content": f"It is {spelled}", "tool_calls": [call, {**call, "id": f"{spelled}x"}]},
        {"role": "tool", "tool_call_id": spelled, "content": spelled},
        {"role": "tool", "tool_call_id": f"{spelled}x", "content": f"{spelled} again"},
        {"role": "assistant", "content": f"Done with {spelled}."},
    ]
    file = _written(bench.folder / "trace.json", json.dumps({"model": f"gpt {spelled}", "messages": messages}))
    run = load_trace(file)
    assert [record.result is not None for round_ in run.rounds for record in round_.records] == [True, True]
    import_traces(file, bench.store)
    bench.look_at(run)
    bench.look_at(bench.store.load(run.id))
    bench.look_at_tables(bench.runs)
    bench.see("code and exports", to_code(run), diff(run, run))
    for name in ("openai_chat", "anthropic_messages", "otel", "openinference", "sam", "agentnb"):
        bench.see("exports", save_trace(run, bench.folder / f"export.{name}", name).read_text())
    bench.see("lists", history_text(bench.store.summaries(), ""))
    assert bench.leaks() == [] and "[key]" in run_text(run)


def test_key_learned_later_is_masked_when_a_log_is_read(new_bench: Callable[[], Bench]) -> None:
    """Also where only the log names its variable, and in lists and tables cached before."""
    bench = new_bench()
    bench.monkeypatch.delenv("ANTHROPIC_API_KEY")
    run = Agent(ScriptedModel([f"It is {OTHER} and {NAMED}."]), todos=False).run_sync(f"Use {OTHER}", store=bench.store)
    (path,) = bench.store.folder.glob("*.jsonl")
    path.write_text(path.read_text().replace('"model":"scripted:script"', '"model":"compatible:x?key=LITELLM_KEY"'))
    assert OTHER in bench.store.load(run.id).text
    assert OTHER in tables.messages(bench.store, cache=True).to_csv()
    bench.monkeypatch.setenv("LITELLM_KEY", NAMED)
    bench.monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    loaded = bench.store.load(run.id)
    assert loaded.text == "It is [key] and [key]."
    (summary,) = bench.store.summaries()
    assert summary.prompt == "Use [key]"
    for cache in (True, False):
        shown = tables.messages(bench.store, cache=cache).to_csv()
        assert OTHER not in shown and NAMED not in shown and "[key]" in shown


def test_foreign_file_cannot_cause_ordinary_values_to_be_masked(new_bench: Callable[[], Bench]) -> None:
    bench = new_bench()
    for name, text in {"HOMEFOLDER": "/home/somebody/data", "WHO": "somebody", "TERMINAL": "xterm-256color"}.items():
        bench.monkeypatch.setenv(name, text)
        settings.expect_key(name)
        assert text not in settings.secrets()
    for number in range(1000):
        settings.expect_key(f"MANY_{number}")
    assert len(settings._held.mentioned) <= settings.MAX_MENTIONED


SHAPES = {
    "OpenAI": "sk-proj-" + "aB3_" * 12,
    "OpenAI, old": "sk-" + "Ab3d" * 12,
    "Anthropic": "sk-ant-api03-" + "aB3-" * 20,
    "GitHub": "ghp_" + "Ab3d" * 9,
    "GitHub, OAuth": "gho_" + "Ab3d" * 9,
    "GitHub, fine": "github_pat_" + "Ab3d_" * 9,
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE",
    "xAI": "xai-" + "Ab3d" * 10,
    "Groq": "gsk_" + "Ab3d" * 10,
    "Hugging Face": "hf_" + "AbCd" * 9,
    "Google": "AIza" + "Ab3-_" * 7,
    "GitLab": "glpat-" + "Ab3d" * 5,
    "Slack, bot": "xoxb-" + "123456789012-" * 2 + "AbCdEf",
    "Slack, person": "xoxp-" + "123456789012-" * 2 + "AbCdEf",
    "JWT": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow" + "IBAAKCAQEA\n" * 3 + "-----END RSA PRIVATE KEY-----",
}


def test_text_that_looks_like_a_key_is_masked_in_exports(new_bench: Callable[[], Bench], subtests: pytest.Subtests) -> None:
    def look(where: str) -> str:
        """Look."""
        return f"({where})"

    bench = new_bench()
    calls = [ToolCall("look", {"where": key}, f"call {key}") for key in SHAPES.values()]
    escaped = "\n".join(key.replace("-", chr(92) + "-") for key in SHAPES.values())
    asked = "\n".join(f"Use {key}." for key in SHAPES.values())
    run = Agent(ScriptedModel([calls, escaped]), tools=[look], todos=False).run_sync(asked)
    assert run.prompt == asked
    sent = {"code": to_code(run)}
    for name in ("html", "agentnb", "openai_chat", "anthropic_messages", "otel", "openinference", "sam"):
        path = save_trace(run, bench.folder / f"bug.{name}", name)
        sent[name] = path.read_text()
        if name in ("html", "agentnb"):
            again = load_trace(path)
            assert again.status == "completed" and len(again.rounds[0].results) == len(SHAPES)
            sent[f"{name}, loaded"] = "".join(encode(event).decode() for event in again.events)
    compile(sent["code"], "code", "exec")
    for name, text in sent.items():
        assert "looks like a key: masked" in text
        for shape, key in SHAPES.items():
            with subtests.test(f"{name}, {shape}"):
                assert key not in text and json.dumps(key)[1:-1] not in text and key[:30] not in plain(text)


def test_words_that_start_like_keys_are_not_masked(new_bench: Callable[[], Bench]) -> None:
    words = (
        "sk-folding-cube sk-circle-fade-dot task-force-one-hundred-twenty AKIA hf_transfer ghp_ risk-2024 eyJ xoxb gsk_ "
        "anthropic:claude-sonnet-4-5-20250929 20260504-120000-0001a2b3c4d 5D1F0B0E-7C2A-4E51-9B3D-0000000000A1 da39a3ee5e6b4b0d"
    )
    run = Agent(ScriptedModel([words]), todos=False).run_sync(words)
    assert load_trace(save_trace(run, new_bench().folder / "run.html")).text == words
