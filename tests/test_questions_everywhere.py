"""Questions of all kinds and origins: each surface shows the call, its arguments, and controls or a place to answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp_runs import bench, servers
from property_settings import size
from shown_words import words_in
from waiting import PATIENCE, wait_until

from agentnb import Agent, ContextType, Plan, Plans, Run, RunOptions, Store, ToolCall, Workflow, ask_person, tool
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.dialogue import dialogue
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.builtin.files.files_group import Files
from agentnb.tools.tool import ToolContext

__all__ = ["servers"]
FOUND = "found-brest"
"""The argument that a step takes from an earlier one."""
FORM = {"type": "object", "properties": {"seats": {"type": "integer"}, "why": {"type": "string"}}, "required": ["seats"]}
Start = Callable[[str, RunOptions], LiveRun]


@tool(effects={"read"})
def find(station: str) -> str:
    """Find a station."""
    return f"found-{station}"


@tool(effects={"write"})
def send(to: str, text: str) -> str:
    """Send a text."""
    return f"sent to {to}"


@tool(effects={"read"})
async def seat(to: str, text: str, context: ToolContext) -> str:
    """Ask with a form."""
    return str(await context.ask("How many?", FORM))


@tool(effects={"read"})
async def visit(to: str, context: ToolContext) -> str:
    """Ask to open a page."""
    await context.ask_url("Sign in", f"https://example.org/{to}")
    return "visited"


@tool(effects={"write"})
def run_code(code: str, name: str) -> str:
    """Run code."""
    return "ran"


FILES = [tool for tool in Files().tools if tool.spec.name == "edit_file"]
TOOLS = [find, send, seat, visit, run_code, ask_person, *FILES]


class Asked(NamedTuple):
    """A call that leads to a question."""

    tool: str
    arguments: dict[str, Any]
    """``FOUND`` refers to the result of the step before."""
    answers: tuple[str, ...] = ()
    """Further parts of the question in a live card."""
    approve: str = "ask"

    def given(self, found: str) -> dict[str, Any]:
        """Return the arguments, with a reference in place of `FOUND`."""
        return json.loads(json.dumps(self.arguments).replace(FOUND, found))

    @property
    def call(self) -> ToolCall:
        return ToolCall(self.tool, self.arguments)

    def words(self) -> list[str]:
        """Return the parts of each surface besides the question: tool and arguments, with code in lines below their name."""
        if self.tool == "ask_person":
            return []
        lines = [line for value in self.arguments.values() for line in str(value).split("\n") if line]
        return [self.tool, *lines, *[f"{name}:" for name, value in self.arguments.items() if "\n" in str(value)]]


APPROVAL = Asked("send", {"to": FOUND, "text": "the-tail"}, ("Approve", "Also allow later calls", "Reject…", "Edit"))
KINDS = {
    "approval": APPROVAL,
    "approval of code": APPROVAL._replace(tool="run_code", arguments={"code": "print(1)\nprint(2)\n", "name": FOUND}),
    "approval with a change": APPROVAL._replace(tool="edit_file", arguments={"path": FOUND, "old": "two", "new": "2"}),
    "form of a tool": Asked("seat", {"to": FOUND, "text": "the-tail"}, ('name="0"', ">seats<", ">why<", "Decline", "Cancel")),
    "form of a server": Asked(
        "mcp_bench_book", {"train": FOUND}, ('name="0"', ">seats<", ">place<", "Decline", "Cancel"), approve="auto"
    ),
    "address": Asked("visit", {"to": FOUND}, ("Open example.org", "Done", "Decline", "Cancel")),
    "text": Asked("ask_person", {"question": f"Which {FOUND}?"}, ("<textarea", "Decline", "Cancel")),
    "choices": Asked("ask_person", {"question": f"Which {FOUND}?", "options": ["red", "blue"]}, (">red<", ">blue<", "Decline")),
}


def agent(asked: Asked, *replies: Any, tools: Any = (), **settings: Any) -> Agent:
    """Build an agent with a script and all tools; no permission is needed where a server's question is tested."""
    fixed: dict[str, Any] = {"todos": False, "instructions": False, "approve": asked.approve, **settings}
    return Agent(ScriptedModel([*replies, "Done.", "Done."]), tools=[*(tools or [*TOOLS, bench()])], **fixed)


def in_loop(asked: Asked) -> Start:
    return agent(asked, asked.call).start


def in_nested_run(asked: Asked) -> Start:
    inner = agent(asked, asked.call, name="inner")
    return agent(asked, ToolCall("inner", {"prompt": "go"}), tools=[inner], approve="auto").start


def in_inner_call(asked: Asked) -> Start:
    @tool(effects={"read"})
    async def caller(context: ToolContext) -> str:
        return (await context.call(asked.tool, asked.arguments)).text

    return agent(asked, ToolCall("caller", {}), tools=[*TOOLS, caller, bench()]).start


def drafted(asked: Asked, *steps: dict[str, Any], more: tuple[Any, ...] = ()) -> Start:
    usual = {"type": "research", "description": "Do it", "executorRequired": False, "dependsOn": []}
    plan = [{"stepNumber": number, **usual, **one} for number, one in enumerate(steps, 1)]
    call = ToolCall("agent_create_plan", {"objective": "x", "execution_mode": "draft_only"}, "c1")
    replies = (call, json.dumps({"steps": plan, "reasoning": "So."}), "Shall it run?", *more)
    made = agent(asked, *replies, extensions=[Plans()])
    return ContextType.named("project").apply(made, "harbour").start


def in_draft(asked: Asked) -> Start:
    first = {"tools": ["find"], "args": {"station": "brest"}}
    return drafted(asked, first, {"tools": [asked.tool], "args": asked.given("$step[0].output"), "dependsOn": [1]})


def in_agent_of_draft(asked: Asked) -> Start:
    return drafted(asked, {"tools": [asked.tool], "executorRequired": True}, more=(asked.call,))


def steps_of(asked: Asked) -> list[dict[str, Any]]:
    find_it = {"type": "tool", "name": "find", "args": {"station": "brest"}}
    return [find_it, {"type": "tool", "name": asked.tool, "args": asked.given("$step[0].output")}]


def in_plan(asked: Asked) -> Start:
    plan = Plan.read({"steps": steps_of(asked)})
    return lambda prompt, options: plan.start(options, tools=[*TOOLS, bench()], approve=asked.approve)


def in_planner(asked: Asked) -> Start:
    model = ScriptedModel([json.dumps({"steps": steps_of(asked)}), "Done."])
    planner = Workflow.planner([*TOOLS, bench()])
    return lambda prompt, options: planner.start(prompt, options, model=model, approve=asked.approve)


def in_step(asked: Asked) -> Start:
    first = {"id": "first", "type": "tool", "name": "find", "args": {"station": "brest"}}
    second = {"id": "second", "type": "tool", "name": asked.tool, "args": asked.given("{{ $steps.first.output }}")}
    workflow = Workflow.from_yaml(json.dumps({"workflow": [first, second]}), tools=[*TOOLS, bench()])
    return lambda prompt, options: workflow.start(prompt, options, approve=asked.approve)


def in_agent_step(asked: Asked) -> Start:
    text = "workflow:\n  - {id: second, type: agent, name: worker}\n"
    workflow = Workflow.from_yaml(text, agents={"worker": agent(asked, asked.call)})
    return lambda prompt, options: workflow.start(prompt, options, approve=asked.approve)


def in_task(asked: Asked) -> Start:
    first = {"action": "find", "input": {"station": "brest"}, "post": {"found": "${result}"}}
    second = {"action": asked.tool, "input": asked.given("${found}")}
    workflow = Workflow.from_yaml(json.dumps({"stage": {"first": first, "second": second}}), tools=[*TOOLS, bench()])
    return lambda prompt, options: workflow.start(prompt, options, approve=asked.approve)


MAY_WAIT = (in_loop, in_plan, in_planner, in_step, in_agent_step, in_task)
"""Places whose calls stay open without an answer: elsewhere they are denied or unapproved."""
PLACES = (*MAY_WAIT, in_nested_run, in_inner_call, in_draft, in_agent_of_draft)


class Seen:
    """Return a waiting run, live and as its store has it if its process dies now."""

    def __init__(self, start: Start, servers: Servers, *, of_draft: bool = False) -> None:
        """With ``of_draft``, show the question about a draft; otherwise approve a draft."""
        shutil.rmtree("runs", ignore_errors=True)
        self.card = LiveCard()
        with use_host(Host(servers=servers)):
            self.live = start("Go", RunOptions(store=Store(Path("runs")), watch=self.card.take))
            wait_until(lambda: self.live.run.waiting or self.live.done)
            if self.run.waiting[0].kind == "plan_review" and not of_draft:
                self.live.answer("approve", self.run.waiting[0].id)
                wait_until(lambda: self.live.done or [one for one in self.run.waiting if one.kind != "plan_review"])
        self.question = self.run.waiting[0]
        shutil.rmtree("died", ignore_errors=True)
        shutil.copytree("runs", "died")
        self.died = Store(Path("died")).load(self.run.id)

    @property
    def run(self) -> Run:
        return self.live.run

    def end(self) -> None:
        self.live.stop()
        self.live.result(PATIENCE)

    def live_question(self) -> str:
        """Return the parts of the live card, as a reloaded page gets them, that answer the question."""
        whole = self.card.whole()
        pieces = [piece for round_ in whole["rounds"] for piece in round_["html"].values()]
        return "".join(piece for piece in pieces if f'data-id="{self.question.id}"' in piece)

    def surfaces(self) -> Iterator[tuple[str, str, str]]:
        """Return name, text and answering instructions of each surface without buttons."""
        answer, recover = f"%agent answer {self.run.id[-8:]}", f"%agent recover {self.run.id[-8:]}"
        yield "card without widgets", words_in(running_html(self.run)), answer
        yield "%agent status", run_text(self.run), answer
        yield "agentnb show, elsewhere", run_text(self.run, commands=SHELL), "Answer it where it is running"
        yield "saved card", words_in(run_html(self.died)), recover
        yield "page", words_in(page_html(self.died)), recover
        yield "saved text", run_text(self.died), recover
        yield "agentnb show", run_text(self.died, commands=SHELL), f"agentnb recover {self.run.id[-8:]}"
        yield "terminal", next(dialogue(self.question)), ""


def check(seen: Seen, wanted: list[str], answers: tuple[str, ...]) -> None:
    """Check that the live card answers the question and shows its call, and the others show the call and where to answer."""
    wanted = [*wanted, seen.question.message.split("\n")[0]]
    live = seen.live_question()
    assert not [answer for answer in answers if answer not in live], live
    assert not [one for one in wanted if one not in words_in(live)], words_in(live)
    for name, text, where in seen.surfaces():
        assert not [one for one in [*wanted, where] if one not in text], f"{name}: {text}"


@pytest.mark.slow("27 runs, at night eighty, each of which asks, and is shown on nine surfaces")
def test_questions_of_each_kind_show_their_call_and_accept_answers(servers: Servers, subtests: pytest.Subtests) -> None:
    Path(FOUND).write_text("one\ntwo\n")
    step = size(3, nightly=1)
    for kind, asked in KINDS.items():
        for place in PLACES[[*KINDS].index(kind) % step :: step]:
            with subtests.test(kind=kind, place=place.__name__):
                seen = Seen(place(asked), servers)
                try:
                    assert not seen.question.about or seen.question.about.tool == asked.tool
                    check(seen, asked.words(), asked.answers)
                finally:
                    seen.end()


SEND = {"tools": ["send"], "args": APPROVAL.arguments}
DAY = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
ASKS_DAY = {"type": "elicitation", "elicitation": {"message": f"Which day in {FOUND}?", "requestedSchema": DAY}}


def human(**fields: Any) -> Start:
    """Return a step for the user."""
    step = {"id": "sign", "type": "human", "ask": f"Publish {FOUND}?", **fields}
    return Workflow.from_yaml(json.dumps({"workflow": [step]})).start


def planned(*steps: dict[str, Any]) -> Start:
    """Return a plan of these steps."""
    plan = Plan.read({"steps": [*steps]})
    return lambda prompt, options: plan.start(options, tools=TOOLS, approve="auto")


def gated() -> Start:
    """Return a call with a gate that asks in its own words."""

    def gate(call: ToolCall, run: Any) -> Ask | None:
        return Ask("Shall it?") if call.name == "send" else None

    return agent(APPROVAL, APPROVAL.call, approve="auto", gates=[gate]).start


OTHERS: dict[str, tuple[Callable[[], Start], list[str], tuple[str, ...]]] = {
    "gate": (gated, ["send", FOUND, "the-tail"], ("Approve", "Reject…", "Edit")),
    "draft": (lambda: drafted(APPROVAL, SEND), ["send", FOUND, "the-tail"], ("Approve", "Reject", "Edit step 1")),
    "human": (human, ["sign"], ("<textarea",)),
    "human confirms": (lambda: human(confirm=True), ["sign"], (">Yes<", ">No<")),
    "human chooses": (lambda: human(choices=["now", "later"]), ["sign"], (">now<", ">later<")),
    "human fills a form": (lambda: human(form=FORM), ["sign"], (">seats<", ">why<")),
    "plan": (lambda: planned(ASKS_DAY), [], (">day<", "Decline", "Cancel")),
    "lacking arguments": (
        lambda: planned({"type": "tool", "name": "send", "args": {"to": FOUND}}),
        ["send", FOUND],
        (">text<", "Decline", "Cancel"),
    ),
}
"""Other questions: source, text on each surface, and answer in a live card."""


def test_gates_drafts_and_plans_can_ask_on_every_surface(servers: Servers, subtests: pytest.Subtests) -> None:
    for name, (start, wanted, answers) in OTHERS.items():
        with subtests.test(name):
            seen = Seen(start(), servers, of_draft=True)
            try:
                check(seen, wanted, answers)
            finally:
                seen.end()


def test_suspended_run_shows_its_question_and_answering_command(servers: Servers, subtests: pytest.Subtests) -> None:
    starts: dict[str, tuple[Callable[[], Start], list[str]]] = {
        place.__name__: (partial(place, APPROVAL), ["send", FOUND, "the-tail"]) for place in MAY_WAIT
    }
    starts |= {name: (start, wanted) for name, (start, wanted, _) in OTHERS.items()}
    for name, (start, wanted) in starts.items():
        with subtests.test(name), use_host(Host(servers=servers)):
            store = Store(Path("suspended"))
            run_id = start()("Go", RunOptions(store=store, suspend=True, can_ask=False)).result(PATIENCE).id
            run = store.load(run_id)
            assert run.is_suspended
            shown = {"%agent": words_in(run_html(run)) + run_text(run), "agentnb": run_text(run, commands=SHELL)}
            for program, text in shown.items():
                assert not [one for one in [*wanted, f"{program} answer {run.id[-8:]}"] if one not in text], text
