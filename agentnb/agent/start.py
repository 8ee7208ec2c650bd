"""Puts the parts of a run together."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.agent.loop import Loop
from agentnb.context.history import History, as_sent_then
from agentnb.context.repo_instructions import repo_instructions
from agentnb.context.request_builder import RequestBuilder, ephemeral_text
from agentnb.core.events import SCHEMA, GuidanceGiven, RoundStarted, RunRecovered, RunStarted
from agentnb.core.inbox import Inbox
from agentnb.core.log import EventLog, RunStore, Watcher, Writer
from agentnb.core.messages import Message, Text, encodable, user
from agentnb.core.nesting import bounded
from agentnb.core.redaction import redact
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.core.todos import Todo
from agentnb.errors import SettingsError
from agentnb.guidance.prompts import prompt as prompt_file
from agentnb.models import prices
from agentnb.models.capabilities import capabilities_of
from agentnb.models.model import Model
from agentnb.policies.limits import WithinBudget
from agentnb.runtime.budget import OWN, Budget, current_budget
from agentnb.runtime.clock import Clock, seconds_taken
from agentnb.runtime.dispatch import Dispatch
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.todo_sync import TodoSync, todos_at_first
from agentnb.runtime.tool_errors import cancelled
from agentnb.tools.read_result import ROOM_FOR_HEADING, ResultReader
from agentnb.tools.read_result import SPEC as READ_SPEC
from agentnb.tools.todos.board import Board, TodoBoard
from agentnb.tools.todos.tool import TodoTool
from agentnb.tools.tool import CallSync
from agentnb.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from agentnb.agent.agent import Agent


@dataclass(frozen=True, slots=True)
class Task:
    """What a run is to do, and for whom."""

    prompt: Message
    continue_from: Run | None = None
    parent_id: str | None = None
    work_dir: Path | None = None
    """Instead of the agent's own."""
    store: RunStore | None = None
    watchers: tuple[Watcher, ...] = ()
    board: Board | None = None
    """The todo list, if the agent keeps one."""
    carried_board: Board | None = None
    """The conversation's list, if the agent keeps none: it is handed on."""
    toolbox: Toolbox = field(default_factory=Toolbox)
    """All tools of the run, the one for its list among them."""
    can_ask: bool = False
    """Whether somebody can answer what its tools ask the person."""
    budget: Budget | None = None
    """What it is paid from, besides the agent's own budget."""
    recovered: Run | None = None
    """The run to go on with, whose process died; its log is written on."""
    detached: bool = False
    """Whether it goes on by itself: whoever began it has a handle and need not wait."""
    end_tool: Callable[[], None] = lambda: None
    """Ends a plain tool on the thread that waits for the run."""


def new_run_id() -> str:
    """A name for a run: the time (UTC) to the millisecond, so that names sort by age, and eight random hex digits."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(seconds)) + f"{milliseconds:03d}{secrets.token_hex(4)}"


class Reopened:
    """Stands for the store of a run that is gone on with: its log is open already."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def open(self, run_id: str, *, nested: bool = False) -> Writer:
        """The log, at its end."""
        return self._writer


async def run_abandonable(begin: Callable[[], tuple[Loop, Coroutine[Any, Any, Run]]], log: EventLog) -> Run:
    """Begin the run and wait for it. Once the person has stopped it, or its time is up, its end is not held up by a tool that
    does not let itself be cancelled: that one is left behind.
    """
    for event in log.run.events:
        log.tell(event)  # of a run that is gone on with: who watches sees it whole
    loop, running = begin()
    run = asyncio.ensure_future(running)
    abandoned = asyncio.ensure_future(loop.abandoned.wait())
    await asyncio.wait((run, abandoned), return_when=asyncio.FIRST_COMPLETED)
    abandoned.cancel()
    if not loop.abandoned.is_set():
        return await run
    loop.raise_limit()
    return log.run


def begin(
    agent: Agent, model: Model, task: Task, log: EventLog, inbox: Inbox, call_sync: CallSync
) -> tuple[Loop, Coroutine[Any, Any, Run]]:
    """The loop of a run, and the run it will make when it is awaited; see `Loop.run` for what is raised."""
    budget, run = budget_for(agent, task), task.recovered
    budget.run_id, budget.detached = log.id, task.detached
    folder = folder_of(agent, task)
    first: RunStarted | RunRecovered = opening(agent, task, log.id, folder) if run is None else taking_up(run)
    todos = TodoSync(task.board, log)
    clock = Clock(agent.max_seconds, before=0.0 if run is None else seconds_taken(run.events))
    elicitation = Elicitation(log, can_ask=task.can_ask, clock=clock)
    # What a run sends, it sends to its end, whatever the agent that goes on with it says.
    sends = agent.sends if run is None else as_sent_then(run.settings.get("history"))
    toolbox = _with_reader(sends, task.toolbox, log.run)
    rules = agent.rules
    if budget.may_run_out():
        rules = rules._replace(policies=(*rules.policies, WithinBudget(budget)))
    loop = Loop(
        model=model,
        request_builder=request_builder_for(first, sends)
        if isinstance(first, RunStarted)
        else rebuilt_request_builder(log.run),
        dispatch=Dispatch(toolbox, log, folder, call_sync, rules.gates, todos, elicitation),
        rules=rules,
        log=log,
        inbox=inbox,
        todos=todos,
        history=sends,
        clock=clock,
        budget=budget,
        on_limit=agent.on_limit,
        end_tool=task.end_tool,
    )
    open_log = None if task.store is None else partial(task.store.open, log.id, nested=task.parent_id is not None)
    return loop, loop.run(first, open_log)


def request_builder_for(started: RunStarted, sends: History | None = None) -> RequestBuilder:
    """What prepares the requests of this run; ``sends``: its history, where that need not be read from the log."""
    drops_text = bool(started.settings.get("policy", {}).get("workflow_drops_text"))
    history = as_sent_then(started.settings.get("history")) if sends is None else sends
    tools = started.tools
    if history.result_characters is not None and tools:
        tools = (*tools, READ_SPEC)
    return RequestBuilder(started.system, tools, {}, history=history, drops_text=drops_text)


def rebuilt_request_builder(run: Run) -> RequestBuilder:
    """What prepares the requests of a run that has begun: what it did round by round is done once more."""
    started = run.events[0]
    assert isinstance(started, RunStarted), "a run begins with it"
    request_builder, folded = request_builder_for(started), Run()
    for event in run.events:
        folded.apply(event)
        if isinstance(event, RoundStarted):
            request_builder.take_in(folded)
    return request_builder


def budget_for(agent: Agent, task: Task) -> Budget:
    """What the run may spend: the agent's budget, within what is left to the run whose tool begins it, or to the session."""
    within, run = current_budget.get() or task.budget, task.recovered
    if run is None:
        return Budget(agent.budget, within=within)
    return Budget(agent.budget, within=within, spent=run.spent, inside=run.counters.spent_inside)


def began_in() -> str | None:
    """The id of the run whose tool is running just now, if one is: what it begins is a part of it."""
    budget = current_budget.get()
    return None if budget is None else budget.run_id


def check_budget(agent: Agent, model: Model, task: Task) -> None:
    """`SettingsError` if nothing is left of a budget, or if it could not hold, for nobody knows what the model costs."""
    budget = budget_for(agent, task)
    if not budget.has_limit():
        return
    empty = budget.exhausted()
    if empty is not None and (task.recovered is None or empty.name != OWN):  # a recovered run ends at its limit
        more = "budget=" if empty.name == OWN else f"%agent defaults session-budget={2 * (empty.limit or 1):g}"
        raise SettingsError(
            f"Nothing is left of the {empty.name.replace('_', ' ')} of ${empty.limit:g}: ${empty.spent:.4f} were spent",
            f"Raise it: {more}",
        )
    if not agent.unpriced and not _has_price(model):
        raise SettingsError(
            f"What {model.name} costs is not known, so a budget cannot hold",
            "Say what it costs: -m NAME?price=3/15 (US dollars for a million tokens in and out, 0 for nothing); "
            "or let its calls count as nothing: --unpriced, Agent(unpriced=True)",
        )


def _has_price(model: Model) -> bool:
    if not (capabilities_of(model).has_price or prices.loaded()):
        prices.load()
    return capabilities_of(model).has_price


def _with_reader(sends: History, toolbox: Toolbox, run: Run) -> Toolbox:
    """The tools and, where long results are shortened, the one with which the model reads on in them."""
    most = sends.result_characters
    if most is None or not len(toolbox):
        return toolbox
    return toolbox.knowing(ResultReader(run.result_of, most - ROOM_FOR_HEADING))


def new_log(task: Task) -> EventLog:
    """The log of a run that is about to start, or to go on."""
    run = task.recovered
    if run is None:
        return EventLog(new_run_id(), parent_id=task.parent_id, watchers=task.watchers)
    return EventLog(run.id, parent_id=run.parent_id, watchers=task.watchers, run=run)


def taking_up(run: Run) -> RunRecovered:
    """The event with which another process goes on with a run."""
    return RunRecovered(seq=len(run.events), at=datetime.now(UTC), run_id=run.id, parent_id=run.parent_id, schema=SCHEMA)


def opening(agent: Agent, task: Task, run_id: str, folder: Path) -> RunStarted:
    """The first event of the run, whose tools work in this folder. Redacted already: requests are made of it too."""
    before = task.continue_from
    started = RunStarted(
        seq=0,
        at=datetime.now(UTC),
        run_id=run_id,
        parent_id=task.parent_id,
        schema=SCHEMA,
        prompt=task.prompt,
        agent=encodable(agent.name),
        model=encodable(agent.model_name),
        system=system_prompt(agent, task.toolbox, folder),
        tools=task.toolbox.specs,
        settings=agent.settings,
        continued_from=before.id if before is not None else None,
        history=history_of(before) if before is not None else (),
        compacted=before.compacted if before is not None else None,
        todos=todos_at_first(task.board) if task.board is not None else (),
        carried_todos=_carried_todos(task),
    )
    return redact(started)


def board_of(agent: Agent, before: Run | None) -> Board | None:
    """The list of a run: the agent's own board, or a new one with the todos of the conversation it goes on with."""
    if not agent.keeps_todos:
        return None
    if not isinstance(agent.todos, bool):
        return agent.todos
    if before is None:
        return TodoBoard()
    try:
        return TodoBoard(before.conversation_todos)
    except SettingsError as error:  # it was on a board that keeps other rules
        hint = "Give the run a list of its own: Agent(todos=TodoBoard([...]))"
        raise SettingsError(f"The todo list of run {before.id} cannot be gone on with: {error.what}", hint) from error


def toolbox_of(agent: Agent, board: Board | None) -> Toolbox:
    """The agent's tools, and the one for its list."""
    return agent.toolbox if board is None else agent.toolbox.having(TodoTool(board))


def _carried_todos(task: Task) -> tuple[Todo, ...]:
    """The conversation's list, for a run that has no use for it."""
    if task.carried_board is not None:
        return todos_at_first(task.carried_board)
    return task.continue_from.conversation_todos if task.continue_from is not None and task.board is None else ()


def history_of(before: Run) -> tuple[Message, ...]:
    """The conversation of a run, every call of it answered: a run whose process died may have left some open."""
    if before.should_continue:
        raise SettingsError(f"Run {before.id} is still running", "Wait for it, or end it, before you go on from it")
    messages = tuple(map(bounded, before.messages))  # an older version has bounded nothing
    current = before.rounds[-1] if before.rounds else None
    if not messages or not messages[-1].calls or current is None:
        return messages
    results = (record.result or cancelled().as_result(record.call.id, record.call.name) for record in current.records)
    return (*messages, Message("tool", tuple(results)))


def folder_of(agent: Agent, task: Task) -> Path:
    """Where its tools work: what the task says, else the agent, else the current folder."""
    chosen = task.work_dir or agent.work_dir
    try:
        return Path.cwd() if chosen is None else Path(chosen).expanduser().resolve()
    except FileNotFoundError as error:
        raise SettingsError("The current folder is not there any more", "Change to one that is: %cd ~") from error


def first_request(agent: Agent, task: Task) -> Request:
    """The request that would be sent first. Nothing is sent or kept."""
    log = EventLog(new_run_id())
    started = opening(agent, task, log.id, folder_of(agent, task))
    log.append(started)
    log.emit(RoundStarted, index=0, reason="prompt", note=agent.rules.note(log.run))
    for guidance in filter(None, [guide(log.run) for guide in agent.rules.guides]):
        log.emit(GuidanceGiven, guidance=guidance)
    return request_builder_for(started).request(log.run, ephemeral_text(log.run))


def system_prompt(agent: Agent, toolbox: Toolbox, folder: Path) -> str:
    """The agent's own system prompt or the built-in one; then what the repository of the folder says to agents; then, without
    tools, a word about that.
    """
    parts: Iterable[str] = (
        prompt_file("system") if agent.system is None else agent.system.strip(),
        repo_instructions(folder).section if agent.instructions else "",
        "" if len(toolbox) else prompt_file("no_tools"),
    )
    return encodable("\n\n".join(part for part in parts if part))


def as_prompt(prompt: str | Message) -> Message:
    """What the person asks, as a message; `SettingsError` if there is nothing in it."""
    message = user(prompt) if isinstance(prompt, str) else prompt
    if not isinstance(message, Message):
        raise SettingsError(f"{prompt!r} is no prompt", "A prompt is a text")
    if message.role != "user":
        raise SettingsError(f"A prompt is a message of the user, not of the {message.role}")
    if not message.text.strip():
        raise SettingsError("The prompt is blank", "Say in words what the agent should do")
    parts = tuple(Text(encodable(part.text)) if isinstance(part, Text) else part for part in message.parts)
    return bounded(Message("user", parts))
