"""Fork: a new run that repeats a recorded one up to a round and then continues live."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Unpack

from msgspec import structs

from agentnb.agent.agent import Agent
from agentnb.agent.extension import Extension
from agentnb.agent.from_log import limits_again, limits_of_file, logged_model, with_builtins
from agentnb.agent.output import Output
from agentnb.agent.start import AgentRun, fork_run
from agentnb.chat.logged_context import context_again
from agentnb.chat.plans.plans_extension import plans_again
from agentnb.context.history_settings import as_sent_then
from agentnb.core.log.events import (
    SCHEMA,
    AnyEvent,
    ForkedFrom,
    QuestionAnswered,
    QuestionAsked,
    RunStarted,
    ToolAdmitted,
    ToolFinished,
    ToolsOffered,
    ToolStarted,
)
from agentnb.core.log.work_events import GrantGiven, ServerStarted
from agentnb.core.messages import encodable
from agentnb.core.redaction import redact
from agentnb.core.run.approvals import AUTO
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.agent_runs import check_of_agent
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors
from agentnb.detect.walk import walk_rounds
from agentnb.errors import SettingsError
from agentnb.guidance.sets import GuidanceSet
from agentnb.interchange.files import one_run
from agentnb.models.model import Model
from agentnb.models.registry import can_be_made
from agentnb.policies.gates import Gate
from agentnb.policies.policy_sets import PolicySet
from agentnb.policies.run_limits import LIMITS
from agentnb.rerun.recorded_tools import recorded_tools
from agentnb.rerun.variant import Variant, is_own, variant_of
from agentnb.runtime.host.consent import with_permissions_of
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunKeywords, RunOptions, options_of
from agentnb.runtime.runs.launch import in_foreground, new_run_id
from agentnb.settings import known_secrets
from agentnb.tools.mcp.mcp_server import ServerTools, servers_among
from agentnb.tools.todos.board import TodoBoard

RECORDED: Literal["recorded"] = "recorded"


async def fork(
    run: Run | str | Path,
    at_round: int,
    *,
    model: str | Model | None = None,
    guidance: str | GuidanceSet | None = None,
    policy: str | PolicySet | None = None,
    limits: Mapping[str, Any] | None = None,
    workflow_mode: bool | None = None,
    detect: Detectors | None = None,
    tools: Literal["recorded"] | Iterable[Any] = RECORDED,
    fallback: Iterable[Any] = (),
    gates: Iterable[Gate] = (),
    options: RunOptions | None = None,
    **keywords: Unpack[RunKeywords],
) -> Run:
    """Fork a run: everything before round ``at_round`` is as recorded, and the rest is live.

    ``at_round`` counts from 1, as in tables; the number of rounds plus one continues after the last round. First, the
    policy decides whether the round takes place at all. Omitted settings come from the run's log, or else from
    ``matrix``. ``tools``: ``recorded`` returns recorded results for matching calls; any other call runs a tool of
    ``fallback`` if it has one, and is otherwise refused. Alternatively, pass the exact tools to run. With a
    ``fallback``, the run's built-in tools are added automatically. Runs of other products can be forked with an
    explicit ``model``. If the log does not give consent (`Run.gives_consent`), recorded answers are dropped, so that
    gates ask again, and the mode is at least ``ask`` if functions may run, unless the options have a mode or
    ``trust_log``. Keywords are options of the run, as for `Agent.run`. `run.forked_from` identifies the origin, and
    ``diff(run, fork)`` compares the two.

    Raises `SettingsError` for an invalid round, or if a model or policy cannot be created from the log.
    """
    pending = pending_of(
        one_run(run),
        at_round,
        model=model,
        tools=tools,
        fallback=fallback,
        gates=gates,
        options=options_of(options, keywords, RunKeywords, "fork(run, at_round"),
        guidance=guidance,
        policy=policy,
        limits=limits,
        workflow_mode=workflow_mode,
        detect=detect,
    )
    return await pending.run_here()


def fork_sync(
    run: Run | str | Path,
    at_round: int,
    *,
    model: str | Model | None = None,
    guidance: str | GuidanceSet | None = None,
    policy: str | PolicySet | None = None,
    limits: Mapping[str, Any] | None = None,
    workflow_mode: bool | None = None,
    detect: Detectors | None = None,
    tools: Literal["recorded"] | Iterable[Any] = RECORDED,
    fallback: Iterable[Any] = (),
    gates: Iterable[Gate] = (),
    options: RunOptions | None = None,
    **keywords: Unpack[RunKeywords],
) -> Run:
    """Run like `fork`, for use in scripts and code that cannot await."""

    def start(options: RunOptions) -> LiveRun:
        return pending_of(
            one_run(run),
            at_round,
            model=model,
            tools=tools,
            fallback=fallback,
            gates=gates,
            options=options,
            guidance=guidance,
            policy=policy,
            limits=limits,
            workflow_mode=workflow_mode,
            detect=detect,
        ).start()

    return in_foreground(start, options_of(options, keywords, RunKeywords, "fork_sync(run, at_round"))


def pending_of(
    run: Run,
    at_round: int,
    *,
    model: str | Model | None,
    tools: Literal["recorded"] | Iterable[Any],
    fallback: Iterable[Any] = (),
    gates: Iterable[Gate] = (),
    options: RunOptions | None = None,
    is_fork: bool = True,
    **changes: Any,
) -> AgentRun:
    """Return the fork, ready to start. ``changes``: as for `variant_of`; ``is_fork``: whether to record the origin in
    the new run.
    """
    options = options or RunOptions()
    fallback = _with_builtins(run, live_tools) if (live_tools := tuple(fallback)) else ()
    variant = variant_of(run, **changes, is_live=is_fork)
    before = _renumber(map(variant.vary, _before(run, at_round)))
    todos = Run.from_events(before).todos
    logged = run.settings if is_own(run) else {}
    keeps_todos = bool(logged.get("todos", todos or any(tool.name == TODO_TOOL for tool in run.tools)))
    agent = Agent(
        _model(run, model),
        tools=_tools(run, at_round, tools, fallback, is_fork=is_fork),
        system=run.system,
        guidance=variant.words if variant.draws is None else variant.draws,
        policy=variant.policy,
        todos=TodoBoard(todos) if keeps_todos else False,
        history=as_sent_then(logged.get("history")) if logged else "auto",
        output=Output.from_log(logged),
        gates=gates,
        extensions=_extensions(run, variant, makes_plans=tools != RECORDED),
        name=run.agent,
        instructions=False,
        **_limits(variant, logged),
        limits_of_file=limits_of_file(run, changes.get("limits") or ()) if logged else (),
    )
    counts = run.gives_consent or bool(options.trust_log)
    if not counts:
        before = _without_consent(before, {tool.spec.name for tool in agent.toolbox if getattr(tool, "repeatable", False)})
    only_recorded = tools == RECORDED and not fallback
    options = _with_permissions(run, options, counts=counts, only_recorded=only_recorded, is_fork=is_fork)
    return _pending(agent, before, ForkedFrom(run.id, at_round - 1) if is_fork else None, options)


def _extensions(run: Run, variant: Variant, *, makes_plans: bool) -> tuple[Extension, ...]:
    """Return the variant's extensions, and the run's context and plans unless the variant has its own.

    ``makes_plans``: whether the fork makes plans itself rather than receive recorded results.
    """
    named = {extension.name for extension in variant.extensions}
    logged = (*context_again(run), *(plans_again(run) if makes_plans else ()))
    return (*[extension for extension in logged if extension.name not in named], *variant.extensions)


def _limits(variant: Variant, logged: dict[str, Any]) -> dict[str, Any]:
    """Return the limits of the fork. For a run logged by agentnb, policy and context add no further limits."""
    if not logged:
        return {**variant.limits}
    kept = {name: value for name, value in logged.items() if name not in LIMITS}
    return limits_again({**kept, **variant.limits})


def _with_permissions(run: Run, options: RunOptions, *, counts: bool, only_recorded: bool, is_fork: bool) -> RunOptions:
    """Add the run's permissions to the options. ``counts``: whether the log's consent counts."""
    if not only_recorded:
        return with_permissions_of(run, options, counts=counts)
    # Recorded results have no side effects.
    options = with_permissions_of(run, options, counts=True, whole=True)
    return replace(options, approval_mode=options.approval_mode or (AUTO if is_fork else None))


def _without_consent(events: Sequence[AnyEvent], repeatable: Container[str]) -> list[AnyEvent]:
    """Return the events without questions, answers and grants, and without permissions for calls that would run now.

    Calls that would run now are permitted calls that have not begun, and unfinished calls of ``repeatable`` tools.
    """
    begun = {event.call.id for event in events if isinstance(event, ToolStarted) and event.call.name not in repeatable}
    over = begun | {event.result.call_id for event in events if isinstance(event, ToolFinished)}

    def is_kept(event: AnyEvent) -> bool:
        if isinstance(event, ToolAdmitted | ToolStarted):
            return event.call.id in over
        return not isinstance(event, QuestionAsked | QuestionAnswered | GrantGiven)

    return _renumber(event for event in events if is_kept(event))


def _renumber(events: Iterable[AnyEvent | None]) -> list[AnyEvent]:
    """Renumber the events, leaving out those that are None."""
    kept = [event for event in events if event is not None]
    return [structs.replace(event, seq=seq) for seq, event in enumerate(kept)]


def _tools(run: Run, at_round: int, tools: Any, fallback: Iterable[Any], *, is_fork: bool) -> list[Any]:
    """Return the tools; a fork has exactly those passed to it, so that a tool can be removed."""
    if tools == RECORDED:
        return [*recorded_tools(run, at_round - 1, fallback)]
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise SettingsError(f"tools={tools!r} is not a list of tools", 'Write tools=[my_function], or tools="recorded"')
    return [*tools] if is_fork else [*with_builtins(run, tools)]


def _pending(agent: Agent, before: Sequence[AnyEvent], forked_from: ForkedFrom | None, options: RunOptions) -> AgentRun:
    """Return a run of this agent that begins, under a new id, with these events of another run."""
    offered = [event.tools for event in before if isinstance(event, ToolsOffered)][-1]
    kept = [
        event for event in before[1:] if not isinstance(event, ToolsOffered | ServerStarted)
    ]  # the first event has its tools
    own = {"run_id": options.run_id or new_run_id(), "parent_id": options.parent_id}
    options = replace(options, run_id=None)
    first, *others = [structs.replace(event, seq=seq, **own) for seq, event in enumerate((before[0], *kept))]
    pending = fork_run(agent, [first, *others], options)
    started = redact(_start_event(first, pending, forked_from), known_secrets())
    return fork_run(agent, [started, *others], options, [tool.name for tool in offered])


def _start_event(first: AnyEvent, pending: AgentRun, forked_from: ForkedFrom | None) -> RunStarted:
    assert isinstance(first, RunStarted), "a run begins with it"
    options = pending.context.options
    return structs.replace(
        first,
        at=first.at or datetime.now(UTC),
        schema=SCHEMA,
        model=pending.agent.model_name,
        tools=pending.toolbox.specs,
        settings={**pending.agent.settings, **pending.logged_settings},
        guidance=pending.agent.guidance_texts.texts,
        origin=None,
        forked_from=forked_from,
        tags=tuple([encodable(tag) for tag in options.tags]) or first.tags,
        context_type=options.context_type or first.context_type,
        entity=options.entity or first.entity,
        notebook=encodable(options.notebook),
        invocation=options.invocation,
    )


def _before(run: Run, at_round: int) -> list[AnyEvent]:
    """Return the events before the round."""
    check_of_agent(run, "it cannot be forked")
    walked = [*walk_rounds(run)]
    if run.kind != "agent" or not walked:
        raise SettingsError(f"Run {run.id} has no rounds to fork", "Fork a run of an agent")
    if type(at_round) is not int or not 1 <= at_round <= len(walked) + 1:
        problem = f"at_round={at_round!r}: run {run.id} has {len(walked)} rounds, counted from 1"
        raise SettingsError(problem, f"Give a number from 1 to {len(walked) + 1}; the last continues after the end")
    events: list[AnyEvent] = [] if at_round > 1 else [run.events[0]]
    for round_ in walked[: at_round - 1]:
        events += [*round_.before, round_.start, *round_.prepared, *round_.answered]
    if 1 < at_round <= len(walked):
        events += walked[at_round - 1].before
    return events


def _with_builtins(run: Run, fallback: Sequence[Any]) -> list[Any]:
    """Return these tools and the run's built-in ones. MCP servers are included only if they are among these tools."""
    server_names = {item.name for item in servers_among(fallback)}
    return [tool for tool in with_builtins(run, fallback) if not isinstance(tool, ServerTools) or tool.name in server_names]


def _model(run: Run, model: str | Model | None) -> str | Model:
    if model is not None:
        return model
    if not can_be_made(run.model):
        problem = f"Run {run.id} used {run.model}, a model that cannot be created from its name"
        raise SettingsError(problem, 'Give a model: fork(run, at_round, model="provider:name"), or an object')
    return logged_model(run)
