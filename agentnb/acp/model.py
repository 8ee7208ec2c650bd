"""An agent of others in the place of a model: each of its rounds is a reply, its tool calls go through the run's one door."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from agentnb.acp.calls import ENDED, KINDS_BY_NAME, UNKNOWN_KIND, ForeignCall, Kind, within
from agentnb.acp.folder import WatchedFolder
from agentnb.acp.foreign_agent import UNCHECKED, ForeignAgent
from agentnb.acp.installed import installed
from agentnb.acp.known_agents import AS_ERRORS
from agentnb.acp.reach import check_cost, check_holds
from agentnb.acp.record import SESSION_COST, Pieces, Spending
from agentnb.acp.session import Session
from agentnb.core.log.events import TextDelta, ThinkingDelta
from agentnb.core.messages import Image, Message, Text, ToolCall, visible
from agentnb.core.redaction import redact
from agentnb.core.request import Request, ToolSpec
from agentnb.core.todos import Todo, Todos, TodoStatus, normal_status
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.errors import ModelError, SettingsError
from agentnb.models.model import Notice, Reply, StreamItem
from agentnb.policies.permissions.permissions import Permissions
from agentnb.runtime.calls.virtual_tools import VirtualTool
from agentnb.runtime.event_log import EventLog
from agentnb.settings import redact_values, values_of
from agentnb.tools import tool_errors
from agentnb.tools.builtin.group import BuiltinTool
from agentnb.tools.builtin.shell.group import Shell
from agentnb.tools.subject import WRITE_TOOL, Subject, kind_of_subject, value_of_subject
from agentnb.tools.tool import Tool, ToolContext, ToolOutcome, failure
from agentnb.tools.toolbox import Toolbox

STATUSES: Mapping[str, TodoStatus] = {"in-progress": "in-progress", "completed": "completed"}
SESSION = "acp_session"
"""The key under which a reply's metadata has the id of the session."""
START = "start_agent"
"""The name of the call by which the person decides whether an agent starts."""
ROUNDS = "rounds"
"""The key that says of a round how its bounds were found: no agent tells them."""
CALLS = "tool_use"
"""The stop reason of a reply that ends because calls began: it is ours, no agent says it."""
MAX_ERROR = 300
"""Characters of an error that an agent reports as its last words."""
SAY_MORE = "Tell it what to do instead: continue the run"


class AcpModel:
    """One run's conversation with an agent. It is made for a run, and `close` ends its process."""

    def __init__(
        self,
        foreign: ForeignAgent,
        work_dir: Path,
        tell_todos: Callable[[Todos], None],
        functions: Toolbox | None = None,
        before: Run | None = None,
        *,
        is_recovered: bool = False,
    ) -> None:
        """``tell_todos`` takes the list of todos when the agent has told a plan; ``functions`` are the person's; ``before`` is
        the run whose conversation goes on, which is this run itself if it ``is_recovered``.
        """
        self._before, self._is_recovered = before, is_recovered
        self._foreign, self._agent, self.name = foreign, foreign.known, foreign.name
        self._work_dir, self._model, self._mode = work_dir, foreign.model, foreign.mode or foreign.known.asks_in
        self._session: Session | None = None
        self.start: Literal["free", "to_ask", "asked"] = "free"
        """Whether the agent may start, or the person is asked first."""
        self._cancelling: asyncio.Future[None] | None = None
        """The event loop holds tasks only weakly."""
        self._heard = 0
        """Messages of the log whose words the agent has, or was told."""
        self._spending = Spending(self._agent)
        tools = () if functions is None else tuple(functions)
        groups = [tool.group for tool in tools if isinstance(tool, BuiltinTool)]
        self._shell = next((group for group in groups if isinstance(group, Shell)), None)
        """How its commands run in terminals; None if the person has given no shell."""
        served = () if self._shell is None else Shell.tool_names
        self.tools = ForeignToolbox(self, [tool for tool in tools if tool.spec.name not in served])
        self.folder: WatchedFolder
        """The working folder, once `watch_folder` has looked at it."""
        self._run: Run
        """The run as its log has it, from then on."""
        self._tell_todos = tell_todos
        self._plan: list[Any] | None = None
        self._calls: list[ForeignCall] = []
        """The calls of the last reply."""

    def check(self, permissions: Permissions, *, has_budget: bool = False) -> str:
        """Return a warning about what the person is not asked, and what does not reach the agent. Raises `SettingsError`."""
        if has_budget:
            check_cost(self._foreign)
        if self._shell is not None and not self._agent.terminals:
            problem = f"Shell does not reach {self.name}, which runs its commands itself"
            raise SettingsError(problem, "Leave it out, or run an agent that has agentnb run its commands, such as kimi")
        warning, asks = check_holds(self._foreign, permissions)
        self.start = "to_ask" if asks else "free"
        hidden = f"Functions of the notebook are not among the tools that {self.name} shows its model"
        is_hidden = not (self._agent.offers_functions or self.tools.is_empty)
        return "; ".join(filter(None, (warning, hidden if is_hidden else "")))

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the deltas of a round, then its reply: with the calls that have begun, or the last words of the turn."""
        if (question := self._ask_to_start()) is not None:
            yield question
            return
        if self._session is None and (notice := await self._begin()) is not None:
            yield notice
        session = self._session
        assert session is not None, "it has begun"
        for name in sorted({call.form.name for call in self._calls if call.is_changed}):
            yield Notice(f"{self.name} has changed the arguments of {name} after the call was judged")
        rejected = self._reject()
        has_begun = session.is_in_turn or self._tell(session)
        assert has_begun, "a round begins with what the person has said, or within a turn"
        pieces, usage, metadata = Pieces(asyncio.get_running_loop().time), UNKNOWN, dict[str, Any]()
        while True:
            item = await session.next(pieces.due)
            self._take_plan(session)
            if item is None or isinstance(item, TextDelta | ThinkingDelta):
                if item is not None:
                    pieces.add(item)
                    yield item
                if pieces.is_due:
                    yield pieces.batch({SESSION: session.id})
                continue
            for notice in self._notices_of(rejected, item, pieces):
                yield notice
            rejected = []
            reply = (
                self._reply_with_calls(session, item, pieces)
                if isinstance(item, list)
                else self._reply_of_turn(session, item, pieces)
            )
            usage = reply.usage if usage is UNKNOWN else usage + reply.usage
            metadata |= reply.metadata
            if isinstance(item, list) or not self._tell(session):  # else the person has said something meanwhile
                yield replace(reply, usage=usage, metadata={**metadata, **session.unknown.as_metadata()})
                self._check_end(reply)
                return

    def _take_plan(self, session: Session) -> None:
        if session.plan is not self._plan:
            self._plan = session.plan
            self._tell_todos(todos_of(self._plan or ()))

    def _reply_with_calls(self, session: Session, calls: list[ForeignCall], pieces: Pieces) -> Reply:
        self._calls = calls
        spent = Usage(cost=self._spending.cost_since(session.cost, ends_turn=False))
        message = Message("assistant", (*pieces.parts, *[call.take() for call in calls]))
        return Reply(message, spent, CALLS, self._metadata(session))

    def _reply_of_turn(self, session: Session, end: Mapping[str, Any], pieces: Pieces) -> Reply:
        tokens, metadata = self._spending.tokens(end.get("usage"), session.usages)
        session.usages.clear()
        unchecked = {} if self._agent.errors else {UNCHECKED: True}
        metadata = {**self._metadata(session), **metadata, **unchecked}
        usage = replace(tokens, cost=self._spending.cost_since(session.take_cost(), ends_turn=True))
        return Reply(Message("assistant", pieces.parts), usage, str(end["stopReason"]), metadata)

    def _metadata(self, session: Session) -> dict[str, Any]:
        cost = {} if session.cost is None else {SESSION_COST: session.cost}
        return {SESSION: session.id, ROUNDS: "inferred", **cost}

    def _check_end(self, reply: Reply) -> None:
        """Raise `ModelError` if the last words are an error of the agent, by the sign of its row."""
        sign = self._agent.errors
        if not reply.message.calls and sign not in ("", AS_ERRORS) and re.search(sign, reply.message.text):
            error, _, _ = reply.message.text.strip().partition("\n")
            raise ModelError(f"{self.name}: {error[:MAX_ERROR]}", self._agent.sign_in)

    def _notices_of(self, rejected: Iterable[ForeignCall], item: Any, pieces: Pieces) -> Iterator[Notice]:
        """Yield a warning about each call of the last reply that was not allowed, and ran or ended the turn all the same; at
        the end of the turn about those that were never made.
        """
        ends = not isinstance(item, list)
        is_over = ends and not pieces.parts
        unmade = self._session.take_unmade() if ends and self._session is not None else []
        if names := sorted({call.form.name for call in unmade}):
            yield Notice(f"{self.name} announced calls that it did not make: {', '.join(names)}")
        for call in rejected:
            if call.status in ENDED and call.options is None and not call.is_own:
                yield Notice(f"{self.name} did not ask about {call.form.name}: it may have run although it was not allowed")
            elif is_over:
                yield Notice(f"{self.name} ended its turn after {call.form.name} was not allowed", SAY_MORE)

    def _ask_to_start(self) -> Reply | None:
        """Return the reply that asks the person about the start; None if it may start. Raises `ModelError` if it may not."""
        if self.start == "asked":
            raise ModelError(f"{self.name} was not started", f"Approve {START}, or allow it by a rule")
        if self.start == "free":
            return None
        self.start = "asked"
        program = installed(self._agent)
        arguments = {"agent": self.name, "version": program.version if program is not None else "", "tried": self._agent.tried}
        return Reply(Message("assistant", (ToolCall(START, arguments),)), UNKNOWN, CALLS)

    def _reject(self) -> list[ForeignCall]:
        """Reject the calls of the last reply that nobody has answered, and return all that were not allowed."""
        for call in self._calls:
            call.reject()
        return [call for call in self._calls if not call.answer.result()]

    async def _begin(self) -> Notice | None:
        """Start the agent, with the conversation of the run before if it can load that; return a notice if it cannot."""
        agent, environment = self._agent, self._foreign.place
        if environment is not None:
            agent = await asyncio.to_thread(environment.around, agent)
        is_walled = (
            environment is not None and environment.is_in_sandbox
        )  # where agentnb runs no command for it, which would be outside
        keys = values_of(agent.keys)
        redact_values(keys)
        session = self._session = Session(
            agent, self.name, self.folder, self.tools.specs, self._shell, serves_terminals=not is_walled
        )
        earlier = str(_last_of(self._before, SESSION) or "")
        await session.start(self._work_dir, keys, self._mode, self._model, earlier)
        cost = _last_of(self._before, SESSION_COST)
        self._spending = Spending(self._agent, is_loaded=session.id == earlier, cost=cost)
        is_resumed = self._is_recovered and session.id == earlier  # else all of the run is told
        self._heard = _place_of_prompt(self._run.messages) if is_resumed else self._run.inherited
        if self._before is None or session.id == earlier:
            return None
        return Notice(f"{self.name} cannot load the conversation of run {self._before.id}: it begins a new one")

    def _tell(self, session: Session) -> bool:
        """Begin a turn with what the person has said since the last; return whether that is anything.

        It is read in the log: a request joins messages, so that a later one may say more in as many parts.
        """
        messages = self._run.messages
        new, self._heard = messages[self._heard :], len(messages)
        parts = [part for message in new if message.role == "user" for part in message.parts]
        blocks = [_block(part) for part in parts if isinstance(part, Text | Image)]
        if blocks:
            session.prompt(blocks)
        return bool(blocks)

    @property
    def is_in_turn(self) -> bool:
        """Whether the agent works by itself: a pause of the run waits for the end of its turn, or for its next question."""
        return self._session is not None and self._session.is_in_turn

    def refused(self, call_id: str) -> None:
        """Tell the agent at once that a call is not allowed: it may wait for that before it ends the others."""
        if (call := self.call_of(call_id)) is not None:
            call.reject()

    def call_of(self, call_id: str) -> ForeignCall | None:
        """Return the call of this id."""
        return None if self._session is None else self._session.calls.get(call_id)

    def end_turn(self) -> None:
        """Have the agent end the turn that runs."""
        if self._session is not None and self._session.is_in_turn:
            self._cancelling = asyncio.ensure_future(self._session.cancel())

    async def watch_folder(self, log: EventLog) -> None:
        """Look at the working folder, to know later what has changed there although agentnb did not write it."""
        self._run, store = log.run, getattr(log.store, "folder", None)
        self.folder = await asyncio.to_thread(WatchedFolder, self._work_dir, store)

    async def close(self) -> None:
        """End the agent's process and all that it began."""
        if self._session is not None:
            await self._session.close()


def _place_of_prompt(messages: Sequence[Message]) -> int:
    """Return the index of the first of the newest messages that the person has said one after the other."""
    index = next(index for index in range(len(messages), 0, -1) if messages[index - 1].role == "user")
    while index > 0 and messages[index - 1].role == "user":
        index -= 1
    return index


def _last_of(run: Run | None, key: str) -> Any:
    """Return the newest value of a run's metadata under a key; None if there is none."""
    rounds = () if run is None else reversed(run.rounds)
    return next((current.metadata[key] for current in rounds if key in current.metadata), None)


def todos_of(entries: Iterable[Any]) -> Todos:
    """Return the todos of a plan as an agent tells it; what is no entry is left out."""
    sound = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("content"), str)]
    return tuple([Todo(number, visible(entry["content"]), _status(entry)) for number, entry in enumerate(sound, 1)])


def _status(entry: Mapping[str, Any]) -> TodoStatus:
    status = normal_status(str(entry.get("status", "")))
    return STATUSES.get(status, "not-started")


def _block(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image", "mimeType": part.media_type, "data": b64encode(part.data).decode()}


class ForeignTool:
    """A tool of the agent: to run a call is to let the agent run it, and to wait for the end that it tells."""

    parallel_safe = True
    blocking = False
    timeout = None

    def __init__(self, model: AcpModel, form: Kind) -> None:
        self._model, self.refused = model, model.refused
        properties = {form.subject: {"type": "string"}} if form.subject else {}
        self.spec = ToolSpec(form.name, "", {"type": "object", "properties": properties})
        self.effects, self.flag = form.effects, form.flag
        self.nature = form.nature
        self.subject = None if form.subject is None else Subject(form.subject, form.subject)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Allow the call, and wait for its end."""
        call = self._model.call_of(context.call_id) or within.get()
        if call is None or call.made is None:
            return failure("no_result", "The agent makes this call no longer.")
        call.given = self._refusal(call, arguments)
        if not call.answer.done():
            call.answer.set_result(call.given is None)
            call.context.set_result(context)
        await call.wait()
        return call.given or call.outcome

    def _refusal(self, call: ForeignCall, arguments: Any) -> ToolOutcome | None:
        """Return why the call may not run although it was allowed; None if it may."""
        if call.made is None or arguments != redact(call.made).arguments:
            return failure("edited", "The agent takes no other arguments than its own: the call was rejected.")
        is_asked = call.options is not None or call.is_own  # else it may have written
        path = arguments.get(call.form.subject or "")
        if is_asked and self.spec.name == WRITE_TOOL and isinstance(path, str) and self._model.folder.is_open_notebook(path):
            advice = "Tell the person which cells to change, or write another file."
            return failure("open_notebook", f"{path} was not written: it is the notebook that is open here.", advice)
        return None


class AgentStart:
    """The start of an agent of which nobody knows whether it asks: a call, so that the person decides about it as about any."""

    parallel_safe = blocking = False
    timeout = subject = flag = None
    effects = UNKNOWN_KIND.effects
    spec = ToolSpec(START, "", {"type": "object"})

    def __init__(self, model: AcpModel) -> None:
        self._model = model

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Let the next round start it."""
        self._model.start = "free"
        return ToolOutcome(True, (Text("It starts."),))


class FunctionAtDoor(VirtualTool):
    """A function of the notebook that the agent calls: what it returns goes to the agent as well."""

    def __init__(self, model: AcpModel, behind: Tool) -> None:
        super().__init__(behind.spec.name, _never, behind)
        self._model, self._function, self.refused = model, behind, model.refused
        self.parallel_safe, self.blocking = behind.parallel_safe, behind.blocking

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run the function."""
        call = self._model.call_of(context.call_id) or within.get()
        outcome = tool_errors.cancelled()
        try:
            outcome = await self._function.run(arguments, context)
            if outcome.ok:
                self._take_written(arguments)
        except Exception as error:
            outcome = tool_errors.raised(self.spec.name, error)
            raise
        finally:
            if call is not None:
                call.given = outcome
                if not call.answer.done():
                    call.answer.set_result(True)
                call.end.set()
        return outcome

    def _take_written(self, arguments: Any) -> None:
        """Have the watched folder know a file that agentnb wrote, so that an undo puts it back."""
        is_ours = isinstance(self._function, BuiltinTool)  # a function of the person keeps nothing for an undo
        if is_ours and kind_of_subject(self) == "path" and "write" in (self.effects or ()):
            self._model.folder.take(value_of_subject(self, arguments) or "")


def _never(arguments: Any, context: ToolContext) -> None:
    """Stand where a handler does."""


class ForeignToolbox(Toolbox):
    """The person's functions, and a tool for each kind of an agent's calls. The agent itself lists none."""

    def __init__(self, model: AcpModel, functions: Iterable[Tool] = ()) -> None:
        super().__init__([FunctionAtDoor(model, tool) for tool in functions])
        self._of_kinds: dict[str, Tool] = {name: ForeignTool(model, kind) for name, kind in KINDS_BY_NAME.items()}
        self._of_kinds[START] = AgentStart(model)
        for name in self._of_kinds:
            if name in self._tools:
                raise SettingsError(f"{name} is also what calls of {model.name} are called", "Give yours another name")

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name."""
        return super().get(name) or self._of_kinds.get(name)
