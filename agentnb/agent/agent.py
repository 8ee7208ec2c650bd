"""An agent: its settings, and the ways to run it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from agentnb.agent.agent_settings import AgentSettings

if TYPE_CHECKING:
    from agentnb.core.log.events import AnyEvent, Delta
    from agentnb.core.log.stores import Writer
    from agentnb.core.messages import Message
    from agentnb.core.request import Request
    from agentnb.detect.run import Run
    from agentnb.runtime.host.live_run import LiveRun
    from agentnb.runtime.host.run_options import AgentRunKeywords, ResumeKeywords, RunOptions
    from agentnb.tools.todos.board import Board


@dataclass(frozen=True, slots=True)
class Agent(AgentSettings):
    """An agent's settings. Stateless, so that an agent may execute many runs at once.

    ``model``: a name, ``provider:model``, or a model object. ``tools``: functions, agents and workflows, or results
    of `tool`. ``system``: a system prompt that replaces the built-in one. ``guidance``: its guidance set, by name
    (``matrix``, ``off``) or as a `GuidanceSet`, or a `RandomGuidance`, which draws one. ``policy``: keeps it on task,
    ``matrix`` (the default), ``minimal`` or ``chat``, or one of these with settings, such as
    ``Matrix(workflow_mode=True)``. ``todos``: True to maintain a list if it has tools, or the board for the list.
    ``history``: the part of the conversation that is sent: ``auto``, ``documented``, ``full`` or a `History`.
    ``gates``: functions of a call and the run that decide whether it may run, after the policy's own
    (`agentnb.policies.gates`). ``permissions``: rules about tool calls, each ``allow``, ``ask`` or ``deny``, such as
    ``{"write_file(data/**)": "allow", "bash": "ask"}``, or a list of the permitted flags
    (`agentnb.policies.permissions.permission_rules`). ``approve``: a mode, or a function that decides about calls
    that need approval; for runs that set neither. ``instructions``: True to follow the ``CLAUDE.md``, ``AGENT.md`` or
    ``AGENTS.md`` of its repository. ``output``: the type of its answers: a dataclass, TypedDict, pydantic model,
    msgspec Struct, another type, a JSON Schema, or an `Output`. An answer that does not fit is sent back with its
    problems, twice by default; then the run fails. ``run.output`` holds the answer: an instance of the type, or plain
    data in a run loaded from its log. ``work_dir``: the working directory of tools; by default the current folder
    when the run starts. ``acp``: an external agent in place of a model, ``NAME`` or ``NAME:MODEL`` such as
    ``opencode``, over the Agent Client Protocol, and ``mode``: its mode, by the agent's own name for it, by default
    the mode that asks before acting. ``extensions``: additions from other parts of agentnb or from you, each an
    `Extension`. ``detect``: live detectors, your own or the name of a preset such as ``default``: the responses are a
    nudge, a block of the repeated call and a stop, in this order.

    Limits of a run, by default none (``"none"`` overrides those of policy and extensions): ``max_rounds``: model
    calls, 1 to 1,000. ``max_tool_calls``: tool calls of the run. ``max_tool_calls_per_turn``: since the person's last
    message. ``max_seconds``: time, excluding waits for the person. ``max_tokens``: sent and received, in all its
    model calls. ``budget``: US dollars; shared with nested runs started by its tools. ``unpriced``: allow a budget
    although the model's price is unknown. ``on_limit``: ``stop``; ``final_answer``: the model answers once more,
    without tools; ``raise``: `RunLimited`. ``name``: its name in logs and cards.

    Raises `SettingsError` for settings that cannot work; `MissingKey` only when a run starts.
    """

    if not TYPE_CHECKING:  # otherwise a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Refuse a setting's former name, giving the new one."""
            better = ": it is now called bundle" if name == "rules" else ""
            raise AttributeError(f"An Agent has no {name!r}{better}")

    async def run(self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]) -> Run:
        """Work on the prompt until the run ends, on the running event loop; plain tools run in threads.

        Keywords, each replacing the option of the same name (`RunOptions`): ``store`` keeps the log (in memory only
        without a store); ``continue_from`` continues a run's conversation; ``watch`` is called with every event and
        delta (without it, a notebook with the extension shows a card and a terminal a progress line, unless ``show``
        is False); ``tags`` are labels for finding the run; ``work_dir``: the working directory of tools. ``approve``
        is a mode, ``auto``, ``ask``, ``never`` or ``read_only``, or a function: ``approve(call, run)`` decides about
        calls that a gate asks about, and ``answer(question)`` answers questions of tools; both may be async.
        ``suspend``: end as ``waiting_on_user`` if nobody is present to answer a gate. ``allow_urls``: addresses for
        models named by files and logs; ``context_type``, ``entity``, ``parent_id``: the task, its subject, the parent
        run. If the first round fails, `ModelError` is raised; if a later one fails, the run is returned with status
        ``failed`` and ``run.error``.
        """
        from agentnb.agent.start import pending_run
        from agentnb.runtime.host.run_options import AgentRunKeywords, options_of

        options = options_of(options, keywords, AgentRunKeywords, "agent.run(prompt")
        return await pending_run(self, prompt, options).run_here()

    def start(self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]) -> LiveRun:
        """Start a run in the background and return a handle on it at once; keywords as for `run`.

        Unless ``options`` say otherwise, the run has its own event loop, runs plain tools in threads, and its
        questions wait for ``live.answer(...)``.
        """
        from agentnb.agent.start import pending_run
        from agentnb.runtime.host.run_options import AgentRunKeywords, answerable, options_of

        options = options_of(options, keywords, AgentRunKeywords, "agent.start(prompt")
        return pending_run(self, prompt, answerable(options)).start()

    def resume(
        self,
        run: Run,
        writer: Writer | None = None,
        options: RunOptions | None = None,
        **keywords: Unpack[ResumeKeywords],
    ) -> LiveRun:
        """Resume an interrupted run, and append to its log with ``writer``.

        ``run``, folded from its log, keeps growing. Finished calls are not repeated. `recover` does all this for a run in a
        store.
        """
        from agentnb.agent.start import resume_run
        from agentnb.runtime.host.run_options import ResumeKeywords, answerable, options_of

        options = options_of(options, keywords, ResumeKeywords, "agent.resume(run, writer")
        return resume_run(self, run, writer, answerable(options)).start()

    async def resume_here(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> Run:
        """Resume on the running event loop, as for a nested run, and return the run once it has ended; see `resume`."""
        from agentnb.agent.start import resume_run
        from agentnb.runtime.host.run_options import RunOptions

        return await resume_run(self, run, writer, options or RunOptions()).run_here()

    def run_sync(self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]) -> Run:
        """Run from scripts and from code that cannot await, even inside a running event loop; see `run`.

        The calling thread waits, running the plain tools meanwhile. An interrupt ends the run, closes its log and
        raises KeyboardInterrupt.
        """
        from agentnb.runtime.host.run_options import AgentRunKeywords, options_of
        from agentnb.runtime.runs.launch import in_foreground

        options = options_of(options, keywords, AgentRunKeywords, "agent.run_sync(prompt")
        return in_foreground(partial(self.start, prompt), options)

    def stream(
        self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]
    ) -> AsyncIterator[AnyEvent | Delta]:
        """Yield the events and deltas of a run as they occur; leaving the loop early cancels the run. Keywords as for `run`."""
        from agentnb.agent.start import stream_events
        from agentnb.runtime.host.run_options import AgentRunKeywords, options_of

        return stream_events(partial(self.run, prompt), options_of(options, keywords, AgentRunKeywords, "agent.stream(prompt"))

    def first_request(self, prompt: str | Message, *, continue_from: Run | None = None, board: Board | None = None) -> Request:
        """Return the first request of a run, without sending it."""
        from agentnb.agent.start import first_request

        return first_request(self, prompt, continue_from, board)
