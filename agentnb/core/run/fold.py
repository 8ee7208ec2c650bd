"""The fold: the effect of each kind of event on a run. No other code changes a run's state.

Used by `Run.apply` for runs with interpretation, and on its own for the facts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

from msgspec.structs import replace

from agentnb.core.compaction_records import Compaction
from agentnb.core.guidance import GuidanceTexts
from agentnb.core.log import events as e
from agentnb.core.log.handlers import Handlers
from agentnb.core.messages import Message, Text, ToolCall, ToolResult, user
from agentnb.core.questions import AskedQuestion, Outcome
from agentnb.core.request import role_of
from agentnb.core.run import inner_calls, step_calls, work_fold
from agentnb.core.run.approvals import GRANTS_SINCE, grant_in_answer
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import BROKEN_OFF, STATES_OF_ERRORS, CallRecord, Retry, WorkflowRound
from agentnb.core.todos import Todos, is_open, newly_blocked, newly_completed
from agentnb.core.usage import NOTHING_USED, NestedUsage, logged_nested_usage
from agentnb.core.view import with_item, with_last, without_last
from agentnb.errors import TraceError

HANDLERS = handles = Handlers(work_fold.handles)


@handles
def _run_started(run: RunFacts, event: e.RunStarted) -> None:
    run._opening = event
    run._prompt = event.prompt.text
    run._tools = event.tools
    run._roles = {tool.name: tool.role or role_of(tool.name) for tool in event.tools}
    run._context_type, run._entity = event.context_type, event.entity
    run._contexts = (event.context_type,) if event.context_type else ()
    run._settings = event.settings
    run._max_rounds = event.settings.get("max_rounds")
    run._guidance = run._given_guidance = _guidance_of(event)
    if isinstance(variables := event.settings.get("variables"), dict):  # of a task file
        run._variables.update(variables, **event.settings.get("inputs") or {})
    run._inherited = len(event.history)
    run._messages.extend(event.history)
    run._messages.append(event.prompt)
    run._results.update((call.id, None) for message in event.history for call in message.calls)
    run._results.update(
        (part.call_id, part) for message in event.history for part in message.parts if isinstance(part, ToolResult)
    )
    if event.origin is not None and event.origin.usage is not None:
        run._usage = event.origin.usage  # for the whole run: `_use` does not add to it
        run._counters.spent = event.origin.usage.cost or 0.0
    run._compacted = event.compacted
    run._todos = event.todos
    run._todos_unseen = bool(event.todos)
    run._carried_todos = event.carried_todos
    run._started_at = event.at


def _guidance_of(event: e.RunStarted) -> GuidanceTexts:
    logged = event.settings.get("guidance")
    if not isinstance(logged, dict):  # from another product, or an early version
        return GuidanceTexts(texts=event.guidance)
    return GuidanceTexts(str(logged.get("set", "")), str(logged.get("version", "")), event.guidance)


@handles
def _round_started(run: RunFacts, event: e.RoundStarted) -> None:
    run._messages.extend(run._pending)
    run._pending.clear()
    if event.continuation:
        run._messages.append(user(event.continuation))
    if event.before and run._rounds:
        run._rounds[-1] = run._last_round = replace(run._rounds[-1], status=event.before)
    run._last_round = WorkflowRound(event.index, event.reason, event.at, note=event.note, recovered=run._recovered)
    run._rounds.append(run._last_round)
    run._call_places = {}
    if run._inner_places:
        run._inner_places = {}
    run._recovered = False
    run._agent_states.begin_round()


@handles
def _guidance_given(run: RunFacts, event: e.GuidanceGiven) -> None:
    current = run._rounds[-1]
    run._rounds[-1] = run._last_round = replace(current, guidance=with_item(current.guidance, event.guidance))


@handles
def _retry_scheduled(run: RunFacts, event: e.RetryScheduled) -> None:
    if not run._rounds:  # for a step's call
        return
    current, run._streamed = run._rounds[-1], ()
    retry = Retry(event.attempt, event.seconds, event.reason, event.status, event.heard)
    run._rounds[-1] = run._last_round = replace(current, retries=with_item(current.retries, retry))


@handles
def _compaction_started(run: RunFacts, event: e.CompactionStarted) -> None:
    current = run._rounds[-1]
    run._rounds[-1] = run._last_round = replace(
        current, compactions=with_last(_whole(current.compactions), Compaction(event.why))
    )


@handles
def _context_compacted(run: RunFacts, event: e.ContextCompacted) -> None:
    current = run._rounds[-1]
    compaction = Compaction(event.why, event.compacted, event.usage, event.seconds, event.problem)
    run._rounds[-1] = run._last_round = replace(current, compactions=with_item(_whole(current.compactions), compaction))
    run._compacted = event.compacted
    run._use(event.usage)


@handles
def _spent_besides(run: RunFacts, event: e.ExtraUsage) -> None:
    if (nested := logged_nested_usage(event.nested_run, event.inside, event.nested)) is not None:
        run._use_inside(event.nested_run, nested)
    if event.usage != NOTHING_USED:
        run._use(event.usage)


def _whole(compactions: Sequence[Compaction]) -> Sequence[Compaction]:
    """Return the compactions, without the last one while its summary is still being written."""
    return without_last(compactions) if compactions and compactions[-1].compacted is None else compactions


@handles
def _reply_streamed(run: RunFacts, event: e.ReplyStreamed) -> None:
    run._streamed = with_item(run._streamed, event)


@handles
def _model_replied(run: RunFacts, event: e.ModelReplied) -> None:
    message = event.message
    run._todos_unseen, run._streamed = False, ()
    run._messages.append(message)
    records: list[CallRecord] = []
    text, places = "", {}
    for part in message.parts:  # one plain loop: it runs in every round
        if type(part) is ToolCall:
            places[part.id] = len(records)
            records.append(CallRecord(part, role=run._roles.get(part.name) or role_of(part.name)))
            run._results[part.id] = None
        elif type(part) is Text:
            text += part.text
    run._call_places = places
    if text.strip() and _ends_turn(event, records):
        run._agent_states.say()
    run._use(event.usage)
    current = run._rounds[-1]
    is_continued = current.reason == "reply_cut"  # the reply continues a truncated text
    run._text = run._text + text if is_continued else text or run._text
    run._rounds[-1] = run._last_round = replace(
        current,
        reply=message,
        stop_reason=event.stop_reason,
        usage=event.usage,
        model_seconds=event.seconds,
        metadata=event.metadata,
        signals=event.signals,
        records=tuple(records),
    )


def _ends_turn(event: e.ModelReplied, records: Sequence[CallRecord]) -> bool:
    """True if the reply's text is for the person: it is complete and calls no tool."""
    return event.stop_reason != BROKEN_OFF and all(record.is_server_side for record in records)


def _put_record(run: RunFacts, call_id: str, **changes: Any) -> None:
    position = run._call_places.get(call_id)
    if position is not None:
        _replace_record(run, position, replace(run._rounds[-1].records[position], **changes))


def _replace_record(run: RunFacts, place: int, record: CallRecord) -> None:
    current = run._rounds[-1]
    records = [*current.records]
    records[place] = record
    run._rounds[-1] = run._last_round = replace(current, records=tuple(records))


@handles
def _tool_admitted(run: RunFacts, event: e.ToolAdmitted) -> None:
    if event.step:
        record = CallRecord(event.call, role=run.role_of(event.call.name), waits=bool(event.reason))
        step_calls.put(run, event.step, record)
    elif not event.parent_call:
        _put_record(run, event.call.id, call=event.call, waits=bool(event.reason))


@handles
def _tool_started(run: RunFacts, event: e.ToolStarted) -> None:
    call, counters = event.call, run._counters
    if event.parent_call:
        inner_calls.add(run, event.parent_call, CallRecord(call, role=run.role_of(call.name)))
    elif event.step:
        step_calls.put(run, event.step, CallRecord(call, role=run.role_of(call.name)), started_at=event.at)
        run._agent_states.start_call(call.id, call.name, event.step)
    else:
        position = run._call_places.get(call.id)
        record = None if position is None else run._rounds[-1].records[position]
        # Usually the model's own call is executed. A person may have changed it; cards redraw any new record.
        if record is None or record.waits or (record.call is not call and record.call != call):
            _put_record(run, call.id, call=call, waits=False)
        run._calls.record_start(call)
        run._agent_states.start_call(call.id, call.name)
    counters.calls += 1
    counters.calls_this_turn += 1


@handles
def _tool_finished(run: RunFacts, event: e.ToolFinished) -> None:
    result = event.result
    call_id = result.call_id
    if event.parent_call:
        inner_calls.end(run, call_id, lambda record: record.with_result(event))
        return
    if result.is_error:
        _count_error(run, result.error_code)
    if event.step:
        if (step_call := run.open_step_call(call_id)) is not None:
            step_calls.put(run, event.step, step_call.record.with_result(event), ended_at=event.at)
    else:
        position = run._call_places.get(call_id)
        if position is not None:
            _replace_record(run, position, run._rounds[-1].records[position].with_result(event))
        run._results[call_id] = result
        run._calls.record_result(result)
    run._agent_states.end_call(call_id, event.step, result.error_code)


@handles
def _call_blocked(run: RunFacts, event: e.CallBlocked) -> None:
    call, result = event.call, event.result
    if not event.parent_call:
        _count_error(run, result.error_code)
    if event.parent_call or event.step:
        record = CallRecord(call, result, rule=event.rule, role=run.role_of(call.name))
        if event.parent_call:
            inner_calls.add(run, event.parent_call, record)
            return
        step_calls.put(run, event.step, record, ended_at=event.at)
    else:
        _put_record(run, call.id, result=result, rule=event.rule, waits=False)
        run._results[call.id] = result
        run._calls.note_block(call)
    run._agent_states.end_call(call.id, event.step, result.error_code)


def _count_error(run: RunFacts, code: str | None) -> None:
    state = STATES_OF_ERRORS.get(code or "", "failed")
    if state == "failed":
        run._counters.failed_calls += 1
    elif state == "blocked":
        run._counters.blocked_calls += 1


@handles
def _todos_changed(run: RunFacts, event: e.TodosChanged) -> None:
    if event.by == "model" and run._rounds:
        _model_changed_todos(run, event)
    elif run._todos_done:
        run._todos_done &= {todo.identity for todo in event.todos if not is_open(todo)}
    run._todos = event.todos
    run._todos_unseen = event.by == "outside"  # the model's own call returns the whole list


def _model_changed_todos(run: RunFacts, event: e.TodosChanged) -> None:
    """Record todos that the model completed for the first time: completing a reopened todo again is not progress."""
    completed = newly_completed(run._todos, event.todos)
    newly_done = [todo for todo in completed if todo.identity not in (run._todos_done or ())]
    if newly_done:
        run._todos_done = run._todos_done or set()
        run._todos_done.update([todo.identity for todo in newly_done])
    current = run._rounds[-1]
    run._rounds[-1] = run._last_round = replace(
        current,
        completed=reduce(with_item, [todo.id for todo in newly_done], current.completed),
        blocked=reduce(with_item, [todo.id for todo in newly_blocked(run._todos, event.todos)], current.blocked),
    )


@handles
def _round_finished(run: RunFacts, event: e.RoundFinished) -> None:
    current, run._streamed = run._rounds[-1], ()
    if event.spent_inside:
        run._use_inside("", NestedUsage.of_dollars(event.spent_inside))
    if current.records:
        run._messages.append(Message("tool", current.results))
    run._rounds[-1] = run._last_round = replace(
        current,
        status=event.status,
        guidance=tuple(current.guidance),
        completed=tuple(current.completed),
        blocked=tuple(current.blocked),
        todo_violations=tuple(current.todo_violations),
        retries=tuple(current.retries),
        compactions=tuple(_whole(current.compactions)) if current.compactions else (),
        ended_at=event.at,
        seconds=event.seconds,
    )


@handles
def _loop_detected(run: RunFacts, event: e.LoopDetected) -> None:
    run._loops = with_item(run._loops, event)


@handles
def _limit_reached(run: RunFacts, event: e.LimitReached) -> None:
    run._limit = event


@handles
def _command_received(run: RunFacts, event: e.CommandReceived) -> None:
    if (message := event.user_message) is not None:
        run._pending.append(message)
        if event.by_person:
            run._counters.calls_this_turn = 0
            run._calls.clear()
    elif event.command in ("pause", "resume"):
        run._paused = event.command == "pause"
        _set_status(run)


@handles
def _question_asked(run: RunFacts, event: e.QuestionAsked) -> None:
    run._waiting[event.question.id] = len(run._questions)
    index = run._rounds[-1].index if run._rounds else 0
    run._questions.append(AskedQuestion(question=event.question, round=index, asked_at=event.at))
    _set_status(run)


@handles
def _question_answered(run: RunFacts, event: e.QuestionAnswered) -> None:
    outcome = _outcome_of(event)
    answer = event.answer if outcome == "answered" else None
    position = run._waiting.get(event.question_id)
    if position is not None and run._opening.schema < GRANTS_SINCE:
        grant = grant_in_answer(run._questions[position].question, event)
        if grant is not None:
            run._grants[grant.grant_id] = grant
    _close_question(run, event.question_id, outcome=outcome, answer=answer, by=event.by, closed_at=event.at)
    _set_status(run)


def _outcome_of(event: e.QuestionAnswered) -> Outcome:
    if event.withdrawn:
        return "withdrawn"
    return "cancelled" if event.cancelled else "declined" if event.declined else "answered"


def _close_question(run: RunFacts, question_id: str, **changes: Any) -> None:
    """Record the outcome of this question if it is open."""
    position = run._waiting.pop(question_id, None)
    if position is not None:
        run._questions[position] = replace(run._questions[position], **changes)


def _withdraw_all(run: RunFacts, at: datetime | None) -> None:
    """Withdraw the open questions, since their answers are no longer awaited."""
    for question_id in [*run._waiting]:
        _close_question(run, question_id, outcome="withdrawn", closed_at=at)


def _withdraw_answers(run: RunFacts) -> None:
    """Withdraw all questions and answers so far, also in the events, since the person's own gates may read these."""
    run._grants.clear()
    run._questions[:] = [replace(asked, outcome="withdrawn", answer=None) for asked in run._questions]
    run._waiting.clear()
    for position, event in enumerate(run._events):
        if type(event) is e.QuestionAnswered:
            run._events[position] = replace(event, answer=None, declined=False, cancelled=False, withdrawn=True)


def _set_status(run: RunFacts) -> None:
    is_waiting = run._paused or bool(run._waiting)
    run._status = "waiting_on_user" if is_waiting else "running"
    run._agent_states.wait(is_waiting)


@handles
def _run_suspended(run: RunFacts, event: e.RunSuspended) -> None:
    run._suspended = True
    _set_status(run)


@handles
def _run_recovered(run: RunFacts, event: e.RunRecovered) -> None:
    current = run._rounds[-1] if run._rounds else None
    died = not run._suspended  # otherwise its process ended properly
    if current is not None and current.status == "running":
        run._rounds[-1] = run._last_round = replace(
            current, recovered=current.recovered or died, compactions=_whole(current.compactions)
        )
    else:
        run._recovered = run._recovered or died
    if event.approve:
        run._settings = {**run._settings, "approve": event.approve}
    if event.permissions is not None:
        run._settings = {**run._settings, "permissions": event.permissions}
    if event.guidance is not None:
        run._guidance = run._given_guidance = event.guidance
    run._paused = False
    if event.consent == "refused":
        _withdraw_answers(run)
    if not run._suspended:
        _withdraw_all(run, None)  # the process that waited for answers died at an unknown time
    run._suspended = False
    run._counters.times_recovered += 1
    _set_status(run)
    run._agent_states.resume(bool(run._waiting))


@handles
def _add_warning(run: RunFacts, event: e.Warned) -> None:
    run._warned = with_item(run._warned, event)


@handles
def _error_raised(run: RunFacts, event: e.ErrorRaised) -> None:
    run._error, run._failed_at = event.error, event.where


@handles
def _run_finished(run: RunFacts, event: e.RunFinished) -> None:
    run._close_conversation()
    run._status = event.status
    run._paused = run._suspended = False
    _withdraw_all(run, event.at)  # a finished run has no open questions
    run._stop_reason = event.stop_reason or None  # foreign traces may not say why they ended
    run._ended_at = event.at
    run._seconds = event.seconds
    if event.last_round and run._rounds:
        run._rounds[-1] = run._last_round = replace(run._rounds[-1], status=event.last_round)
    run._agent_states.end(event.status)


def apply(run: RunFacts, event: e.AnyEvent) -> None:
    """Apply the next event."""
    if event.seq != len(run._events):
        raise out_of_order(run, event)
    HANDLERS[type(event)](run, event)
    run._events.append(event)


def out_of_order(run: RunFacts, event: e.AnyEvent) -> TraceError:
    """Return the error for an event out of sequence."""
    return TraceError(f"Event {event.seq} of run {event.run_id} is out of order: {len(run._events)} was expected")


def fold_events(events: Iterable[e.AnyEvent]) -> RunFacts:
    """Fold events into the facts of their run."""
    run = RunFacts()
    for event in events:
        apply(run, event)
    return run


def by_round(run: RunFacts) -> Iterator[tuple[int | None, e.AnyEvent]]:
    """Yield each event with the index of its round, or None before the first round and for the end of the run."""
    current: int | None = None
    for event in run.events:
        if isinstance(event, e.RoundStarted):
            current = event.index
        yield None if isinstance(event, e.RunFinished) else current, event


def todo_changes(run: RunFacts) -> Iterator[tuple[int | None, e.TodosChanged]]:
    """Yield the changes of the todo list, each with the index of its round."""
    for index, event in by_round(run):
        if isinstance(event, e.TodosChanged):
            yield index, event


def todos_at_start(run: RunFacts) -> Todos:
    """Return the run's initial todo list."""
    return run._opening.todos
