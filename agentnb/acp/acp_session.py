"""A session with an agent: its process, requests from both sides, and the events of each turn in order."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from io import StringIO
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

from acp.connection import Connection, StreamDirection, StreamEvent
from acp.exceptions import RequestError

from agentnb.acp.agent_calls import KINDS, UNKNOWN_KIND, ExternalCall, own_fields, within
from agentnb.acp.agent_process import AgentProcess
from agentnb.acp.door import NAME, Door
from agentnb.acp.known_agents import KnownAgent
from agentnb.acp.terminals import Terminals, command_of
from agentnb.acp.turn_record import AgentSettings, UnknownUpdates
from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import JsonObject
from agentnb.core.redaction import redact
from agentnb.core.request import ToolSpec
from agentnb.errors import ModelError, ToolFailed, suggest_names
from agentnb.tools import tool_errors
from agentnb.tools.builtin.files.confined import confine
from agentnb.tools.builtin.files.read_file import read_file
from agentnb.tools.builtin.files.write_file import write_file
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.tool import ToolContext, ToolOutcome, ToolRefused, failure

Work: TypeAlias = Callable[[ExternalCall, ToolContext], Awaitable[JsonObject]]
"""Does work that the agent has requested, in the context of the surrounding call, and returns the answer."""

PROTOCOL = 1
SECONDS_TO_START = 60
SECONDS_TO_STOP = 1.0
"""Seconds after which a closed session no longer waits for its processes to end; the guard then continues on its own."""
SECONDS_TO_ANSWER = 0.1
"""Seconds in which decisions about calls are still sent to an agent before it ends."""
SECONDS_TO_CANCEL = 0.5
"""Seconds that an agent has to end a cancelled turn. The tested agents take up to 0.32 s."""
JOINS = ("_", "__", "/", ".", ": ")
"""Separators between server and tool name in the titles that agents use."""
SECONDS_BESIDE = 0.1
"""Seconds in which other announced calls may join the reply of the first one that is ready."""
UNUSED = frozenset({"user_message_chunk", "available_commands_update", "session_info_update"})
"""Kinds of updates that do not matter for a run. They are counted, but the agent's texts in them are dropped."""
DENIED = "The person did not allow it."
OF_TERMINALS = ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")


class Session:
    """An agent's process and its conversation. Used on one event loop.

    `next` returns the events of a turn: deltas of its text, then the `ExternalCall` objects that are ready, then its
    end.
    """

    id = ""
    """Session id; another process can load the session with it."""
    takes_pictures = False
    """True if prompts may contain pictures."""
    keep_stderr: Callable[[bytes], Path] | None = None
    """See `AgentProcess.start`."""

    def __init__(
        self,
        agent: KnownAgent,
        name: str,
        tools: Iterable[ToolSpec] = (),
        shell: Shell | None = None,
        *,
        serves_terminals: bool = True,
    ) -> None:
        """``tools``: notebook functions offered to the agent; ``shell``: settings for its terminal commands."""
        self._serves_terminals = serves_terminals
        self.name = name
        self._terminals = Terminals(shell or Shell())
        self._work_dir = Path()
        functions = tuple(tools)
        self._door = Door(functions, self._call_function) if functions else None
        self._titles = frozenset([join.join((NAME, tool.name)) for tool in functions for join in JOINS])
        self._agent = agent
        self._process: AgentProcess | None = None
        self._connection: Connection | None = None
        self._is_loading = False
        self._turn: asyncio.Task[Any] | None = None
        self.is_in_turn = False
        """True while a turn is running, or until its end has been read."""
        self._is_cancelled = False
        self._items: deque[ReplyDelta | list[ExternalCall]] = deque()
        """Deltas to return, and calls that ended before later deltas or calls came, in order of arrival."""
        self._news = asyncio.Event()
        self._wakes_at = 0.0
        """Time of the latest timer for `next`, by the event loop's clock."""
        self.calls: dict[str, ExternalCall] = {}
        """All calls of the session by id, since agents also report on finished calls."""
        self._unfinished: list[ExternalCall] = []
        self._announced: dict[str, ExternalCall] = {}
        """Calls that are not in a reply yet, except calls through the door."""
        self.unknown = UnknownUpdates()
        self.settings = AgentSettings()
        self.plan: list[Any] | None = None
        """The latest plan, or None before the first."""
        self.cost: float | None = None
        """Cost of the session so far in US dollars, if reported since the last `take_cost`."""
        self.usages: list[Any] = []
        """Usage per request, for agents that send it in their messages, such as qwen."""
        self._own_calls = 0  # calls that agentnb made for the agent

    # Start and end

    async def start(self, work_dir: Path, env: Mapping[str, str], mode: str = "", model: str = "", earlier: str = "") -> None:
        """Start the process and open a session in a folder, or if possible load the ``earlier`` one. Raises `ModelError`."""
        command, self._work_dir = self._agent.command, work_dir
        if shutil.which(command[0]) is None:
            how = self._agent.install
            raise ModelError(f"{self.name} is not installed: there is no {command[0]}", how and f"Install it: {how}")
        try:
            self._process = await AgentProcess.start(command, work_dir, {**self._agent.env, **env}, self.keep_stderr)
        except OSError as error:
            raise ModelError(f"{self.name} could not be started: {error.strerror or error}") from error
        reader: Any = self._process.reader
        self._connection = Connection(self._answer, self._process.writer, reader, observers=[self._observe])
        try:
            async with asyncio.timeout(SECONDS_TO_START):
                begun = await self._request(
                    "initialize",
                    protocolVersion=PROTOCOL,
                    clientCapabilities={
                        "fs": {"readTextFile": True, "writeTextFile": True},
                        "terminal": self._serves_terminals,
                    },
                    clientInfo={"name": "agentnb", "title": "agentnb", "version": str(import_module("agentnb").__version__)},
                )
                home = self._agent.env.get("HOME")
                servers = [] if self._door is None else [await self._door.open(self._process.guard_id, home)]
                parameters = {"cwd": str(work_dir), "mcpServers": servers}
                abilities = _mapping(begun.get("agentCapabilities"))
                self.takes_pictures = bool(_mapping(abilities.get("promptCapabilities")).get("image"))
                can_load = bool(earlier and abilities.get("loadSession"))
                opened = await self._load(earlier, parameters) if can_load else None
                if opened is None:
                    opened = await self._request("session/new", **parameters)
                    self.id = str(opened.get("sessionId", ""))
                if not self.id:
                    raise ModelError(f"{self.name} opened no session", self._last_words())
                await self._set_up(opened, mode, model)
        except TimeoutError as error:
            raise ModelError(f"{self.name} did not answer for {SECONDS_TO_START} s", self._last_words()) from error

    async def _set_up(self, opened: Mapping[str, Any], mode: str, model: str) -> None:
        """Set the mode and the model, if given. Later reports of other settings count as changes."""
        self.settings.take(opened)
        if mode and mode != self.settings.mode:
            if (modes := _modes_of(opened)) and mode not in modes:  # vibe accepts any mode, and keeps its own
                raise ModelError(f"{self.name} has no mode {mode!r}", suggest_names(mode, modes))
            self.settings.take({"currentModeId": mode})  # not every agent confirms it
            await self._request("session/set_mode", sessionId=self.id, modeId=mode)
        if model:
            self.settings.take({"configOptions": [{"id": "model", "currentValue": model}]})
            set_model = {"configId": "model", "value": model}
            self.settings.take(await self._request("session/set_config_option", sessionId=self.id, **set_model))
        self.settings.begin(mode)

    async def _load(self, earlier: str, about: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Load a session and return the response, or None if the agent no longer has the session."""
        self.id, self._is_loading = earlier, True
        try:
            return await self._request("session/load", sessionId=earlier, **about)  # type: ignore[no-any-return]
        except ModelError as error:
            if isinstance(error.__cause__, RequestError):
                return None
            raise
        finally:
            self._is_loading = False

    async def cancel(self) -> None:
        """Ask the agent to end its current turn, and wait briefly."""
        if self._connection is None or self._turn is None:
            return
        self._is_cancelled = True
        with suppress(OSError):  # including TimeoutError: an agent that does not read cannot be cancelled
            async with asyncio.timeout(SECONDS_TO_CANCEL):
                await self._connection.send_notification("session/cancel", {"sessionId": self.id})
                await asyncio.wait((self._turn,))

    async def close(self) -> None:
        """Cancel the current turn, and end the process with all its descendants."""
        until = asyncio.get_running_loop().time() + SECONDS_TO_STOP
        async with AsyncExitStack() as last:  # all callbacks run in reverse order, regardless of errors
            if self._door is not None:
                last.push_async_callback(self._door.close)
            last.push_async_callback(self._disconnect)
            last.push_async_callback(self._terminals.close)
            if self._process is not None:  # before the connection, which waits for the agent to read
                last.push_async_callback(self._process.end, until)
            decided = [call.answering for call in self.calls.values() if call.answering is not None and call.answer.done()]
            if decided:
                await asyncio.wait(decided, timeout=SECONDS_TO_ANSWER)
            if self.is_in_turn:
                await self.cancel()
            elif self._process is not None and not self._is_cancelled:
                await self._process.exit()

    async def _disconnect(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait((self._turn,))
        if self._connection is not None:
            with suppress(OSError):  # from an unread message
                await self._connection.close()

    # Turns

    def prompt(self, blocks: list[JsonObject]) -> None:
        """Start a turn."""
        self.is_in_turn = True
        self._turn = asyncio.ensure_future(self._request("session/prompt", sessionId=self.id, prompt=blocks))
        self._turn.add_done_callback(self._end_turn)

    def _end_turn(self, turn: asyncio.Task[Any]) -> None:
        """End the calls that the agent left open, for example by dying, since it will not report on them any more."""
        for call in self._open_calls():
            call.end.set()
        if not turn.cancelled():
            turn.exception()  # mark as retrieved: an abandoned turn is not an error
        self._news.set()

    def take_cost(self) -> float | None:
        """Return the cost of the session so far in US dollars, or None if it was not reported since the previous call."""
        cost, self.cost = self.cost, None
        return cost

    async def next(self, until: float | None = None) -> ReplyDelta | list[ExternalCall] | Mapping[str, Any] | None:
        """Return the next delta, or else the ready calls, or else the end of the turn; None at the time ``until``, or if there
        are settings changes to read.

        Raises `ModelError`.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            if self.settings.changes:
                return None
            if self._items:
                return self._items.popleft()
            if any(call.is_ready for call in self._announced.values()):
                await self._wait_for_others()
                has_earlier = any(isinstance(item, list) for item in self._items)
                if not has_earlier and (ready := self._take_ready()):
                    return ready
                continue  # it announced a call through the door, or has gone on
            assert self._turn is not None, "there was a prompt"
            if self._turn.done():
                self.is_in_turn = False
                return {"stopReason": "unknown", **await self._turn}
            if until is not None and until != self._wakes_at:
                self._wakes_at = until
                loop.call_at(until, self._news.set)
            if until is not None and loop.time() >= until:
                return None
            await self._news.wait()

    def _take_ready(self) -> list[ExternalCall]:
        """Return the announced calls that are ready, and stop listing them as announced."""
        ready = [call for call in self._announced.values() if call.is_ready]
        for call in ready:
            call.take()
            del self._announced[call.id]
        return ready

    def _begin_round(self) -> None:
        """Put calls before what arrives now if one of them has ended, since they belong to different rounds."""
        if any(call.end.is_set() for call in self._announced.values()):
            self._items.append(self._take_ready())

    def take_unmade(self) -> list[ExternalCall]:
        """Return announced calls that the agent neither ran nor asked about, and stop listing them as announced."""
        unmade = [*self._announced.values()]
        self._announced.clear()
        return unmade

    async def _wait_for_others(self) -> None:
        """Wait briefly for calls announced together, since an agent may ask about them one by one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_BESIDE):
                while not all(call.is_ready for call in self._announced.values()):
                    self._news.clear()
                    await self._news.wait()

    async def _request(self, method: str, **params: Any) -> Any:
        assert self._connection is not None, "it has started"
        try:
            return _mapping(await self._connection.send_request(method, params))
        except RequestError as error:
            raise ModelError(f"{self.name}: {_reason(error)}", self._last_words() or self._agent.sign_in) from error
        except ConnectionError as error:
            raise ModelError(f"{self.name} has ended: {error}", self._last_words()) from error

    # Messages of the agent

    def _observe(self, event: StreamEvent) -> None:
        """Process a message in order of arrival, before it is answered."""
        message = event.message
        if event.direction is not StreamDirection.INCOMING:
            return
        params = message.get("params")
        if not isinstance(params, dict):
            return
        if message.get("method") == "session/update" and isinstance(params.get("update"), dict):
            if not self._is_loading:  # a loaded session repeats old updates
                self._take(params["update"])
        elif message.get("method") == "session/request_permission" and isinstance(params.get("toolCall"), dict):
            call = self._call(params["toolCall"], is_question=True)
            call.ask(params["toolCall"], params.get("options"))
            self._judge_within(call)
        self._news.set()

    def _take(self, update: Mapping[str, Any]) -> None:
        match str(update.get("sessionUpdate")):
            case "agent_message_chunk" | "agent_thought_chunk" as kind:
                content = update.get("content")
                text = content.get("text") if isinstance(content, dict) else None
                if isinstance(text, str) and text:
                    self._begin_round()
                    self._items.append(TextDelta(text) if kind == "agent_message_chunk" else ThinkingDelta(text))
                if (usage := own_fields(update).get("usage")) is not None:
                    self.usages.append(usage)
            case "tool_call" | "tool_call_update":
                self._judge_within(self._call(update))
            case "plan":
                self.plan = [*entries] if isinstance(entries := update.get("entries"), list) else []
            case "usage_update":
                cost = update.get("cost")
                if isinstance(cost, dict) and cost.get("currency") == "USD" and isinstance(cost.get("amount"), int | float):
                    self.cost = float(cost["amount"])
            case "current_mode_update" | "config_option_update":
                self.settings.take(update)
            case kind:
                self.unknown.take(kind, {} if kind in UNUSED else update)

    def _call(self, update: Mapping[str, Any], *, is_question: bool = False) -> ExternalCall:
        call_id = str(update.get("toolCallId"))
        call = self.calls.get(call_id) or self._begin_call(ExternalCall(call_id, self._work_dir))
        call.merge(update, is_question=is_question)
        named = [block.get("terminalId") for block in call.content if isinstance(block, dict)]
        call.terminal = call.terminal or next(filter(None, map(self._terminals.get, named)), None)
        names = {name.removeprefix("mcp__") for name in (call.title, _tool_name(update))}
        is_named = call.is_at_door or not names.isdisjoint(self._titles)
        call.is_at_door = is_named and call.form is UNKNOWN_KIND and call.tool_call is None  # the title may come from a model
        if call.is_at_door:
            self._announced.pop(call.id, None)
        elif call.tool_call is None:
            self._announced.setdefault(call.id, call)
        return call

    def _begin_call(self, call: ExternalCall) -> ExternalCall:
        self._begin_round()
        self.calls[call.id] = self._announced[call.id] = call
        self._unfinished.append(call)
        return call

    def _open_calls(self) -> list[ExternalCall]:
        """Return the calls that have not ended, in order; searching all calls would take longer as the history grows."""
        self._unfinished = [call for call in self._unfinished if not call.end.is_set()]
        return self._unfinished

    def _begin_own_call(self, name: str, arguments: Mapping[str, Any], *, function: str = "", kind: str = "") -> ExternalCall:
        """Make a call on behalf of the agent; the run judges it like any other."""
        self._own_calls += 1
        unguessable = f"{name}-{self._own_calls}-{token_hex(4)}"  # so that updates of the agent cannot refer to it
        call = self._begin_call(ExternalCall(unguessable, self._work_dir, function))
        call.is_own = True
        call.merge({"title": function or name, "kind": kind, "rawInput": dict(arguments), "status": "in_progress"})
        self._judge_within(call)
        self._news.set()
        return call

    async def _answer(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a request from the agent that the observer has already processed."""
        if is_notification:
            return None
        if method == "session/request_permission":
            call = self.calls[str(params["toolCall"]["toolCallId"])]
            if call.options is None:  # an invalid request, which will not be judged
                return {"outcome": {"outcome": "cancelled"}}
            call.answering = asyncio.current_task()
            is_allowed = call.is_at_door or (await asyncio.shield(call.answer) and not call.asks_anew)
            chosen = call.select_option(is_allowed=is_allowed)
            return {"outcome": {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}}
        serve = {"fs/write_text_file": self._write, "fs/read_text_file": self._read}
        if self._serves_terminals:
            serve["terminal/create"] = self._open
        if method in serve:
            return await serve[method](params)
        if method in OF_TERMINALS:
            if (answer := await self._terminals.answer(method, str(params["terminalId"]))) is None:
                raise RequestError.invalid_params({"details": "There is no such terminal."})
            return answer
        raise RequestError.method_not_found(method)

    async def _call_function(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a notebook function on behalf of the agent."""
        call = self._begin_own_call("function", arguments, function=name)
        await call.end.wait()
        return call.own_outcome or failure("denied", DENIED)

    async def _serve(self, kind: str, arguments: Mapping[str, Any], work: Work) -> JsonObject:
        """Do work for the agent within the call that covers it, or else in a new call, so that rules and undo apply."""
        subject = str(arguments[KINDS[kind].subject or ""])
        call = next((call for call in self._open_calls() if call.covers(kind, subject)), None)
        if call is None:
            call = self._begin_own_call(kind, arguments, kind=kind)
        elif call.options is None:
            call.options = ()
            self._judge_within(call)
            self._news.set()
        allowed = await asyncio.shield(call.answer) and (call.is_own or call.covers(kind, subject))
        outcome = call.own_outcome or failure("denied", DENIED)
        if allowed:
            try:
                return await work(call, await asyncio.shield(call.context))
            except ToolRefused as refused:
                outcome = refused.outcome
            except Exception as error:  # such as an invalid path, or a text instead of a number
                outcome = tool_errors.from_exception(kind, error)
        call.close("failed", outcome.text)
        raise RequestError.invalid_params({"details": outcome.text})

    def _judge_within(self, call: ExternalCall) -> None:
        """Nest a ready call in a running one, if any: the loop waits for the running call and would not judge another."""
        if not call.is_ready or call.id not in self._announced:
            return
        running = [outer for outer in self._open_calls() if outer.context.done()]
        if running:
            self._run_within(call, running[-1])

    def _run_within(self, call: ExternalCall, outer: ExternalCall) -> None:
        del self._announced[call.id]
        tool_call, context = call.take(), outer.context.result()

        async def run() -> None:
            within.set(call)
            try:
                with suppress(ToolFailed):
                    await context.call(tool_call.name, tool_call.arguments)
            finally:
                call.reject()
                if call.function:
                    call.end.set()

        task = asyncio.ensure_future(run())
        outer.inner.add(task)
        task.add_done_callback(outer.inner.discard)

    async def _write(self, params: Mapping[str, Any]) -> JsonObject:
        path, text = _text_of(params, "path"), _text_of(params, "content")

        async def write(call: ExternalCall, context: ToolContext) -> JsonObject:
            written = await write_file(context, path, text)
            call.close("completed", written)
            return {}

        return await self._serve("edit", {"path": path, "content": text}, write)

    async def _read(self, params: Mapping[str, Any]) -> JsonObject:
        path, first, limit = _text_of(params, "path"), max(0, (params.get("line") or 1) - 1), params.get("limit")
        if self._is_missing(path):  # not a call: kimi checks for instruction files whenever it reads or writes
            raise RequestError.resource_not_found(path)

        async def read(call: ExternalCall, context: ToolContext) -> JsonObject:
            lines = StringIO(redact(await read_file(context, path)))
            text = "".join(islice(lines, first, None if limit is None else first + limit))
            call.close("completed", text)
            return {"content": text}

        return await self._serve("read", {"path": path}, read)

    def _is_missing(self, path: str) -> bool:
        """True if the working folder has no file with this path."""
        try:
            return not Path(confine(path, self._work_dir).real).exists()
        except ToolRefused:  # outside the working folder
            return False

    async def _open(self, params: Mapping[str, Any]) -> JsonObject:
        """Open a terminal for the agent."""
        try:
            command = command_of(params, self._work_dir)
        except ToolRefused as refused:
            raise RequestError.invalid_params({"details": refused.outcome.text}) from refused

        async def run(call: ExternalCall, context: ToolContext) -> JsonObject:
            terminal_id, terminal = await self._terminals.open(context, command.whole, params.get("outputByteLimit"))
            call.terminal = terminal
            if call.is_own:
                terminal.when_over(call.end.set)
            return {"terminalId": terminal_id}

        return await self._serve("execute", {"command": command.judged}, run)

    def _last_words(self) -> str:
        """Return the last line of standard error with words, as advice."""
        line = "" if self._process is None else self._process.last_line()
        return f"Its output: {line}" if line else ""


def _modes_of(opened: Mapping[str, Any]) -> list[str]:
    """Return the modes that an agent lists when a session is opened."""
    listed = _mapping(opened.get("modes")).get("availableModes")
    return [str(mode["id"]) for mode in listed if isinstance(mode, dict) and "id" in mode] if isinstance(listed, list) else []


def _tool_name(update: Mapping[str, Any]) -> str:
    """Return the tool name that qwen and claude send along with the title of a call, or ""."""
    fields = own_fields(update)
    fields = fields.get("claudeCode", fields)
    return str(fields.get("toolName", "")) if isinstance(fields, dict) else ""


def _reason(error: RequestError) -> str:
    """Return the message of an error, with the details in which agents describe the problem."""
    details = error.data.get("details") or error.data.get("message") if isinstance(error.data, dict) else error.data
    return f"{error}: {details}" if details else str(error)


def _text_of(params: Mapping[str, Any], name: str) -> str:
    """Return a text parameter. Raises `RequestError` for other values."""
    value = params.get(name)
    if not isinstance(value, str):
        raise RequestError.invalid_params({"details": f"{name} is not a string."})
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, otherwise an empty one."""
    return value if isinstance(value, dict) else {}
