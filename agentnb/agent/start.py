"""Puts the parts of a run together."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb import settings
from agentnb.agent.asking import Asking
from agentnb.agent.conversation import Conversation, said_in_passing
from agentnb.agent.dispatch import Dispatch
from agentnb.agent.failures import cancelled
from agentnb.agent.loop import Loop
from agentnb.agent.prompts import prompt as prompt_file
from agentnb.agent.todo_check import TodoCheck, todos_at_first
from agentnb.core.events import SCHEMA, GuidanceGiven, RoundStarted, RunStarted
from agentnb.core.inbox import Inbox
from agentnb.core.log import EventLog, RunStore, Watcher
from agentnb.core.messages import Message, Text, encodable, user
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.core.todos import Todo
from agentnb.errors import SettingsError
from agentnb.models.model import Model
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
    resting_board: Board | None = None
    """The conversation's list, if the agent keeps none: it is handed on."""
    toolbox: Toolbox = field(default_factory=Toolbox)
    """All tools of the run, the one for its list among them."""
    can_ask: bool = False
    """Whether somebody can answer what its tools ask the person."""


def new_run_id() -> str:
    """A name for a run: the time (UTC) to the millisecond, so that names sort by age, and eight random hex digits."""
    now = time.time()
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(now)) + f"{int(now * 1000) % 1000:03d}{secrets.token_hex(4)}"


async def run_task(agent: Agent, model: Model, task: Task, log: EventLog, inbox: Inbox, call_sync: CallSync) -> Run:
    """Run the agent on the task; see `Loop.run` for what is raised."""
    _, running = _begun(agent, model, task, log, inbox, call_sync)
    return await running


async def run_abandonable(agent: Agent, model: Model, task: Task, log: EventLog, inbox: Inbox, call_sync: CallSync) -> Run:
    """As `run_task`, but once the person has stopped the run, its end is not held up by a tool that does not let itself be
    cancelled: that one is left behind.
    """
    loop, running = _begun(agent, model, task, log, inbox, call_sync)
    run = asyncio.ensure_future(running)
    abandoned = asyncio.ensure_future(loop.abandoned.wait())
    await asyncio.wait((run, abandoned), return_when=asyncio.FIRST_COMPLETED)
    abandoned.cancel()
    return log.run if loop.abandoned.is_set() else await run


def _begun(
    agent: Agent, model: Model, task: Task, log: EventLog, inbox: Inbox, call_sync: CallSync
) -> tuple[Loop, Coroutine[Any, Any, Run]]:
    """The loop of a run, and the run it will make when it is awaited."""
    started = opening(agent, task, log.id)
    todos = TodoCheck(task.board, log)
    keys = settings.secrets()  # the model has asked for its own by now
    asking = Asking(log, can_ask=task.can_ask)
    loop = Loop(
        model=model,
        conversation=conversation_of(started),
        dispatch=Dispatch(task.toolbox, log, folder_of(agent, task), call_sync, agent.rules.gates, todos, keys, asking),
        rules=agent.rules,
        log=log,
        inbox=inbox,
        todos=todos,
        secrets=keys,
    )
    open_log = None if task.store is None else partial(task.store.open, log.id, nested=task.parent_id is not None)
    return loop, loop.run(started, open_log)


def conversation_of(started: RunStarted) -> Conversation:
    """What prepares the requests of this run."""
    drops_text = bool(started.settings.get("policy", {}).get("workflow_drops_text"))
    return Conversation(started.system, started.tools, {}, drops_text=drops_text)


def new_log(task: Task) -> EventLog:
    """The log of a run that is about to start."""
    return EventLog(new_run_id(), parent_id=task.parent_id, watchers=task.watchers)


def opening(agent: Agent, task: Task, run_id: str) -> RunStarted:
    """The first event of the run."""
    before = task.continue_from
    return RunStarted(
        seq=0,
        at=datetime.now(UTC),
        run_id=run_id,
        parent_id=task.parent_id,
        schema=SCHEMA,
        prompt=task.prompt,
        agent=encodable(agent.name),
        model=encodable(agent.model_name),
        system=system_prompt(agent, task.toolbox),
        tools=task.toolbox.specs,
        settings=agent.settings,
        continued_from=before.id if before is not None else None,
        history=history_of(before) if before is not None else (),
        todos=todos_at_first(task.board) if task.board is not None else (),
        resting_todos=_resting_todos(task),
    )


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


def _resting_todos(task: Task) -> tuple[Todo, ...]:
    """The conversation's list, for a run that has no use for it."""
    if task.resting_board is not None:
        return todos_at_first(task.resting_board)
    return task.continue_from.conversation_todos if task.continue_from is not None and task.board is None else ()


def history_of(before: Run) -> tuple[Message, ...]:
    """The conversation of a run, every call of it answered: a run whose process died may have left some open."""
    if before.should_continue:
        raise SettingsError(f"Run {before.id} is still running", "Wait for it, or end it, before you go on from it")
    messages = tuple(before.messages)
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
    started = opening(agent, task, new_run_id())
    run = Run.from_events([started])
    common = {"at": started.at, "run_id": started.run_id}
    run.apply(RoundStarted(seq=1, index=0, reason="prompt", note=agent.rules.note(run), **common))  # type: ignore[arg-type]  # see above
    for guidance in filter(None, [guide(run) for guide in agent.rules.guides]):
        run.apply(GuidanceGiven(seq=len(run.events), guidance=guidance, **common))  # type: ignore[arg-type]
    return conversation_of(started).request(run, said_in_passing(run))


def system_prompt(agent: Agent, toolbox: Toolbox) -> str:
    """The agent's own system prompt or the built-in one; then, without tools, a word about that."""
    parts: Iterable[str] = (
        prompt_file("system") if agent.system is None else agent.system.strip(),
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
    return Message("user", tuple(Text(encodable(part.text)) if isinstance(part, Text) else part for part in message.parts))
