"""Reproduce: repeat a recorded run with its recorded model replies and tool results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec
from msgspec import structs

from agentnb.agent.start import AgentRun
from agentnb.core.inbox import Inbox
from agentnb.core.log.events import RoundFinished
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.questions import JudgedCall, WaitingOnUser, by_call
from agentnb.core.run.approvals import APPROVE
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.todos import Todo
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors
from agentnb.errors import AgentnbError, ReplayDiverged, SettingsError
from agentnb.interchange.files import one_run
from agentnb.models.recorded_model import RecordedModel
from agentnb.policies.gates import Gate
from agentnb.rerun.fork import RECORDED, pending_of
from agentnb.rerun.recorded_offers import RecordedOffers, has_changing_tools
from agentnb.rerun.variant import is_own
from agentnb.runtime.host.run_options import RunKeywords, RunOptions, options_of
from agentnb.runtime.questions.answerers import AnswerQuestion
from agentnb.runtime.questions.grants import is_copy
from agentnb.runtime.runs.gate_names import missing_gates, names_of_gates
from agentnb.runtime.workers.foreground import Foreground
from agentnb.tools.mcp.mcp_server import PREFIX

BY_OTHERS = ("cancelled", "interrupted", "running", "waiting_on_user")
"""Statuses of runs that were ended from outside."""
COMPARE = "diff(run, error.run) compares them"
_NO_TIMES: dict[str, Any] = {name: None for name in Todo.__struct_fields__ if name.endswith("_at")}
_encode = msgspec.json.Encoder(order="sorted", enc_hook=list).encode


async def reproduce(
    run: Run | str | Path,
    *,
    tools: Literal["recorded"] | Iterable[Any] = RECORDED,
    gates: Iterable[Gate] = (),
    detect: Detectors | None = None,
    options: RunOptions | None = None,
    **keywords: Unpack[RunKeywords],
) -> Run:
    """Repeat a recorded run of agentnb with its replies and results; return the new run, equal except for ids and
    times.

    This verifies that the current version of agentnb, and the ``tools`` passed here, still behave as logged. User messages are
    sent again after the same rounds, and questions get the recorded answers; with your own tools, only if the log gives consent
    (`Run.gives_consent`) or the options set ``trust_log``. ``gates``: the run's custom gates. ``detect``: its custom detectors;
    without them, findings are read from the log, as they always are for detectors that ask a model. Keywords are options of the
    run, as for `Agent.run`. Raises `ReplayDiverged` with the first message that differs and a diff, or with another fact that
    differs; `SettingsError` for a run of another product, or one that was ended from outside.
    """
    run = one_run(run)
    options = options_of(options, keywords, RunKeywords, "reproduce(run")
    pending, model = _pending(run, tools, gates, detect, options)
    try:
        reproduced = await pending.run_here()
    except AgentnbError as error:
        reproduced = _accept_failure(run, pending, model, error)
    return _compare(run, reproduced, model)


def reproduce_sync(
    run: Run | str | Path,
    *,
    tools: Literal["recorded"] | Iterable[Any] = RECORDED,
    gates: Iterable[Gate] = (),
    detect: Detectors | None = None,
    options: RunOptions | None = None,
    **keywords: Unpack[RunKeywords],
) -> Run:
    """Run like `reproduce`, for use in scripts and code that cannot await."""
    run, foreground = one_run(run), Foreground()
    options = options_of(options, keywords, RunKeywords, "reproduce_sync(run")
    with foreground.own_interrupts():
        pending, model = _pending(run, tools, gates, detect, replace(options, foreground=foreground))
        try:
            reproduced = pending.start().wait_in_foreground()
        except AgentnbError as error:
            reproduced = _accept_failure(run, pending, model, error)
    return _compare(run, reproduced, model)


def _pending(
    run: Run,
    tools: Literal["recorded"] | Iterable[Any],
    gates: Iterable[Gate],
    detect: Detectors | None,
    options: RunOptions | None,
) -> tuple[AgentRun, RecordedModel]:
    if not is_own(run):
        raise SettingsError(f"Run {run.id} was recorded by another product", "Replay it, or fork it: fork(run, at_round)")
    if run.status in BY_OTHERS:
        raise SettingsError(f"Run {run.id} did not end on its own ({run.status})", "Fork it: fork(run, at_round)")
    model = RecordedModel(run, in_order=True, name=run.model)
    options = options or RunOptions()
    says = _Says(run, options.watch)
    counts = run.gives_consent or bool(options.trust_log) or tools == RECORDED  # recorded tools have no side effects
    options = replace(options, watch=says, answer=options.answer or (_answers_of(run) if counts else None))
    pending = pending_of(run, 1, model=model, tools=tools, gates=gates, detect=detect, options=options, is_fork=False)
    if tools == RECORDED and has_changing_tools(run):
        pending.context.servers = RecordedOffers(run, pending.context.log)
    says.inbox = pending.context.inbox
    return pending, model


def _answers_of(run: Run) -> AnswerQuestion | None:
    """Return a function that repeats the recorded answers to questions about calls, or None if none were asked.

    The function approves calls that a grant from outside the run, from a session or a parent run, had allowed.
    """
    remaining = {call_id: deque(asked) for call_id, asked in by_call(run.questions).items()}
    granted = [event for event in run.events if isinstance(event, GrantGiven) and is_copy(event)]

    def answer(question: WaitingOnUser) -> Any:
        if asked := remaining.get(question.call_id):
            return asked.popleft().answer
        call = question.about
        return APPROVE if call is not None and any(_had_allowed(grant, call) for grant in granted) else None

    return answer if remaining or granted else None


def _had_allowed(grant: GrantGiven, call: JudgedCall) -> bool:
    """True if a grant from outside the run covered calls of this tool; for an MCP server, only a tool of the same server."""
    origin = call.origin
    if origin is None or not grant.server_identity:
        return grant.tool == call.tool
    is_same = origin.server_identity in ("", grant.server_identity) and not origin.changed  # empty: it was recorded
    return is_same and (grant.tool == call.tool or grant.rule == f"{PREFIX}{origin.server}")


class _Says:
    """A watcher that repeats the person's messages after the same rounds."""

    def __init__(self, run: Run, watch: Callable[[Any], None] | None) -> None:
        self.inbox: Inbox | None = None
        self._watch = watch
        self._texts: dict[int, list[str]] = {}
        index = -1
        for event in run.events:
            if isinstance(event, RoundFinished):
                index = event.index
            elif (message := event.user_message) is not None:
                self._texts.setdefault(index, []).append(message.text)

    def __call__(self, item: Any) -> None:
        if self._watch is not None:
            self._watch(item)
        if isinstance(item, RoundFinished) and self.inbox is not None:
            for text in self._texts.pop(item.index, ()):
                self.inbox.put("say", text)


def _accept_failure(run: Run, pending: AgentRun, model: RecordedModel, error: AgentnbError) -> Run:
    """Return the failed run if the recorded run failed too; otherwise raise the error."""
    if model.diverged is None and run.error is None:
        raise error
    return pending.context.log.run


def _compare(run: Run, reproduced: Run, model: RecordedModel) -> Run:
    had = missing_gates(run, names_of_gates(reproduced))
    gates = f"Pass the gates of the run: reproduce(run, gates=[{', '.join(had)}])" if had else ""
    if model.diverged is not None:
        raise ReplayDiverged(model.diverged.what, gates or model.diverged.advice, run=reproduced)
    for (fact, recorded), (_, current) in zip(_course(run), _course(reproduced), strict=False):
        if recorded != current:
            raise ReplayDiverged(f"{fact} was {recorded} and is now {current}", gates or COMPARE, run=reproduced)
    return reproduced


def _course(run: Run) -> Iterator[tuple[str, str]]:
    """Yield, in order, the facts of a run that can be reproduced, each with its label."""
    for round_ in run.rounds:
        for name, value in _facts(round_).items():
            yield f"Round {round_.index + 1}: {name}", _encode(value).decode()
    yield "The todo list", _encode([structs.replace(todo, **_NO_TIMES) for todo in run.todos]).decode()
    yield "The end", f"{run.status} ({run.stop_reason}) after {len(run.rounds)} rounds"


def _facts(round_: WorkflowRound) -> dict[str, Any]:
    calls = [(record.call.name, record.call.arguments, record.rule) for record in round_.records]
    results = [(result.text, result.is_error, result.error_code) for result in round_.results]
    return {
        "its reason": round_.reason,
        "its guidance": round_.guidance,
        "its text": round_.text,
        "its calls": calls,
        "their results": results,
        "its status": round_.status,
        "whether guidance was followed": round_.followed,
    }
