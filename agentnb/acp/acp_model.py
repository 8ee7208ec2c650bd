"""An external agent in the role of a model: each of its rounds is a reply, and its tool calls need the run's permission."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from agentnb.acp.acp_session import SECONDS_TO_STOP, Session
from agentnb.acp.agent_calls import (
    ALLOW_ALWAYS,
    ALLOW_ONCE,
    ENDED,
    KINDS_BY_NAME,
    REJECT_ONCE,
    UNKNOWN_KIND,
    ExternalCall,
    Kind,
    within,
)
from agentnb.acp.external_agent import ExternalAgent
from agentnb.acp.installed import find_installed
from agentnb.acp.known_agents import AS_ERRORS
from agentnb.acp.model_network import ModelNetwork, model_addresses
from agentnb.acp.reach import check_cost, check_holds, denied_effects
from agentnb.acp.turn_record import MODE, SESSION_COST, Pieces, Spending
from agentnb.acp.watched_folder import WatchedFolder
from agentnb.advice import as_advice
from agentnb.core.log.events import TextDelta, ThinkingDelta
from agentnb.core.messages import Image, JsonObject, Message, Text, ToolCall, visible
from agentnb.core.questions import BY_AGENT
from agentnb.core.redaction import redact
from agentnb.core.request import Request, ToolSpec
from agentnb.core.run.approvals import given_grant
from agentnb.core.run.rounds import UNCHECKED
from agentnb.core.todos import Todo, Todos, TodoStatus, normal_status
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.errors import ModelError, SettingsError
from agentnb.models.model import Notice, Reply, StreamItem
from agentnb.models.transport.limiter import Limiter
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.calls.virtual_tools import VirtualTool
from agentnb.runtime.event_log import EventLog
from agentnb.settings import redact_values, values_of
from agentnb.tools import tool_errors
from agentnb.tools.builtin.group import BuiltinTool
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.defaults import MAX_AGENTS
from agentnb.tools.mcp.wire_names import FIND_TOOLS
from agentnb.tools.subject import WRITE_TOOL, Subject
from agentnb.tools.tool import Effect, Tool, ToolContext, ToolOutcome, failure
from agentnb.tools.toolbox import Toolbox

STATUSES: Mapping[str, TodoStatus] = {"in-progress": "in-progress", "completed": "completed"}
SESSION = "acp_session"
"""Metadata key for the session id in a reply."""
START = "start_agent"
"""Name of the call by which the person approves the start of an agent."""
ROUNDS = "rounds"
"""Metadata key for the origin of round boundaries, since agents do not report these."""
CALLS = "tool_use"
"""Stop reason of a reply that ends because calls began: agentnb's own, not reported by agents."""
MAX_ERROR = 300
"""Maximum characters of an error in the agent's final text."""
ITS_MEMORY = "You can only choose an answer that it remembers, if the question offers one"
IF_NEEDED = "If the agent needs them, name all its hosts in the variant: hosts=[...]"
SAY_MORE = "To tell the agent what to do instead, continue the run"


@cache
def places() -> Limiter:
    """Return the limiter shared by all agents of this process."""
    return Limiter(MAX_AGENTS, "external agents")


at_door: list[FunctionAtDoor] = []
"""The person's functions running for an agent now. They may wait for other agents, including ones started in other threads."""


class AcpModel:
    """A run's conversation with an agent. Created for one run; `close` ends the agent's process."""

    seconds_to_end = SECONDS_TO_STOP
    """Maximum seconds that the end of its process takes."""

    def __init__(
        self,
        external: ExternalAgent,
        work_dir: Path,
        tell_todos: Callable[[Todos], None],
        functions: Toolbox | None = None,
        before: Run | None = None,
        *,
        is_recovered: bool = False,
    ) -> None:
        """``tell_todos``: receives the todos of the agent's plan; ``functions``: the person's; ``before``: the run whose
        conversation is continued (this run itself if it ``is_recovered``).
        """
        self._before, self._is_recovered = before, is_recovered
        self._external, self._agent, self.name, self.agent = external, external.known, external.name, external.agent
        self._work_dir, self._model, self._mode = work_dir, external.model, external.mode or external.known.asks_in
        self._session: Session | None = None
        self.start: Literal["free", "to_ask", "asked"] = "free"
        """Permission to start the agent: not needed, still to be asked for, or asked for."""
        self.denied: Mapping[str, frozenset[Effect]] = {}
        """Effects that the run's permissions deny; see `denied_effects`."""
        self._asking_modes: frozenset[str] = frozenset()
        """Modes in which the agent asks, or that the person chose."""
        self._cancelling: asyncio.Future[None] | None = None
        """Keeps the task alive, since the event loop holds only weak references."""
        self._heard = 0
        """Number of logged messages that the agent knows."""
        self._place = AsyncExitStack()
        """Holds the agent's slot among those that are running, and its network."""
        self._network: ModelNetwork | None = None
        """The network of an agent in a sandbox."""
        self._spending = Spending(self._agent)
        tools = () if functions is None else tuple(functions)
        groups = [tool.group for tool in tools if isinstance(tool, BuiltinTool)]
        self._shell = next((group for group in groups if isinstance(group, Shell)), None)
        """Shell for the agent's terminal commands, or None if the person provided none."""
        self._served = () if self._shell is None else Shell.tool_names
        self.tools = ExternalToolbox(self, [tool for tool in tools if tool.spec.name not in self._served])
        self.tools.servers = () if functions is None else functions.servers
        self.folder: WatchedFolder
        """The working folder; set by `begin`."""
        self._run: Run
        """The run, as in its log; set by `begin`."""
        self._keep_stderr: Callable[[bytes], Path] | None = None
        self._tell_todos = tell_todos
        self._plan: list[Any] | None = None
        self._calls: list[ExternalCall] = []
        """Calls of the last reply."""

    def check(self, permissions: Permissions, *, has_budget: bool = False) -> str:
        """Return a warning about actions taken without asking and settings without effect. Raises `SettingsError`."""
        if has_budget:
            check_cost(self._external)
        if self._shell is not None and not self._agent.terminals:
            problem = f"Shell does not reach {self.name}, which runs its commands itself"
            raise SettingsError(problem, "Omit it, or use an agent that lets agentnb run its commands, such as kimi")
        self.denied = denied_effects(permissions, self.tools.of_kinds)
        warning, asks = check_holds(self._external, permissions, self.denied)
        self.start = "to_ask" if asks else "free"
        hidden = f"{self.name} does not offer the notebook's functions to its model"
        is_hidden = not (self._agent.offers_functions or self.tools.is_empty)
        return "; ".join(filter(None, (warning, hidden if is_hidden else "")))

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the deltas of a round, then its reply, with the calls that have begun or the end of the turn."""
        if (question := self._ask_to_start()) is not None:
            yield question
            return
        if self._session is None and (notice := await self._begin(request.tools)) is not None:
            yield notice
        session = self._session
        assert session is not None, "it has begun"
        for name in sorted({call.form.name for call in self._calls if call.is_changed}):
            yield Notice(f"{self.name} changed the arguments of {name} after agentnb had checked the call")
        rejected = self._reject()
        has_begun = session.is_in_turn or self._tell(session)
        assert has_begun, "a round begins with what the person has said, or within a turn"
        pieces, usage, metadata = Pieces(asyncio.get_running_loop().time), UNKNOWN, JsonObject()
        while True:
            item = await session.next(pieces.due)
            self._take_plan(session)
            for notice in self._changes(session):
                yield notice
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
            if isinstance(item, list) or not self._tell(session):  # otherwise the person has written meanwhile
                yield replace(reply, usage=usage, metadata={**metadata, **session.unknown.as_metadata()})
                self._check_end(reply)
                return

    def _take_plan(self, session: Session) -> None:
        if session.plan is not self._plan:
            self._plan = session.plan
            self._tell_todos(todos_of(self._plan or ()))

    def _changes(self, session: Session) -> Iterator[Notice]:
        """Yield warnings about settings that the agent has changed itself. Raises `ModelError` if the run's permissions
        deny calls that it may no longer ask about.
        """
        changes, session.settings.changes = session.settings.changes, []
        for name, before, value in changes:
            change = f"{self.name} changed its {name} from {before or 'an unknown one'} to {value}"
            if name == MODE and value not in self._asking_modes:
                change = f"{change}, in which it is not known to ask before it writes and executes"
                if held := self._held:
                    raise ModelError(change, f"The run ended, because {', '.join(held)} would have no effect")
            yield Notice(change)

    @property
    def _held(self) -> list[str]:
        """The modes and rules of the run that hold only as long as the agent asks."""
        return [text for text, effects in self.denied.items() if effects]

    def _end_unheld_turn(self) -> None:
        """Make the agent end its turn if it has left its asking mode while a call runs; the next round then fails."""
        if self._session is not None and self._held and self._session.settings.mode not in self._asking_modes:
            self.end_turn()

    def _reply_with_calls(self, session: Session, calls: list[ExternalCall], pieces: Pieces) -> Reply:
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

    def _metadata(self, session: Session) -> JsonObject:
        cost = {} if session.cost is None else {SESSION_COST: session.cost}
        return {SESSION: session.id, ROUNDS: "inferred", **cost}

    def _check_end(self, reply: Reply) -> None:
        """Raise `ModelError` if the final text is an error according to the pattern in the agent's entry."""
        sign = self._agent.errors
        if not reply.message.calls and sign not in ("", AS_ERRORS) and re.search(sign, reply.message.text):
            error, _, _ = reply.message.text.strip().partition("\n")
            raise ModelError(f"{self.name}: {error[:MAX_ERROR]}", self._agent.sign_in)

    def _notices_of(self, rejected: Iterable[ExternalCall], item: Any, pieces: Pieces) -> Iterator[Notice]:
        """Yield warnings about rejected calls of the last reply that ran or ended the turn anyway and, at the end of
        the turn, about calls that were announced but never made.
        """
        ends = not isinstance(item, list)
        is_over = ends and not pieces.parts
        unmade = self._session.take_unmade() if ends and self._session is not None else []
        if names := sorted({call.form.name for call in unmade}):
            yield Notice(f"{self.name} announced calls that it did not make: {', '.join(names)}")
        for call in rejected:
            if call.status in ENDED and call.options is None and not call.is_own:
                yield Notice(f"{self.name} did not ask about {call.form.name}: it may have run without permission")
            elif is_over:
                yield Notice(f"{self.name} ended its turn after {call.form.name} was not allowed", SAY_MORE)

    def _ask_to_start(self) -> Reply | None:
        """Return the reply that asks the person whether to start the agent, or None if that is allowed. Raises
        `ModelError` if it is denied.
        """
        if self.start == "asked":
            raise ModelError(f"{self.name} was not started", f"Approve {START}, or allow it by a rule")
        if self.start == "free":
            return None
        self.start = "asked"
        program = find_installed(self._agent)
        version = program.version if program is not None else ""
        arguments = {"agent": self.name, "version": version or "unknown", "tried": self._agent.tried or "never"}
        return Reply(Message("assistant", (ToolCall(START, arguments),)), UNKNOWN, CALLS)

    def _reject(self) -> list[ExternalCall]:
        """Reject the calls of the last reply that are still unanswered, and return all calls that were not allowed."""
        for call in self._calls:
            call.reject()
        return [call for call in self._calls if not call.answer.result()]

    async def _begin(self, tools: Iterable[ToolSpec]) -> Notice | None:
        """Start the agent, and load the earlier conversation if possible. Returns a notice if that fails.

        ``tools``: notebook functions and MCP server tools; they are offered to the agent, except those that its terminals
        replace.
        """
        agent, environment = self._agent, self._external.place
        if environment is not None:
            agent = await asyncio.to_thread(environment.around, agent)
        keys = values_of(agent.keys)
        redact_values(keys)
        sockets = None if environment is None else environment.sockets
        if environment is not None and sockets is not None:
            addresses = model_addresses(agent, self._model, {**agent.env, **keys}, environment.hosts)
            self._network = ModelNetwork(sockets, addresses)
            self._place.push_async_callback(self._network.close)
            await self._network.open()
        offered = [tool for tool in tools if tool.name not in self._served]
        serves_terminals = sockets is None  # otherwise its commands would run outside the sandbox
        session = self._session = Session(agent, self.name, offered, self._shell, serves_terminals=serves_terminals)
        session.keep_stderr = self._keep_stderr
        earlier = str(_last_of(self._before, SESSION) or "")
        await session.start(self._work_dir, keys, self._mode, self._model, earlier)
        self._asking_modes = frozenset({self._mode or session.settings.mode, self._agent.asks_in})
        session.settings.when_changed = self._end_unheld_turn
        cost = _last_of(self._before, SESSION_COST)
        self._spending = Spending(self._agent, is_loaded=session.id == earlier, cost=cost)
        is_resumed = self._is_recovered and session.id == earlier  # otherwise send the whole run
        self._heard = _place_of_prompt(self._run.messages) if is_resumed else self._run.inherited
        if self._before is None or session.id == earlier:
            return None
        return Notice(f"{self.name} cannot load the conversation of run {self._before.id}: it begins a new one")

    def _tell(self, session: Session) -> bool:
        """Start a turn with the person's messages since the last one. Returns False if they have sent nothing.

        Messages are read from the log, because a request joins them: more text does not always mean more parts.
        """
        messages = self._run.messages
        new, self._heard = messages[self._heard :], len(messages)
        parts = [part for message in new if message.role == "user" for part in message.parts]
        if not session.takes_pictures and any(isinstance(part, Image) for part in parts):
            raise ModelError(f"{self.name} takes no pictures", "Describe them, or save them as files that it can read")
        blocks = [_block(part) for part in parts if isinstance(part, Text | Image)]
        if blocks:
            session.prompt(blocks)
        return bool(blocks)

    @property
    def is_in_turn(self) -> bool:
        """True while the agent works on its own; a pause of the run then waits for the end of the turn, or the next
        question.
        """
        return self._session is not None and self._session.is_in_turn

    def reject_call(self, call_id: str) -> None:
        """Reject a call at once, since the agent may wait for the answer before it ends other calls."""
        if (call := self._call_of(call_id)) is not None:
            call.reject()

    def call_within(self, call_id: str) -> ExternalCall | None:
        """Return the call with this id, else the agent's call within which this one is made, or None."""
        return self._call_of(call_id) or within.get()

    def _call_of(self, call_id: str) -> ExternalCall | None:
        return None if self._session is None else self._session.calls.get(call_id)

    def remembered_words(self, call_id: str) -> str:
        """Return the agent's wording of the answer that the person wants it to remember about a call, or ""."""
        asked = [asked for asked in self._run.questions_of(self._run.last_round.index) if asked.question.call_id == call_id]
        grant = given_grant(asked[-1].question, asked[-1].answer) if asked and asked[-1].by == "person" else None
        return grant.rule if grant is not None and grant.reach == BY_AGENT else ""

    def end_turn(self) -> None:
        """Make the agent end its current turn."""
        if self._session is not None and self._session.is_in_turn:
            self._cancelling = asyncio.ensure_future(self._session.cancel())

    async def begin(self, context: RunContext) -> None:
        """Wait for a place, except within another agent or its functions, as these may wait for this one. Then scan the working
        folder, to detect changes not written by agentnb.
        """
        log, budget = context.log, context.budget
        if budget.has_place or at_door:
            self._place.enter_context(places().place_at_once())
        else:
            if places().is_full:
                log.warn(f"Waits until one of the {MAX_AGENTS} external agents that run has ended")
            with context.elicitation.held():
                await self._place.enter_async_context(places().place())
        budget.has_place = True
        self._run, self._keep_stderr, store = log.run, log.keep_stderr, getattr(log.store, "folder", None)
        self.folder = await asyncio.to_thread(WatchedFolder, self._work_dir, store)

    async def end(self, log: EventLog) -> None:
        """End the agent's process with all its descendants, and log what has changed in the working folder."""
        try:
            await self.close()
        finally:
            await self.folder.log_changes(log, self.name)
            if self._network is not None and self._network.warning:
                log.warn(self._network.warning, as_advice(IF_NEEDED))

    async def close(self) -> None:
        """End the agent's process with all its descendants. No-op the second time."""
        session, self._session = self._session, None
        async with self._place:
            if session is not None:
                await session.close()


def _place_of_prompt(messages: Sequence[Message]) -> int:
    """Return the index of the first message in the person's most recent sequence of messages."""
    index = next(index for index in range(len(messages), 0, -1) if messages[index - 1].role == "user")
    while index > 0 and messages[index - 1].role == "user":
        index -= 1
    return index


def _last_of(run: Run | None, key: str) -> Any:
    """Return the latest value of a metadata key across a run's rounds, or None."""
    rounds = () if run is None else reversed(run.rounds)
    return next((current.metadata[key] for current in rounds if key in current.metadata), None)


def todos_of(entries: Iterable[Any]) -> Todos:
    """Return the todos in an agent's plan, skipping invalid entries."""
    sound = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("content"), str)]
    return tuple(
        [
            Todo(number, visible(entry["content"]), STATUSES.get(normal_status(str(entry.get("status"))), "not-started"))
            for number, entry in enumerate(sound, 1)
        ]
    )


def _block(part: Text | Image) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image", "mimeType": part.media_type, "data": b64encode(part.data).decode()}


class ExternalTool:
    """One of the agent's tools: running a call means letting the agent run it, and waiting for the end."""

    parallel_safe = True
    blocking = False
    timeout = None

    def __init__(self, model: AcpModel, form: Kind) -> None:
        self._model, self.reject_call = model, model.reject_call
        properties = {form.subject: {"type": "string"}} if form.subject else {}
        self.spec = ToolSpec(form.name, "", {"type": "object", "properties": properties})
        self.effects, self.flag = form.effects, form.flag
        self.nature = form.nature
        self.subject = None if form.subject is None else Subject(form.subject, form.subject)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Allow the call and wait for its end."""
        call = self._model.call_within(context.call_id)
        if call is None or call.tool_call is None:
            return failure("no_result", "The agent dropped this call.")
        call.always = self._model.remembered_words(context.call_id)
        call.own_outcome = self._refusal(call, arguments)
        if not call.answer.done():
            call.answer.set_result(call.own_outcome is None)
            call.context.set_result(context)
        await call.wait()
        return call.own_outcome or call.outcome

    def words_of(self, call_id: str) -> str:
        """Return the agent's own labels for a question's one-time answers, or ""."""
        call = self._model.call_within(call_id)
        if call is not None and call.lacks_once:
            _, always = self.remembering_agent(call_id)
            allowing = f"only {' or '.join(map(repr, always))} allows it, which {self._model.agent} remembers itself"
            way = allowing if always else "no answer here allows it"
            return f"{self._model.name} accepts no approval of this call alone. Approving declines it: {way}"
        answers = {} if call is None else {"approving": call.options_of(ALLOW_ONCE), "rejecting": call.options_of(REJECT_ONCE)}
        words = ", ".join(f"{answer}: {next(iter(names))!r}" for answer, names in answers.items() if next(iter(names), ""))
        return f"{self._model.name} calls {words}" if words else ""

    def remembering_agent(self, call_id: str) -> tuple[str, tuple[str, ...]]:
        """Return the agent's name and its own words for the answers that it would remember. Empty if rules deny effects,
        because the agent would not ask about denied calls either.
        """
        call = self._model.call_within(call_id)
        words = () if call is None or self._model.denied else tuple(filter(None, call.options_of(ALLOW_ALWAYS)))
        return (self._model.agent, words) if words else ("", ())

    def _refusal(self, call: ExternalCall, arguments: Any) -> ToolOutcome | None:
        """Return the refusal of a call that was allowed but cannot be run, or None."""
        if call.tool_call is None or arguments != redact(call.tool_call).arguments:
            return failure("edited", "The agent accepts only its own arguments: the call was rejected.")
        if call.lacks_once and not call.always:
            return failure(
                "not_alone", f"It did not run: {self._model.name} accepts no approval of this call alone.", ITS_MEMORY
            )
        is_asked = call.options is not None or call.is_own  # otherwise it may have written already
        path = arguments.get(call.form.subject or "")
        if is_asked and self.spec.name == WRITE_TOOL and isinstance(path, str) and self._model.folder.is_open_notebook(path):
            advice = "Tell the person which cells to change, or write another file."
            return failure("open_notebook", f"{path} was not written, because it is the open notebook.", advice)
        return None


class AgentStart:
    """The start of an agent that may act without asking, as a call: the person decides about it as about any other."""

    parallel_safe = blocking = False
    timeout = subject = flag = None
    effects = UNKNOWN_KIND.effects
    spec = ToolSpec(START, "", {"type": "object"})

    def __init__(self, model: AcpModel) -> None:
        self._model = model

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Allow the next round to start the agent."""
        self._model.start = "free"
        return ToolOutcome(True, (Text("It starts."),))


class FunctionAtDoor(VirtualTool):
    """A notebook function that the agent calls. The agent receives the result, too."""

    def __init__(self, model: AcpModel, behind: Tool) -> None:
        super().__init__(behind.spec.name, _unused, behind)
        self._model, self._function, self.reject_call = model, behind, model.reject_call
        self.parallel_safe, self.blocking = behind.parallel_safe, behind.blocking

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run the function."""
        call = self._model.call_within(context.call_id)
        outcome = tool_errors.cancelled()
        at_door.append(self)
        try:
            outcome = await self._function.run(arguments, context)
        except Exception as error:
            outcome = tool_errors.from_exception(self.spec.name, error)
            raise
        finally:
            at_door.remove(self)
            if call is not None:
                call.own_outcome = outcome
                if not call.answer.done():
                    call.answer.set_result(True)
                call.end.set()
        return outcome


def _unused(arguments: Any, context: ToolContext) -> None:
    """Handler that is never called."""


class ExternalToolbox(Toolbox):
    """The person's functions, and a tool for each kind of call that an agent makes, since it does not list its own tools."""

    def __init__(self, model: AcpModel, functions: Iterable[Tool] = ()) -> None:
        self._model, self._functions = model, (*functions,)
        super().__init__([FunctionAtDoor(model, tool) for tool in self._functions])
        self.of_kinds: dict[str, Tool] = {name: ExternalTool(model, kind) for name, kind in KINDS_BY_NAME.items()}
        """Tools for the agent's own calls, by name."""
        self._start = AgentStart(model)
        for name in (*self.of_kinds, START):
            if name in self._tools:
                raise SettingsError(f"{model.name} also uses the name {name} for its calls", "Rename yours")

    def with_tools(self, tools: Iterable[Tool], hidden: Iterable[Tool] = ()) -> Toolbox:
        """Return a toolbox with more tools, all of them advertised, since the agent lists them once and cannot search
        for more.
        """
        more = [tool for tool in (*tools, *hidden) if tool.spec.name != FIND_TOOLS]
        toolbox = ExternalToolbox(self._model, [*self._functions, *more])
        toolbox.servers = self.servers
        return toolbox

    def get(self, name: str) -> Tool | None:
        """Return a tool by name, or None."""
        return super().get(name) or (self._start if name == START else self.of_kinds.get(name))
