"""An agent: its settings, and the ways to run it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from agentnb.agent.settings import AgentSettings

if TYPE_CHECKING:
    from agentnb.core.log.events import AnyEvent, Delta
    from agentnb.core.log.stores import Writer
    from agentnb.core.messages import Message
    from agentnb.core.request import Request
    from agentnb.detect.run import Run
    from agentnb.runtime.host.live import LiveRun
    from agentnb.runtime.host.run_options import AgentRunKeywords, ResumeKeywords, RunOptions
    from agentnb.tools.todos.board import Board


@dataclass(frozen=True, slots=True)
class Agent(AgentSettings):
    """An agent's settings. It has no state, so one agent may do many runs at once.

    ``model``: a name, ``provider:model``, or a model object. ``tools``: functions, agents and workflows, or what `tool` made of
    them. ``system``: the system prompt instead of the built-in one. ``guidance``: the texts that guide it, the name of a set
    (``matrix``, ``off``), a `GuidanceSet`, or a `RandomGuidance`, which draws one. ``policy``: how it is kept on task,
    ``matrix`` (the usual one), ``minimal`` or ``chat``, or one of these with settings, such as ``Matrix(workflow_mode=True)``.
    ``todos``: whether it keeps a list when it has tools, or the board to keep it on. ``history``: how much of a conversation is
    sent: ``auto``, ``documented``, ``full`` or a `History`. ``gates``: functions of a call and the run that say whether it may
    run, after the policy's own (`agentnb.policies.gates`). ``permissions``: rules about tool calls, each ``allow``, ``ask`` or
    ``deny``, such as ``{"write_file(data/**)": "allow", "bash": "ask"}``, or a list of the flags that are permitted
    (`agentnb.policies.permissions.rules`). ``approve``: an approval mode, or a function that decides about calls that would be
    asked about, for runs whose options give none. ``instructions``: whether it follows the ``CLAUDE.md``, ``AGENT.md`` or
    ``AGENTS.md`` of the repository it works in. ``output``: the form of its answers: a dataclass, TypedDict, pydantic model,
    msgspec Struct, another type, a JSON Schema, or an `Output`. An answer that does not fit is sent back with what is wrong,
    twice by default; then the run fails. ``run.output`` holds the answer: an instance of the type, and plain data in a run that
    was loaded from its log. ``work_dir``: the folder tools work in; by default the current folder when the run starts.
    ``acp``: an agent of others in place of a model, ``NAME`` or ``NAME:MODEL`` such as ``opencode``, over the Agent Client
    Protocol, and ``mode``: its mode, in its own words, by default the one in which it asks before it acts.
    ``extensions``: what other parts of agentnb or you add to it, each an `Extension`. ``detect``: detectors that look on, the
    name of a preset such as ``default`` or your own: a nudge, a block of the repeated call and a stop follow, in this order.

    Limits of a run, by default none; ``"none"`` for none whatever policy and extensions say: ``max_rounds``: model calls, 1 to
    1,000. ``max_tool_calls``: tool calls of the run. ``max_tool_calls_per_turn``: those since the person last spoke.
    ``max_seconds``: time, without waits for the person. ``max_tokens``: sent and received, in all its model calls. ``budget``:
    US dollars; nested runs, which its tools start, spend from it too. ``unpriced``: allow a budget although the model's price
    is unknown. ``on_limit``: ``stop``; ``final_answer``: the model answers once more, without tools; ``raise``: `RunLimited`.
    ``name``: its name in logs and cards.

    Raises `SettingsError` for settings that cannot work; `MissingKey` only when a run starts.
    """

    if not TYPE_CHECKING:  # else a type checker would take any attribute for one

        def __getattr__(self, name: str) -> Any:
            """Refuse a former name with the new one."""
            better = ": it is called bundle now" if name == "rules" else ""
            raise AttributeError(f"An Agent has no {name!r}{better}")

    async def run(self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]) -> Run:
        """Work on the prompt until the run ends, on the running event loop; plain tools run in threads.

        Keywords, each in place of the option of its name (`RunOptions`): ``store`` keeps the log (without a store, it is in
        memory only); ``continue_from`` continues a run's conversation; ``watch`` is called with every event and delta (without
        it, a notebook with the extension shows a card and a terminal a line about its progress, unless ``show`` is False);
        ``tags`` are words by which the run is found again; ``work_dir``: the folder tools work in. ``approve`` is a word,
        ``auto``, ``ask``, ``never`` or ``read_only``, or a function: ``approve(call, run)`` decides about calls that a gate
        asks about, and ``answer(question)`` answers what tools ask; both may be async. ``suspend``: where nobody is here to
        answer a gate, end as ``waiting_on_user``. ``allow_urls``: addresses that models named by files and logs may use;
        ``context_type``, ``entity``, ``parent_id``: the task, its subject, the parent run. If the first round fails,
        `ModelError` is raised; if a later one fails, the run is returned with status ``failed`` and ``run.error``.
        """
        from agentnb.agent.start import pending_run
        from agentnb.runtime.host.run_options import AgentRunKeywords, options_of

        options = options_of(options, keywords, AgentRunKeywords, "agent.run(prompt")
        return await pending_run(self, prompt, options).run_here()

    def start(self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]) -> LiveRun:
        """Start a run in the background and return a handle on it at once; keywords as for `run`.

        It runs on an event loop of its own, its plain tools in threads, and its questions wait for ``live.answer(...)``,
        unless ``options`` give others.
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
        """Resume an interrupted run where it was cut off, and append to its log with ``writer``.

        ``run``, folded from its log, keeps growing. Calls that have ended are not made again. `recover` does all this for a
        run in a store.
        """
        from agentnb.agent.start import resumed_run
        from agentnb.runtime.host.run_options import ResumeKeywords, answerable, options_of

        options = options_of(options, keywords, ResumeKeywords, "agent.resume(run, writer")
        return resumed_run(self, run, writer, answerable(options)).start()

    async def resume_here(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> Run:
        """Like `resume`, on the running event loop, as a nested run is resumed; return the run when it has ended."""
        from agentnb.agent.start import resumed_run
        from agentnb.runtime.host.run_options import RunOptions

        return await resumed_run(self, run, writer, options or RunOptions()).run_here()

    def run_sync(self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]) -> Run:
        """Like `run`, for scripts and for code that cannot await, even inside a running event loop.

        The calling thread waits and meanwhile runs the plain tools. An interrupt ends the run, closes its log
        and raises KeyboardInterrupt.
        """
        from agentnb.runtime.host.run_options import AgentRunKeywords, options_of
        from agentnb.runtime.runs.launch import in_foreground

        options = options_of(options, keywords, AgentRunKeywords, "agent.run_sync(prompt")
        return in_foreground(partial(self.start, prompt), options)

    def stream(
        self, prompt: str | Message, options: RunOptions | None = None, **keywords: Unpack[AgentRunKeywords]
    ) -> AsyncIterator[AnyEvent | Delta]:
        """Yield the events and deltas of a run as they come; leaving the loop early cancels the run. Keywords as for `run`."""
        from agentnb.agent.start import streamed
        from agentnb.runtime.host.run_options import AgentRunKeywords, options_of

        return streamed(partial(self.run, prompt), options_of(options, keywords, AgentRunKeywords, "agent.stream(prompt"))

    def first_request(self, prompt: str | Message, *, continue_from: Run | None = None, board: Board | None = None) -> Request:
        """Return the request that a run would begin with. Sends nothing."""
        from agentnb.agent.start import first_request

        return first_request(self, prompt, continue_from, board)
