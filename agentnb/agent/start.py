"""A pending run of an agent: everything between the prompt and the running loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import replace as replace_option
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from agentnb.advice import AnswerRun
from agentnb.agent.agent_settings import AgentSettings
from agentnb.agent.clarification import Clarification
from agentnb.agent.conversation_context import ConversationContext
from agentnb.agent.extension import check_extensions, each, merge_part
from agentnb.agent.loop import Loop
from agentnb.agent.price_check import check_has_price
from agentnb.context.continued_messages import history_of
from agentnb.context.history_settings import as_sent_then
from agentnb.context.repo_instructions import repo_instructions
from agentnb.context.request_builder import RequestBuilder, ephemeral_text
from agentnb.core.log.events import SCHEMA, AnyEvent, Delta, GuidanceGiven, RoundStarted, RunStarted
from agentnb.core.log.stores import Writer
from agentnb.core.messages import Message, Text, encodable, user
from agentnb.core.redaction import redact
from agentnb.core.request import Request
from agentnb.core.run.approvals import NEVER, answerable_later, check_answers, waits_for_drafts
from agentnb.core.schema.nesting import bound_message
from agentnb.core.todos import Todo
from agentnb.detect.agent_runs import check_of_agent
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.guidance.prompts import prompt as prompt_file
from agentnb.models.model import Model
from agentnb.models.registry import make_model, may_read_key
from agentnb.policies.permissions.gate import confirms_nothing
from agentnb.policies.verdict import Stop
from agentnb.runtime.budget import WithinBudget
from agentnb.runtime.calls.dispatch import Dispatch
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.calls.todo_sync import TodoSync
from agentnb.runtime.calls.tool_calls import ToolCalls
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.consent import with_mode_to_continue
from agentnb.runtime.host.host import host_here
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.replies.side_calls import SideModels
from agentnb.runtime.runs.continued import end_waiting, open_after_ending
from agentnb.runtime.runs.gate_names import check_gates
from agentnb.runtime.runs.launch import Life, PendingRun, check_resumable
from agentnb.runtime.runs.lifecycle import Lifecycle, Orchestrator
from agentnb.runtime.steps.run_steps import RunSteps
from agentnb.settings import known_secrets
from agentnb.tools.read_result import ROOM_FOR_HEADING, ResultReader
from agentnb.tools.todos.board import Board, TodoBoard
from agentnb.tools.todos.todo_tool import TodoTool
from agentnb.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from agentnb.acp.acp_model import AcpModel


class AgentRun(PendingRun):
    """A pending run of an agent."""

    def __init__(
        self,
        agent: AgentSettings,
        prompt: Message,
        options: RunOptions,
        *,
        own_board: Board | None,
        carried_board: Board | None = None,
        earlier: Sequence[str] = (),
        is_fork: bool = False,
        **resumed: Any,
    ) -> None:
        """``own_board``: the todo list, if the agent maintains one; ``carried_board``: otherwise the conversation's
        list, carried along; ``earlier``: the names of the conversation's earlier tools, in order; ``resumed``: as for
        `PendingRun`.
        """
        limits = agent.limits
        self.agent, self.prompt, self.earlier = agent, prompt, earlier
        self.own_board, self.carried_board = own_board, carried_board
        self.name, self.budget, self.limits_of_file = agent.name, limits.budget, limits.limits_of_file
        self.max_seconds, self.on_limit = limits.max_seconds, limits.on_limit
        self.approve, self.rule_list = agent.approve, agent.rule_list
        self.confirms = confirms_nothing if agent.context is None else agent.context.confirms
        self.guidance, self.work_dir = agent.guidance_texts, agent.work_dir
        self.board = carried_board if own_board is None else own_board
        self.toolbox = agent.toolbox if own_board is None else agent.toolbox.with_tool(TodoTool(own_board))
        """All tools of the run, including the todo tool."""
        self.server_tools = self.toolbox.servers
        self._model: Model | None = None
        self._external: AcpModel | None = None
        """The conversation with an external agent, if one does the work."""
        self._context_prompt: str | None = None
        super().__init__(options, is_fork=is_fork, **resumed)
        self._has_system = is_fork or self.recovered is not None
        """True if the log already has the system prompt."""
        self._todos = TodoSync(own_board, self.context.log)
        run = self.context.log.run
        if agent.bundle.detectors:
            run.detect_with(agent.bundle.detectors)
        run.read_output_as(None if agent.output_form is None else agent.output_form.read)

    @property
    def rule_scope(self) -> Iterable[Any]:
        """The tools of the agent, and the virtual tools of its extensions."""
        return self.agent.rule_scope

    @property
    def is_slow(self) -> bool:
        """True if a key may have to be read from the system's keyring, or text about the context's entity may have to
        be loaded.
        """
        context = self.agent.context
        loads = context is not None and context.loads and not self._has_system
        return loads or may_read_key(self.agent.used_model)

    def prepare(self) -> None:
        """Create the model and, for a new run, the section on the context in the system prompt."""
        if self.agent.acp:
            from agentnb.acp.acp_model import AcpModel

            external: Any = self.agent.used_model
            before, tell_todos = self.context.options.continue_from or self.recovered, self._todos.log_plan
            is_same = self.recovered is not None
            external_model = AcpModel(external, self.context.work_dir, tell_todos, self.toolbox, before, is_recovered=is_same)
            self._model = self._external = external_model
        else:
            self._model = make_model(self.agent.used_model)
        if self.agent.context is not None and not self._has_system:
            _ = self.context_prompt

    def _assemble(self) -> Life:
        """Return the factory of the run's coroutine; an external agent's process ends with the run."""
        life = super()._assemble()
        return life if self._external is None else partial(_close_after, life, self._external)

    @property
    def context_prompt(self) -> str:
        """The section of the system prompt about the context, or empty."""
        context = self.agent.context
        if context is not None and self._context_prompt is None:
            self._context_prompt = context.prompt(self.agent.first_tools)
        return self._context_prompt or ""

    def check(self) -> None:
        """Raise `SettingsError` if a built-in tool cannot work here, or if a budget requires a price that is unknown."""
        self.toolbox.check_usable()
        has_budget = self.context.budget.has_limit()
        if self._external is not None:
            may_cost = has_budget and not self.agent.unpriced
            if warning := self._external.check(self.context.elicitation.permissions, has_budget=may_cost):
                self.context.warnings = (*self.context.warnings, (warning, ""))
        elif has_budget:
            assert self._model is not None, "it is made first"
            check_has_price(self._model, self.agent, self.context.budget)

    def orchestrator(self, lifecycle: Lifecycle, first: AnyEvent) -> Orchestrator:
        """Return the loop of the run, or another orchestrator if its message is blank."""
        agent, context, log, recovered = self.agent, self.context, self.context.log, self.recovered
        if agent.context is not None and not self.prompt.text.strip():
            return Clarification(log, agent.context.profile)
        assert self._model is not None, "it is made first"
        if self._external is not None:
            context.elicitation.wait_while_paused = lifecycle.wait_while_paused
            lifecycle.end_turn = self._external.end_turn
        # A run keeps its own history setting until its end, regardless of the resuming agent.
        history = agent.sends if recovered is None else as_sent_then(recovered.settings.get("history"))
        toolbox = self.toolbox if self._external is None else self._external.tools
        if history.result_characters is not None and not toolbox.is_empty:
            toolbox = toolbox.knowing(ResultReader(log.run.result_of, history.result_characters - ROOM_FOR_HEADING))
        handlers = merge_part(agent.extensions, "virtual_tools")
        tools, bundle = RunTools(log, toolbox, earlier=self.earlier, handlers=handlers), agent.bundle
        if context.budget.may_run_out():
            bundle = bundle.also_asking(WithinBudget(context.budget))
        calls = ToolCalls(
            context,
            tools,
            bundle.direct_gates,
            todos=self._todos,
            tool_seconds=bundle.tool_seconds,
            context_name=str if agent.context is None else agent.context.canonical,
            own_gates=(*each(agent.extensions, "gates"), *agent.gates),
            models=SideModels(self._model, lifecycle),
            steps=RunSteps(context),
        )
        if context.servers is not None:
            context.servers.serve(tools)
        dispatch = Dispatch(log, calls, context.elicitation, can_suspend=context.is_kept)
        builder = RequestBuilder.of_run(first, history) if isinstance(first, RunStarted) else RequestBuilder.rebuild(log.run)
        if self._external is not None:
            return _ExternalLoop(self._external, lifecycle, builder, dispatch, bundle, self._todos, history)
        return Loop(self._model, lifecycle, builder, dispatch, bundle, self._todos, history)

    def first_request(self) -> Request:
        """Return the first request, without sending or storing anything."""
        log, started, bundle = EventLog(self.context.log.id), self.start_event(), self.agent.bundle
        log.append(started)
        log.emit(RoundStarted, index=0, reason="prompt", note=bundle.note(log.run))
        for guidance in filter(None, [guide(log.run) for guide in bundle.guides]):
            log.emit(GuidanceGiven, guidance=guidance)
        return RequestBuilder.of_run(started).request(log.run, ephemeral_text(log.run))

    def start_event(self) -> RunStarted:
        """Return the first event of a new run, already redacted, since requests are built from it too."""
        agent, options, log = self.agent, self.context.options, self.context.log
        before = options.continue_from
        started = RunStarted(
            seq=0,
            at=datetime.now(UTC),
            run_id=log.id,
            parent_id=log.parent_id,
            schema=SCHEMA,
            prompt=self.prompt,
            agent=encodable(agent.name),
            model=encodable(agent.model_name),
            system="" if agent.acp else system_prompt(agent, self.toolbox, self.context.work_dir, self.context_prompt),
            tools=self.toolbox.specs,
            settings={**agent.settings, **self.logged_settings},
            guidance=agent.guidance_texts.texts,
            tags=tuple(map(encodable, options.tags)),
            conversation=before.conversation if before is not None else "",
            context_type=options.context_type if agent.context is None else agent.context.name,
            entity=options.entity if agent.context is None else agent.context.entity,
            notebook=encodable(options.notebook),
            invocation=options.invocation,
            continued_from=before.id if before is not None else None,
            history=history_of(before) if before is not None else (),
            compacted=before.compacted if before is not None else None,
            todos=self._todos.begin(),
            carried_todos=self._carried_todos(before),
        )
        return redact(started, known_secrets())

    def _carried_todos(self, before: Run | None) -> tuple[Todo, ...]:
        """Return the conversation's list for a run that does not maintain one itself."""
        if self.carried_board is not None:
            return TodoSync(self.carried_board, self.context.log).begin()
        return before.conversation_todos if before is not None and self.own_board is None else ()


class _ExternalLoop(Loop):
    """The loop for an external agent. The agent's processes end with the work."""

    def __init__(self, external: AcpModel, lifecycle: Lifecycle, *parts: Any) -> None:
        super().__init__(external, lifecycle, *parts)
        self._external = external
        lifecycle.patience += external.seconds_to_end

    async def work(self) -> Stop:
        """Run the loop, and compare the working directory before and after all of the agent's processes."""
        await self._external.begin(self._lifecycle.context)
        try:
            return await super().work()
        finally:
            await self._external.end(self._log)


async def _close_after(life: Life, external: AcpModel) -> Run:
    try:
        return await life()
    finally:
        await external.close()


def first_request(agent: AgentSettings, prompt: str | Message, continue_from: Run | None, board: Board | None) -> Request:
    """Return the first request of a run, without sending it. Raises `SettingsError` for an external agent."""
    if agent.acp:
        raise SettingsError(f"{agent.model_name} builds its requests itself: there is no request to show", "Run it")
    return pending_run(agent, prompt, RunOptions(continue_from=continue_from, board=board)).first_request()


async def stream_events(
    begin: Callable[[RunOptions], Coroutine[Any, Any, Run]], options: RunOptions
) -> AsyncIterator[AnyEvent | Delta]:
    """Yield the events and deltas of a run as they occur. Closing the iterator early cancels the run."""
    items: asyncio.Queue[AnyEvent | Delta | None] = asyncio.Queue()
    watch = options.watch

    def note(item: AnyEvent | Delta) -> None:
        items.put_nowait(item)
        if watch is not None:
            watch(item)

    run = asyncio.ensure_future(begin(replace_option(options, watch=note)))
    run.add_done_callback(lambda _: items.put_nowait(None))
    try:
        while (item := await items.get()) is not None:
            yield item
        await run
    finally:
        if not run.done():
            run.cancel()
            await asyncio.wait([run])
        if not run.cancelled():
            run.exception()  # retrieved, so that asyncio does not report it as never retrieved


def pending_run(agent: AgentSettings, prompt: str | Message, options: RunOptions) -> AgentRun:
    """Return a new pending run. Raises `SettingsError` for an invalid prompt or invalid options."""
    board, before = options.board, options.continue_from
    if before is not None:
        check_of_agent(before, "it has no conversation to continue")
        options = with_mode_to_continue(options)
        agent = _continuing(agent, before)
    if agent.context is not None:
        _check_context(agent.context, options)
    pending = AgentRun(
        agent,
        as_prompt(prompt, may_be_blank=agent.context is not None),
        options,
        own_board=board if board is not None and agent.keeps_todos else board_of(agent, before),
        carried_board=None if board is None or agent.keeps_todos else board,
        earlier=() if before is None else [tool.name for tool in before.tools],
    )
    if before is not None and waits_for_drafts(before):
        context = pending.context
        if context.open_log is None:
            end_waiting(before)
        else:
            context.open_log = partial(open_after_ending, before, context.log.store, context.open_log)
    return pending


def resume_run(agent: AgentSettings, run: Run, writer: Writer | None, options: RunOptions) -> AgentRun:
    """Return a pending run that resumes this one. Raises `SettingsError` if it has ended. ``writer``: appends to its log."""
    check_resumable(run, options)
    check_extensions(run, agent.extensions)
    check_gates(run, agent.gates)
    answers = _check_answers(run, options)
    if answers:
        options = replace_option(options, answers=answers)
    board = board_of(agent, run) or TodoBoard(run.conversation_todos)
    return AgentRun(
        agent,
        user(run.prompt),
        options,
        own_board=board if agent.keeps_todos else None,
        carried_board=None if agent.keeps_todos else board,
        recovered=run,
        writer=writer,
    )


def fork_run(agent: AgentSettings, events: Sequence[AnyEvent], options: RunOptions, earlier: Sequence[str] = ()) -> AgentRun:
    """Return a run that starts with these events of another run, under its own id, and continues independently.

    ``earlier``: the tools of the other run up to that point.

    The answers in the events count; the caller must remove any that should not. Only the permissions in the options
    apply.
    """
    *before, first = events
    options = replace_option(options, store=options.store or host_here().store, trust_log=True)
    if not before:
        options = replace_option(options, run_id=first.run_id)
    forked, head = Run.from_events(events), Run.from_events(before) if before else None
    board = board_of(agent, forked)
    pending = AgentRun(agent, user(forked.prompt), options, own_board=board, earlier=earlier, recovered=head, is_fork=True)
    pending.first = first
    return pending


def _continuing(agent: AgentSettings, before: Run) -> AgentSettings:
    """Return the agent for a run that continues another, for example in the context to which that run shifted."""
    extensions = tuple(
        [extension if extension.continuing is None else extension.continuing(before) for extension in agent.extensions]
    )
    return agent if extensions == tuple(agent.extensions) else replace_option(agent, extensions=extensions)


def _check_context(own: ConversationContext, options: RunOptions) -> None:
    """Raise `SettingsError` if the options name a context or entity other than the agent's."""
    context_type = own.canonical(options.context_type)
    for name, requested, current in (("context_type", context_type, own.name), ("entity", options.entity, own.entity)):
        if requested and requested != current:
            hint = "Omit it, or apply that context: ContextType.named(NAME).apply(agent, entity=ID)"
            raise SettingsError(f"{name}={requested!r}, but the agent works in the context {own.name}", hint)


def _check_answers(run: Run, options: RunOptions) -> dict[str, Any]:
    """Validate the answers for a run that is being resumed. Raises `SettingsError` if they do not match its questions."""
    answers = check_answers(run, options.answers or {})
    has_anybody = options.can_ask or options.answer or options.approve or options.suspend or options.approval_mode == NEVER
    missing = [question for question in answerable_later(run) if question.id not in answers]
    if missing and not has_anybody:
        first_missing = missing[0]
        advice = AnswerRun(run.id, first_missing.id, lead="Answer it")
        raise SettingsError(f"Run {run.id} is waiting for your answer to: {first_missing.message}", advice)
    return answers


def board_of(agent: AgentSettings, before: Run | None) -> Board | None:
    """Return the board of a run: the agent's own, or a new one with the conversation's todos, or None if the run has
    no list.

    Raises `SettingsError` for todos from a board with other rules.
    """
    if not agent.keeps_todos:
        return None
    if not isinstance(agent.todos, bool):
        return agent.todos
    if before is None:
        return TodoBoard()
    try:
        return TodoBoard(before.conversation_todos)
    except SettingsError as error:  # from a board with other rules
        hint = "Give the run its own list: Agent(todos=TodoBoard([...]))"
        raise SettingsError(f"The todo list of run {before.id} cannot be continued: {error.what}", hint) from error


def system_prompt(agent: AgentSettings, toolbox: Toolbox, folder: Path, context: str = "") -> str:
    """Return the system prompt: the agent's own or the built-in one, then sections for its context, the instructions of the
    repository, notes on tools, extensions, and the output.
    """
    parts: Iterable[str] = (
        prompt_file("system") if agent.system is None else agent.system.strip(),
        context,
        repo_instructions(folder).section if agent.instructions else "",
        prompt_file("no_tools") if toolbox.is_empty else "",
        prompt_file("foreign_text") if toolbox.reads_foreign_text else "",
        *[extension.prompt.strip() for extension in agent.extensions],
        "" if agent.output_form is None else agent.output_form.prompt,
    )
    return encodable("\n\n".join(filter(None, parts)))


def as_prompt(prompt: str | Message, *, may_be_blank: bool = False) -> Message:
    """Return the prompt as a message. Raises `SettingsError` if it is not a user message, or is blank where that is
    not allowed.
    """
    message = user(prompt) if isinstance(prompt, str) else prompt
    if not isinstance(message, Message):
        raise SettingsError(f"The prompt must be a string, got {type(prompt).__name__}")
    if message.role != "user":
        raise SettingsError(f"A prompt must have the role user, not {message.role}")
    if not (message.text.strip() or may_be_blank):
        raise SettingsError("The prompt is blank", "Write what the agent should do")
    if message is not prompt:
        return message
    parts = tuple(Text(encodable(part.text)) if isinstance(part, Text) else part for part in message.parts)
    return bound_message(replace(message, parts=parts))
