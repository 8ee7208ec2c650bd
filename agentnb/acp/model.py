"""An agent of others in the place of a model: each of its rounds is a reply, its tool calls go through the run's one door."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from agentnb.acp.calls import ENDED, KINDS_BY_NAME, ForeignCall, Kind, within
from agentnb.acp.folder import WatchedFolder
from agentnb.acp.foreign_agent import ForeignAgent
from agentnb.acp.reach import check_holds
from agentnb.acp.session import Session
from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import Image, Message, Text, Thinking, visible
from agentnb.core.redaction import redact
from agentnb.core.request import Request, ToolSpec
from agentnb.core.todos import Todo, Todos, TodoStatus, normal_status
from agentnb.core.usage import UNKNOWN, Usage, checked
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models.model import Notice, Reply, StreamItem
from agentnb.policies.permissions.permissions import Permissions
from agentnb.runtime.calls.virtual_tools import VirtualTool
from agentnb.runtime.event_log import EventLog
from agentnb.settings import redact_values, values_of
from agentnb.tools import tool_errors
from agentnb.tools.builtin.group import BuiltinTool
from agentnb.tools.builtin.shell.group import Shell
from agentnb.tools.subject import WRITE_TOOL, Subject
from agentnb.tools.tool import Tool, ToolContext, ToolOutcome, failure
from agentnb.tools.toolbox import Toolbox

STATUSES: Mapping[str, TodoStatus] = {"in-progress": "in-progress", "completed": "completed"}
SESSION = "acp_session"
"""The key under which a reply's metadata has the id of the session."""
CALLS = "tool_use"
"""The stop reason of a reply that ends because calls began: it is ours, no agent says it."""


class AcpModel:
    """One run's conversation with an agent. It is made for a run, and `close` ends its process."""

    def __init__(
        self,
        foreign: ForeignAgent,
        work_dir: Path,
        tell_todos: Callable[[Todos], None],
        functions: Toolbox | None = None,
        before: Run | None = None,
    ) -> None:
        """``tell_todos`` takes the list of todos when the agent has told a plan; ``functions`` are the person's; ``before`` is
        the run whose conversation goes on.
        """
        self._before = before
        self._foreign, self._agent, self.name = foreign, foreign.known, foreign.name
        self._work_dir, self._model, self._mode = work_dir, foreign.model, foreign.mode or foreign.known.asks_in
        self._session: Session | None = None
        self._heard = 0
        """Parts of what the person has said that the agent was told."""
        self._cost_before = 0.0
        tools = () if functions is None else tuple(functions)
        groups = [tool.group for tool in tools if isinstance(tool, BuiltinTool)]
        self._shell = next((group for group in groups if isinstance(group, Shell)), None)
        """How its commands run in terminals; None if the person has given no shell."""
        served = () if self._shell is None else Shell.tool_names
        self.tools = ForeignToolbox(self, [tool for tool in tools if tool.spec.name not in served])
        self.folder: WatchedFolder
        """The working folder, once `watch_folder` has looked at it."""
        self._tell_todos = tell_todos
        self._plan: list[Any] | None = None
        self._calls: list[ForeignCall] = []
        """The calls of the last reply."""

    def check(self, permissions: Permissions) -> str:
        """Return a warning about what the person is not asked, as `check_holds` does. Raises `SettingsError`."""
        if self._shell is not None and not self._agent.terminals:
            what = f"Shell does not reach {self.name}, which runs its commands itself"
            raise SettingsError(what, "Leave it out, or run an agent that has agentnb run its commands, such as kimi")
        return check_holds(self._foreign, permissions)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the deltas of a round, then its reply: with the calls that have begun, or the last words of the turn."""
        if self._session is None and (notice := await self._begin(request)) is not None:
            yield notice
        session = self._session
        assert session is not None, "it has begun"
        rejected = self._reject()
        if not session.is_in_turn:
            session.prompt(self._untold(request))
        pieces = _Pieces()
        usage = UNKNOWN
        while True:
            item = await session.next()
            if session.plan is not self._plan:
                self._plan = session.plan
                self._tell_todos(todos_of(self._plan or ()))
            if isinstance(item, TextDelta | ThinkingDelta):
                pieces.add(item)
                yield item
                continue
            for call in rejected:
                if call.status in ENDED and call.options is None and not call.is_own:
                    yield Notice(f"{self.name} did not ask about {call.form.name}: it may have run although it was not allowed")
            rejected = []
            if isinstance(item, list):
                self._calls = item
                calls = [call.take() for call in item]
                yield Reply(Message("assistant", (*pieces.parts, *calls)), usage, CALLS, {SESSION: session.id})
                return
            ended = self._usage(item, session)
            usage = ended if usage is UNKNOWN else usage + ended
            untold = self._untold(request)
            if not untold:
                yield Reply(Message("assistant", pieces.parts), usage, str(item["stopReason"]), {SESSION: session.id})
                return
            session.prompt(untold)  # what the person said meanwhile

    def _reject(self) -> list[ForeignCall]:
        """Reject the calls of the last reply that may not run, and return them."""
        rejected = [call for call in self._calls if not call.answer.done()]
        for call in rejected:
            call.answer.set_result(False)
            if call.function:
                call.end.set()
        return rejected

    async def _begin(self, request: Request) -> Notice | None:
        """Start the agent, with the conversation of the run before if it can load that; return a notice if it cannot."""
        agent, place = self._agent, self._foreign.place
        if place is not None:
            agent = await asyncio.to_thread(place.around, agent)
        is_walled = place is not None and place.is_in_sandbox  # where agentnb runs no command for it, which would be outside
        keys = values_of(agent.keys)
        redact_values(keys)
        session = self._session = Session(
            agent, self.name, self.folder, self.tools.specs, self._shell, serves_terminals=not is_walled
        )
        earlier = "" if self._before is None else _session_of(self._before)
        await session.start(self._work_dir, keys, self._mode, self._model, earlier)
        if self._before is None:
            return None
        self._heard = len(_said_by_person(request)) - _parts_of_prompt(request)
        if session.id == earlier:
            return None
        return Notice(f"{self.name} cannot load the conversation of run {self._before.id}: it begins a new one")

    def _untold(self, request: Request) -> list[dict[str, Any]]:
        """Return what the person has said since the last turn, as blocks of a prompt."""
        parts = _said_by_person(request)
        new, self._heard = parts[self._heard :], len(parts)
        return [_block(part) for part in new]

    def _usage(self, end: Mapping[str, Any], session: Session) -> Usage:
        tokens, cost = end.get("usage"), session.cost
        spent = None if cost is None else max(0.0, cost - self._cost_before)
        self._cost_before = cost or self._cost_before
        if not isinstance(tokens, dict) or self._agent.usage != "turn":
            return Usage(cost=spent)
        return checked(Usage(tokens.get("inputTokens"), tokens.get("outputTokens"), tokens.get("cachedReadTokens"), cost=spent))

    def call_of(self, call_id: str) -> ForeignCall | None:
        """Return the call of this id."""
        return None if self._session is None else self._session.calls.get(call_id)

    async def watch_folder(self, log: EventLog) -> None:
        """Look at the working folder, to know later what has changed there although agentnb did not write it."""
        store = getattr(log.store, "folder", None)
        self.folder = await asyncio.to_thread(WatchedFolder, self._work_dir, store)

    async def close(self) -> None:
        """End the agent's process and all that it began."""
        if self._session is not None:
            await self._session.close()


def _said_by_person(request: Request) -> list[Text | Image]:
    """Return all that the person has said in a conversation; what they said beside calls is with the results of these."""
    messages = [message for message in request.messages if message.role in ("user", "tool")]
    return [part for message in messages for part in message.parts if isinstance(part, Text | Image)]


class _Pieces:
    """The words and thoughts of a reply as they came."""

    def __init__(self) -> None:
        self._pieces: list[tuple[type[ReplyDelta], list[str]]] = []

    def add(self, delta: ReplyDelta) -> None:
        """Add a delta."""
        if not self._pieces or self._pieces[-1][0] is not type(delta):
            self._pieces.append((type(delta), []))
        self._pieces[-1][1].append(delta.text)

    @property
    def parts(self) -> tuple[Text | Thinking, ...]:
        """The parts of a message, one for consecutive deltas of a kind."""
        return tuple([(Text if kind is TextDelta else Thinking)("".join(texts)) for kind, texts in self._pieces])


def _parts_of_prompt(request: Request) -> int:
    last = next(message for message in reversed(request.messages) if message.role == "user")
    return len([part for part in last.parts if isinstance(part, Text | Image)])


def _session_of(run: Run) -> str:
    """Return the session of a run's conversation; empty if its log has none."""
    found = next((current.metadata[SESSION] for current in reversed(run.rounds) if SESSION in current.metadata), "")
    return str(found)


def todos_of(entries: Iterable[Any]) -> Todos:
    """Return the todos of a plan as an agent tells it; what is no entry is left out."""
    sound = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("content"), str)]
    return tuple([Todo(place, visible(entry["content"]), _status(entry)) for place, entry in enumerate(sound, 1)])


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
        self._model = model
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
        try:
            await call.end.wait()
        except asyncio.CancelledError:
            if call.terminal is not None:
                call.terminal.kill()
            raise
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


class FunctionAtDoor(VirtualTool):
    """A function of the notebook that the agent calls: what it returns goes to the agent as well."""

    def __init__(self, model: AcpModel, behind: Tool) -> None:
        super().__init__(behind.spec.name, _never, behind)
        self._model, self._function = model, behind
        self.parallel_safe, self.blocking = behind.parallel_safe, behind.blocking

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run the function."""
        call = self._model.call_of(context.call_id)
        outcome = tool_errors.cancelled()
        try:
            outcome = await self._function.run(arguments, context)
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


def _never(arguments: Any, context: ToolContext) -> None:
    """Stand where a handler does."""


class ForeignToolbox(Toolbox):
    """The person's functions, and a tool for each kind of an agent's calls. The agent itself lists none."""

    def __init__(self, model: AcpModel, functions: Iterable[Tool] = ()) -> None:
        super().__init__([FunctionAtDoor(model, tool) for tool in functions])
        self._of_kinds = {name: ForeignTool(model, kind) for name, kind in KINDS_BY_NAME.items()}
        for name in KINDS_BY_NAME:
            if name in self._tools:
                raise SettingsError(f"{name} is also what calls of {model.name} are called", "Give yours another name")

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name."""
        return super().get(name) or self._of_kinds.get(name)
