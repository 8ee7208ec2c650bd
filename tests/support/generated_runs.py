"""Random runs: a script that Hypothesis draws, really run, disturbed at a random event; and some plans by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, cast

from hypothesis import strategies as st
from marked_logs import marked
from scripted_runs import add, even_failed

from agentnb import Agent, GuidanceSet, History, Matrix, Minimal, Run, Store, TodoBoard, ToolCall, tool
from agentnb.agent.start import board_of, pending_run
from agentnb.core.inbox import CommandName, Inbox
from agentnb.core.log.events import ModelReplied, QuestionAsked
from agentnb.core.messages import Message, Text, Thinking, user
from agentnb.core.questions import Answer
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import AgentnbError
from agentnb.models import Reply, ScriptedModel, TextDelta
from agentnb.models.model import Retry, StreamItem
from agentnb.runtime.host.run_options import RunOptions
from agentnb.tools.tool import ToolContext

words = st.text(st.characters(), max_size=12)  # half characters too
numbers = st.integers(-100, 100)


def echo(text: str) -> str:
    """Says it again."""
    return text + "\ud83d"


def boom(text: str = "") -> str:
    """Fails."""
    raise ValueError(f"no {text}\udc00")


@tool(parallel_safe=True)
async def nap(turns: int = 1) -> str:
    """Lets others run."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return "rested"


@tool(timeout=0.001)
async def hang() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return "never"


async def ask(context: ToolContext, turns: int = 1) -> str:
    """Asks the person; one that is asked twice does not wait for the second answer."""
    answer = await context.ask("Well?\ud83d", {"enum": ["yes", "no"]}, "approval")
    if turns > 1:
        asyncio.ensure_future(context.ask("Sure?"))  # noqa: RUF006  # who asks it has ended
        await asyncio.sleep(0)
    return str(answer)


TOOLS = (add, echo, boom, nap, hang, ask)

arguments = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"a": numbers}),
    st.fixed_dictionaries({"text": st.text(max_size=8)}),
    st.fixed_dictionaries({"turns": st.integers(0, 5)}),
    st.fixed_dictionaries({"a": st.text(max_size=3), "wrong": st.none() | st.floats(allow_nan=False, allow_infinity=False)}),
)
ids = st.sampled_from(["", "", "call_1", "call_2", "ü"])
fitting = st.one_of(
    st.builds(ToolCall, st.just("add"), st.fixed_dictionaries({"a": numbers, "b": numbers}), ids),
    st.builds(ToolCall, st.sampled_from(["echo", "boom"]), st.fixed_dictionaries({"text": st.text(max_size=8)}), ids),
    st.builds(ToolCall, st.sampled_from(["nap", "hang", "ask"]), st.just({}), ids),
    st.builds(ToolCall, st.just("nap"), st.fixed_dictionaries({"turns": st.integers(0, 5)}), ids),
)
again = st.builds(ToolCall, st.just("echo"), st.just({"text": "again"}), ids)
listed = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(1, 3),
            "title": words,
            "status": st.sampled_from(["not-started", "in-progress", "completed", "done"]),
        }
    ),
    max_size=3,
    unique_by=lambda todo: todo["id"],
)
listing = st.one_of(
    st.fixed_dictionaries({"operation": st.just("write"), "todoList": listed}),
    st.fixed_dictionaries({"operation": st.just("update"), "todoUpdates": listed}),
    st.fixed_dictionaries({"operation": st.just("add"), "newTodos": st.just([{"title": "One thing more"}])}),
    st.just({"operation": "read"}),
)
todo_calls = st.builds(ToolCall, st.just("todo_operations"), listing, ids)
calls = st.one_of(
    fitting,
    fitting,
    again,
    todo_calls,
    st.builds(ToolCall, st.sampled_from(["add", "echo", "boom", "nap", "hang", "ask", "gone", "think"]), arguments, ids),
)
usages = st.builds(Usage, st.none() | st.integers(0, 99), st.none() | st.integers(0, 99), cost=st.none() | st.floats(0, 1))
stop_reasons = st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "tool_calls", "pause_turn", "never_heard_of"])


def _reply(parts: list[Any], usage: Usage, stop_reason: str) -> Reply:
    return Reply(Message("assistant", tuple(parts)), usage, stop_reason, {"draw": 1})


SAME = "The same long answer, given word for word each time it is asked for."
answers = st.sampled_from([SAME, "Well, well."])
markers = st.sampled_from(["[CONTINUE]", "[WORKFLOW_COMPLETE]", '{"status": "stop"}', 'So be it.\n{"status":"complete"}\n'])
lines = st.one_of(
    words,
    answers,
    markers,
    st.tuples(markers, calls).map(list),
    st.tuples(again, again, again).map(list),
    calls,
    st.lists(words | calls | st.builds(Thinking, words), max_size=4),
    st.builds(_reply, st.lists(st.builds(Text, words) | calls, max_size=3), usages, stop_reasons),
)
failures = st.builds(RuntimeError, words)
stubborn = st.builds(lambda line, times: (line,) * times, lines, st.integers(2, 6))
"""A model that says and asks for the same, time and again."""


class Breaking(ScriptedModel):
    """A scripted model of which one stream breaks off after so many items, and some calls are made again."""

    def __init__(self, replies: tuple[Any, ...], stream: bool, cut: tuple[int, int] | None, retried: tuple[int, ...]) -> None:
        super().__init__(replies, stream=stream)
        self._cut = cut
        self._retried = retried

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        here = self._cut is not None and self._cut[0] == len(self.requests)
        count = 0
        for attempt in range(1, 1 + self._retried.count(len(self.requests))):
            yield TextDelta("half a wo")
            yield Retry(attempt, 2.0**attempt, "overloaded \ud83d", 529)
        async for item in super().stream(request):
            if here and self._cut is not None and count == self._cut[1]:
                raise ConnectionError("cut off")
            count += 1
            yield item


@dataclass(frozen=True)
class Plan:
    """Plan of a run: replies, rules of the agent, the place where a stream breaks off, actions of the person by event."""

    replies: tuple[Any, ...]
    later: tuple[Any, ...]
    max_rounds: int
    guidance: str | GuidanceSet
    policy: Matrix | Minimal
    stream: bool
    cut: tuple[int, int] | None
    retried: tuple[int, ...]
    """Numbers of the calls that fail before they succeed; a number that is here twice fails twice."""
    disturbances: tuple[tuple[int, tuple[tuple[str, str], ...]], ...]
    history: str | History = "auto"
    died: int | None = None
    """Events of the first run after which its process dies and another resumes it."""


TODO = "add a todo"
"""Actions of the person on the board, without a command."""
wishes = st.sampled_from(
    [
        ((TODO, "Look again"),),
        ((TODO, "First this"), ("say", "mind the list")),
        (("stop", "enough"),),
        (("say", "hurry 👀"),),
        (("pause", ""), ("resume", "")),
        (("pause", ""), ("say", "wait"), ("stop", "")),
    ]
)
SHORT = History(compact_above=3, keep_recent=1, max_messages=5, failed_rounds_above=3)
QUICK = {"intervention_cap": 1, "planning_rounds": 1, "repeats": 1, "blocked_rounds": 1, "workflow_cap": 1}
POLICIES = [Matrix(), Matrix(**QUICK), Matrix(workflow_mode=True, strict_todos=True), Minimal(), Minimal(blocked_rounds=1)]
plans = st.builds(
    Plan,
    replies=st.lists(lines | failures, max_size=7).map(tuple) | stubborn,
    later=st.lists(lines, max_size=2).map(tuple),
    max_rounds=st.integers(1, 7),
    guidance=st.sampled_from(["matrix", "off", GuidanceSet.from_markdown("own", "Do {{ next_todo }}, {{ ignored }} times.")]),
    policy=st.sampled_from(POLICIES),
    stream=st.booleans(),
    cut=st.none() | st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
    retried=st.just(()) | st.lists(st.integers(0, 3), max_size=3).map(tuple),
    disturbances=st.lists(st.tuples(st.integers(0, 25), wishes), max_size=2, unique_by=lambda pair: pair[0]).map(tuple),
    history=st.sampled_from(["auto", "auto", "documented", "full", SHORT]),
    died=st.none() | st.none() | st.integers(1, 40),
)


def _stubborn(policy: Matrix | Minimal, *replies: Any) -> Plan:
    return Plan(replies, ("Once more.",), 7, "matrix", policy, True, None, (), ())


ECHO = ToolCall("echo", {"text": "again"})
READ = ToolCall("todo_operations", {"operation": "read"})
WRITE = ToolCall("todo_operations", {"operation": "write", "todoList": [{"id": 1, "title": "Look", "status": "not-started"}]})
BY_HAND = {
    "blocked rounds": _stubborn(Matrix(**QUICK), *[ECHO] * 6),
    "the same answer": _stubborn(Matrix(workflow_mode=True), *[SAME] * 6),
    "planning alone": _stubborn(Matrix(planning_rounds=1, intervention_cap=1), *[READ] * 6),
    "interventions": _stubborn(Matrix(intervention_cap=3), WRITE, *["Well, well."] * 6),
    "markers": _stubborn(Matrix(), "[CONTINUE]", WRITE, "Done.\n[WORKFLOW_COMPLETE]"),
    "nudges": _stubborn(Minimal(), WRITE, *["Well, well."] * 6),
    "blocked beside planning": _stubborn(Minimal(), *[[ECHO, READ]] * 6),
    "a call in words": _stubborn(Matrix(), *['echo(text="again")'] * 6),
    "compacted, and recovered": replace(_stubborn(Matrix(**QUICK), *[ECHO] * 6), history=SHORT, died=14),
    "a call announced and not made": _stubborn(Matrix(), _reply([], Usage(), "tool_use")),
    "questions": _stubborn(Matrix(), ToolCall("ask"), [ToolCall("ask", {"turns": 2}), ToolCall("ask", {"turns": 3})]),
    "an empty answer": _stubborn(Matrix(), "", "Done."),
    "a limit, after retries": replace(_stubborn(Matrix(), *[ECHO] * 2), max_rounds=2, retried=(0, 0)),
    "stopped": replace(_stubborn(Matrix(), ToolCall("hang")), disturbances=((4, (("stop", "enough"),)),)),
}
"""Plans that together bring about every kind of event, every status of a round and every loop."""


async def run_plan(plan: Plan, replies: tuple[Any, ...], store: Store, before: Run | None) -> Run:
    agent = Agent(
        Breaking((*replies, "Done, I think."), plan.stream, plan.cut, plan.retried),
        tools=TOOLS,
        guidance=plan.guidance,
        policy=plan.policy,
        max_rounds=plan.max_rounds,
        history=plan.history,
    )
    board = board_of(agent, before)
    assert isinstance(board, TodoBoard)
    inbox, heard = Inbox(), 0
    due = dict(plan.disturbances) if before is None else {}

    def watch(item: Any) -> None:
        nonlocal heard
        for name, text in due.pop(heard, ()):
            if name == TODO:
                board.add(text)
            else:
                inbox.put(cast(CommandName, name), text)
        if isinstance(item, QuestionAsked) and item.question.kind == "approval":
            number = int(item.question.id.removeprefix("q"))
            inbox.put("answer", answer=Answer(item.question.id, "yes", declined=number % 3 == 0))
        heard += 1

    options = RunOptions(store=store, continue_from=before, watch=watch, board=board, can_ask=True)
    pending = pending_run(agent, user("Go, \ud83d go"), options)
    pending.context.inbox = inbox
    try:
        return await pending.run_here()
    except AgentnbError as error:
        assert error.run is not None
        return error.run


def recovered(plan: Plan, run: Run, store: Store) -> Run:
    """Return the run as resumed by another process after a death at so many events."""
    died = run.events[: plan.died]
    if len(died) == len(run.events):
        return run
    store.path(run.id).write_bytes(marked(died))
    writer, cut = store.reopen(run.id)
    replied = sum(isinstance(event, ModelReplied) for event in died)
    model = ScriptedModel([*plan.replies[replied:], *plan.replies, "Done, I think."], stream=plan.stream)
    agent = Agent(
        model, tools=TOOLS, guidance=plan.guidance, policy=plan.policy, max_rounds=plan.max_rounds, history=plan.history
    )
    return even_failed(lambda: agent.resume(cut, writer, RunOptions(can_ask=False)).result(30))


def really_run(plan: Plan, store: Store) -> list[Run]:
    """Return the run of this plan, and one that continues its conversation."""
    first = asyncio.run(run_plan(plan, plan.replies, store, None))
    if plan.died is not None:
        first = recovered(plan, first, store)
    return [first, asyncio.run(run_plan(plan, plan.later, store, first))]
