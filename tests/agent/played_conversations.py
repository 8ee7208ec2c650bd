"""Runs generated conversations on an event loop with a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from generated_conversations import Answer, Conversation, Turn, Way
from playing_model import TOOLS, PlayingModel
from virtual_time import OnThisLoop, VirtualTimeLoop

from agentnb import Agent, Run, Store
from agentnb.core.log.events import CommandReceived, ModelReplied, RetryScheduled, ToolFinished
from agentnb.core.log.stores import Writer
from agentnb.errors import AgentnbError, StoreError, TraceError
from agentnb.runtime.host.run_options import RunOptions

T = TypeVar("T")
PAUSE = 5.0
"""Seconds of virtual time after which a paused run is resumed."""


@dataclass
class Played:
    """The outcome of a turn. The next turn continues from ``run``."""

    turn: Turn
    model: PlayingModel
    run: Run | None = None
    whole: Run | None = None
    """The run in memory when it ended, if it was returned."""
    before: Run | None = None
    told: list[Any] = field(default_factory=list)
    """Events and deltas that a watcher received."""
    raised: BaseException | None = None
    died: Run | None = None
    """The run loaded after its process died, if another process recovered it."""
    recovering: PlayingModel | None = None
    """The model of the recovering process."""
    stored: Run | None = None
    """The recovered run, loaded from its log."""


class Player:
    """Plays conversations, all on one loop and into one folder."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = VirtualTimeLoop()

    @property
    def forgotten(self) -> list[BaseException]:
        """Unhandled errors in tasks."""
        return self._loop.forgotten

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def play(self, conversation: Conversation) -> list[Played]:
        """Run all turns; each continues the previous one."""
        before: Run | None = None
        played: list[Played] = []
        for turn in conversation:
            one = Played(turn, PlayingModel(turn.answers, turn.summary), before=before)
            self._run(one)
            one.run = self._gone_on_from(one)
            before = one.run
            played.append(one)
        return played

    def _run(self, one: Played) -> None:
        try:
            one.whole = self._wait(_turn(one, self._store, self._loop))
        except (AgentnbError, asyncio.CancelledError, KeyboardInterrupt) as error:
            one.raised = error
            one.whole = getattr(error, "run", None)

    def _wait(self, turn: Coroutine[Any, Any, Run]) -> Run:
        """Run a turn and cancel its remaining tasks, as `asyncio.run` does."""
        task = self._loop.create_task(turn)
        try:
            return self._loop.run_until_complete(task)
        finally:
            while left := asyncio.all_tasks(self._loop):
                for other in left:
                    other.cancel()
                with suppress(KeyboardInterrupt):
                    self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def _gone_on_from(self, one: Played) -> Run | None:
        if not one.told:
            return one.before
        run_id = one.told[0].run_id
        if one.turn.way == "process killed":
            return self._after_its_death(one, run_id)
        if one.turn.way == "disk full" and one.whole is not None:
            return one.whole
        if one.whole is None or one.turn.loaded:
            return self._store.load(run_id)
        return one.whole

    def _after_its_death(self, one: Played, run_id: str) -> Run | None:
        """Return the interrupted run, or its recovery by another process."""
        path = self._store.path(run_id)
        path.write_bytes(cut(path.read_bytes(), one.turn))
        try:
            found = self._store.load(run_id)
        except TraceError:
            assert one.turn.at == 0, "only an empty log holds no run"
            return one.before
        if not one.turn.recovered or found.status != "interrupted":
            return found
        one.died = found
        one.recovering = PlayingModel(answers_left(one.turn, found), one.turn.summary)
        writer, run = self._store.reopen(run_id)
        try:
            self._wait(_recovery(one, run, writer, self._loop))
        except (AgentnbError, KeyboardInterrupt) as error:
            one.raised = error
        one.stored = self._store.load(run_id)
        return run


def cut(log: bytes, turn: Turn) -> bytes:
    """Return the log of a process that died after ``at`` events and ``torn`` bytes."""
    lines = log.splitlines(keepends=True)
    after = lines[turn.at] if turn.at < len(lines) else b""
    return b"".join(lines[: turn.at]) + after[: turn.torn]


def answers_left(turn: Turn, run: Run) -> tuple[Answer, ...]:
    """Return the answers not given yet."""
    return turn.answers[sum(round.reply is not None for round in run.rounds) :]


async def _turn(one: Played, store: Store, loop: asyncio.AbstractEventLoop) -> Run:
    turn = one.turn
    agent = _agent(turn, one.model)
    kept: Any = _FullDisk(store, turn.at) if turn.way == "disk full" else store
    watch: Callable[[Any], None] = one.told.append
    if turn.way == "cancelled by its task":
        task = asyncio.current_task()
        assert task is not None
        return await agent.run(turn.prompt, store=kept, continue_from=one.before, watch=_at(one, task.cancel))
    live: Any = None
    if (act := ACTS.get(turn.way)) is not None:
        watch = _at(one, lambda: act(live, loop))
    live = agent.start(
        turn.prompt,
        RunOptions(store=kept, continue_from=one.before, watch=watch, thread=OnThisLoop(loop), can_ask=True),
    )
    return await live


async def _recovery(one: Played, run: Run, writer: Writer, loop: asyncio.AbstractEventLoop) -> Run:
    assert one.recovering is not None
    return await _agent(one.turn, one.recovering).resume(run, writer, RunOptions(thread=OnThisLoop(loop), can_ask=True))


def _agent(turn: Turn, model: PlayingModel) -> Agent:
    return Agent(model, tools=TOOLS if turn.tools else (), instructions=False, **dict(turn.settings))


def _at(one: Played, act: Callable[[], Any]) -> Callable[[Any], None]:
    """Return a watcher that calls ``act`` once, at the position of the turn."""

    def watch(item: Any) -> None:
        one.told.append(item)
        if len(one.told) == one.turn.at + 1:
            act()

    return watch


def _pause(live: Any, loop: asyncio.AbstractEventLoop, then: str) -> None:
    live.pause()
    loop.call_later(PAUSE, lambda: None if live.done else getattr(live, then)())


ACTS: dict[str, Callable[[Any, asyncio.AbstractEventLoop], Any]] = {
    "stop button": lambda live, loop: live.stop("enough"),
    "tool that will not be cancelled": lambda live, loop: live.stop(),
    # `Foreground` sends this when the kernel is interrupted while no tool is running.
    "kernel interrupt": lambda live, loop: live._inbox.put("stop", "interrupted"),
    "pause": lambda live, loop: _pause(live, loop, "resume"),
    "pause and stop": lambda live, loop: _pause(live, loop, "stop"),
    "said in between": lambda live, loop: live.say("By the way."),
}


class _FullDisk:
    """A store whose disk is full from this event on."""

    def __init__(self, store: Store, room: int) -> None:
        self._store, self._room = store, room

    async def open(self, run_id: str, *, nested: bool = False) -> _FullDisk:
        self._file = await self._store.open(run_id, nested=nested)
        return self

    def append(self, event: Any) -> None:
        if event.seq >= self._room:
            raise OSError(28, "No space left on device")
        self._file.append(event)

    def close(self) -> None:
        self._file.close()


# Did the turn end as drawn?


def was_left(one: Played) -> bool:
    """True if the turn ended in its way; many end earlier."""
    run = one.run if one.whole is None or one.turn.way == "process killed" else one.whole
    return run is not None and run is not one.before and LEFT[one.turn.way](one, run)


def _ended_as(status: str) -> Callable[[Played, Run], bool]:
    return lambda one, run: run.status == status


def _limited_by(limit: str) -> Callable[[Played, Run], bool]:
    return lambda one, run: run.status == "limited" and run.stop_reason == limit


def _had_result(code: str) -> Callable[[Played, Run], bool]:
    return lambda one, run: any(event.result.error_code == code for event in _all(run, ToolFinished))


def _had_reply(one: Played, run: Run) -> bool:
    ends = "broken_off" if one.turn.answers[-1].breaks else one.turn.answers[-1].ends
    return any(event.stop_reason == ends for event in _all(run, ModelReplied))


def _was_interrupted(one: Played, run: Run) -> bool:
    return isinstance(one.raised, KeyboardInterrupt) and run.status == "cancelled"


def _model_failed(one: Played, run: Run) -> bool:
    return run.error is not None and run.error.type == "ModelError"


LEFT: dict[Way, Callable[[Played, Run], bool]] = {
    "natural": _ended_as("completed"),
    "stop button": _ended_as("cancelled"),
    "kernel interrupt": _ended_as("cancelled"),
    "cancelled by its task": lambda one, run: isinstance(one.raised, asyncio.CancelledError),
    "pause": lambda one, run: _commands(run) >= {"pause", "resume"},
    "pause and stop": lambda one, run: _commands(run) >= {"pause", "stop"} and run.status == "cancelled",
    "said in between": lambda one, run: "say" in _commands(run),
    "round limit": _limited_by("max_rounds"),
    "tool call limit": _limited_by("max_tool_calls"),
    "tool call limit of a turn": _limited_by("max_tool_calls_per_turn"),
    "time limit": _limited_by("max_seconds"),
    "token limit": _limited_by("max_tokens"),
    "budget": _limited_by("budget"),
    "marker": lambda one, run: any(event.signals for event in _all(run, ModelReplied)),
    "tool exception": _had_result("tool_error"),
    "tool timeout": _had_result("timeout"),
    "tool that will not be cancelled": _ended_as("cancelled"),
    "interrupt in a tool": _was_interrupted,
    "model error": _model_failed,
    "model error mid-stream": _had_reply,
    "model without a reply": _model_failed,
    "model finds it too long": lambda one, run: len(one.model.bodies) > len(one.model.requests),
    "model interrupted": _was_interrupted,
    "retry mid-stream": lambda one, run: bool(_all(run, RetryScheduled)),
    "reply cut off": _had_reply,
    "broken tool JSON": _had_result("invalid_arguments"),
    "process killed": lambda one, run: run.status == "interrupted" or one.died is not None,
    "disk full": lambda one, run: isinstance(one.raised, StoreError),
}


def _all(run: Run, kind: type[T]) -> list[T]:
    return [event for event in run.events if isinstance(event, kind)]


def _commands(run: Run) -> set[str]:
    return {event.command for event in _all(run, CommandReceived)}
