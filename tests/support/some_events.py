"""Events and JSON of every kind, as Hypothesis draws them."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from hypothesis import strategies as st

from agentnb.advice import Plain, SetKey, TryAgain
from agentnb.core.compaction_records import Compacted
from agentnb.core.display_data import Table
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import SOURCES, Assessment
from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.questions import KINDS as QUESTION_KINDS
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.todos import Todo
from agentnb.core.usage import Usage

words = st.text(max_size=20)
names = st.text("abcdefghij_-0123456789", min_size=1, max_size=12)
advice = st.lists(
    st.builds(Plain, words) | st.builds(SetKey, words, lead=words) | st.builds(TryAgain, rest=words), max_size=2
).map(tuple)
"""Some of the kinds of advice."""
counts = st.integers(0, 2**53)
seconds = st.floats(0, 1e6)
maybe_seconds = st.none() | seconds
times = st.datetimes(timezones=st.just(UTC))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(words, json_values, max_size=3)
metadata = st.none() | json_objects

texts = st.builds(Text, words, metadata)
images = st.builds(Image, st.sampled_from(["image/png", "image/jpeg"]), st.binary(max_size=20))
calls = st.builds(ToolCall, names, json_objects, names, metadata)
results = st.builds(
    ToolResult,
    names,
    names,
    st.lists(texts | images, max_size=2).map(tuple),
    st.booleans(),
    st.none() | st.sampled_from(["unknown_tool", "tool_error", "timeout", "duplicate_call_blocked"]),
)
parts = texts | st.builds(Thinking, words, metadata) | images | calls | results
messages = st.builds(
    Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.lists(parts, max_size=3).map(tuple), words
)
maybe_counts = st.none() | counts
whys = st.sampled_from(["share", "messages", "overflow"])
compacted = st.builds(Compacted, counts, counts, counts, words)
usages = st.builds(
    Usage, maybe_counts, maybe_counts, maybe_counts, maybe_counts, maybe_counts, st.none() | seconds, st.booleans()
)
roles = st.none() | st.sampled_from(["work", "planning", "list"])
specs = st.builds(ToolSpec, names, words, json_objects, st.lists(names, max_size=2).map(tuple), roles)
progress = st.none() | st.builds(e.Progress, seconds, maybe_seconds, words)
todos = st.builds(
    Todo,
    id=counts,
    title=words,
    status=st.sampled_from(["not-started", "in-progress", "completed", "blocked"]),
    description=words,
    priority=st.none() | st.sampled_from(["low", "medium", "high", "critical"]),
    dependencies=st.lists(counts, max_size=2).map(tuple),
    can_run_parallel=st.none() | st.booleans(),
    parallel_group=st.none() | words,
    progress=st.none() | st.floats(0, 1),
    blocked_reason=st.none() | words,
    created_at=st.none() | times,
    updated_at=st.none() | times,
)
todo_lists = st.lists(todos, max_size=2).map(tuple)
guidance = st.builds(Guidance, set=words, cell=words, text=words, level=st.integers(1, 3), trigger=words, version=words)


cells = st.none() | st.booleans() | words | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
tables = st.builds(
    Table,
    columns=st.lists(words, max_size=3).map(tuple),
    rows=st.lists(st.lists(cells, max_size=3).map(tuple), max_size=3).map(tuple),
    row_count=counts,
    column_count=counts,
    index=st.lists(words, max_size=2).map(tuple),
    gap=st.integers(0, 3),
)


questions = st.builds(
    WaitingOnUser, kind=st.sampled_from(QUESTION_KINDS), message=words, schema=json_objects, id=names, call_id=words
)


def _of_kind(kind: type[e.Event], **fields: Any) -> st.SearchStrategy[Any]:
    return st.builds(
        kind, seq=st.integers(0, 10_000), at=st.none() | times, run_id=names, parent_id=st.none() | names, **fields
    )


later = words.filter(lambda name: name not in ("kind", "seq", "at", "run_id", "parent_id"))
"""Names of fields that an event of a later version may have besides those of every event."""
statuses = st.sampled_from(["completed", "limited", "stopped", "cancelled", "failed"])
of_kind: dict[type[e.Event], st.SearchStrategy[Any]] = {
    e.RunStarted: _of_kind(
        e.RunStarted,
        schema=st.just(e.SCHEMA),
        run_kind=names,
        prompt=messages,
        agent=words,
        model=words,
        system=words,
        tools=st.lists(specs, max_size=2).map(tuple),
        settings=json_objects,
        guidance=st.dictionaries(names, words, max_size=2),
        tags=st.lists(words, max_size=2).map(tuple),
        origin=st.none() | st.builds(e.Origin, names, words, words),
        forked_from=st.none() | st.builds(e.ForkedFrom, names, counts),
        conversation=names,
        context_type=names,
        entity=words,
        notebook=words,
        continued_from=st.none() | names,
        history=st.lists(messages, max_size=2).map(tuple),
        todos=todo_lists,
        compacted=st.none() | compacted,
    ),
    e.RoundStarted: _of_kind(e.RoundStarted, index=counts, reason=words, before=words, continuation=words, note=words),
    e.GuidanceGiven: _of_kind(e.GuidanceGiven, guidance=guidance),
    e.RetryScheduled: _of_kind(
        e.RetryScheduled,
        attempt=st.integers(1, 9),
        seconds=seconds,
        reason=words,
        status=st.none() | st.integers(400, 599),
        heard=words,
    ),
    e.ModelReplied: _of_kind(
        e.ModelReplied,
        message=messages,
        usage=usages,
        stop_reason=words,
        seconds=maybe_seconds,
        metadata=json_objects,
        signals=st.lists(st.sampled_from(["complete", "continue", "stop"]), max_size=2).map(tuple),
    ),
    e.ReplyStreamed: _of_kind(
        e.ReplyStreamed, parts=st.lists(texts | st.builds(Thinking, words), max_size=3).map(tuple), metadata=json_objects
    ),
    e.ToolAdmitted: _of_kind(e.ToolAdmitted, call=calls, reason=words),
    e.ToolStarted: _of_kind(e.ToolStarted, call=calls, edited=st.booleans()),
    e.ToolFinished: _of_kind(
        e.ToolFinished,
        result=results,
        seconds=maybe_seconds,
        traceback=words,
        display=st.none() | tables,
        progress=progress,
    ),
    e.CallBlocked: _of_kind(e.CallBlocked, call=calls, result=results, rule=words),
    e.TodosChanged: _of_kind(e.TodosChanged, todos=todo_lists, by=st.sampled_from(["model", "outside"]), call_id=words),
    e.QuestionAsked: _of_kind(e.QuestionAsked, question=questions),
    e.QuestionAnswered: _of_kind(
        e.QuestionAnswered,
        question_id=names,
        answer=json_values,
        declined=st.booleans(),
        withdrawn=st.booleans(),
        cancelled=st.booleans(),
    ),
    e.RoundFinished: _of_kind(
        e.RoundFinished, spent_inside=seconds, index=counts, status=st.sampled_from(["success", "error"]), seconds=maybe_seconds
    ),
    e.LoopDetected: _of_kind(
        e.LoopDetected,
        rule=words,
        first=counts,
        last=counts,
        sentence=words,
        severity=st.sampled_from(["notice", "nudge", "block", "stop"]),
    ),
    e.LimitReached: _of_kind(e.LimitReached, limit=words, value=seconds),
    e.CommandReceived: _of_kind(
        e.CommandReceived,
        command=st.sampled_from(["stop", "pause", "resume", "say"]),
        text=words,
        message=st.none() | messages,
    ),
    e.CompactionStarted: _of_kind(e.CompactionStarted, why=whys, messages=counts),
    e.ContextCompacted: _of_kind(
        e.ContextCompacted, why=whys, compacted=compacted, usage=usages, seconds=maybe_seconds, problem=words
    ),
    e.ExtraUsage: _of_kind(e.ExtraUsage, inside=seconds, usage=usages, nested_run=words, nested=usages),
    e.RunSuspended: _of_kind(e.RunSuspended, why=words),
    e.RunRecovered: _of_kind(e.RunRecovered, schema=st.just(e.SCHEMA)),
    e.Warned: _of_kind(e.Warned, message=words, advice=advice),
    e.ErrorRaised: _of_kind(
        e.ErrorRaised,
        error=st.builds(e.RunError, words, words, advice),
        **dict.fromkeys(("where", "component", "stage", "tool"), words),
    ),
    e.RunFinished: _of_kind(e.RunFinished, status=statuses, stop_reason=words, last_round=words, seconds=maybe_seconds),
    w.StepStarted: _of_kind(
        w.StepStarted, step=names, step_kind=words, title=words, parent=words, iteration=counts, inputs=json_values
    ),
    w.StepAttempted: _of_kind(w.StepAttempted, step=names, attempt=counts, error=words, wait=seconds),
    w.StepSkipped: _of_kind(w.StepSkipped, step=names, reason=words),
    w.StepFinished: _of_kind(
        w.StepFinished,
        step=names,
        status=st.sampled_from(["completed", "failed", "cancelled"]),
        output=json_values,
        error=words,
        attempts=counts,
        seconds=maybe_seconds,
    ),
    w.BranchTaken: _of_kind(w.BranchTaken, step=names, to=names, reason=words),
    w.ResultGiven: _of_kind(w.ResultGiven, output=json_values, text=words),
    w.PlanProposed: _of_kind(w.PlanProposed, plan_id=names, plan=json_objects, call_id=words),
    w.PlanEdited: _of_kind(w.PlanEdited, plan_id=names, plan=json_objects, by=words),
    w.PlanApproved: _of_kind(w.PlanApproved, plan_id=names, by=words),
    w.PlanRejected: _of_kind(w.PlanRejected, plan_id=names, by=words, reason=words, words=words),
    w.PlanReviewed: _of_kind(w.PlanReviewed, plan_id=names, verdict=words, notes=words),
    w.ModelCalled: _of_kind(
        w.ModelCalled,
        operation=words,
        model=words,
        profile=words,
        execution_mode=words,
        call_id=words,
        usage=usages,
        seconds=maybe_seconds,
        error=words,
    ),
    w.ToolsChanged: _of_kind(w.ToolsChanged, tools=st.lists(specs, max_size=2).map(tuple), reason=words),
    w.ServerStarted: _of_kind(w.ServerStarted, server=words, target=words),
    w.ServerChanged: _of_kind(
        w.ServerChanged,
        server=words,
        target=words,
        is_other=st.booleans(),
        target_before=words,
        tools=st.lists(words, max_size=2).map(tuple),
    ),
    w.FindingMade: _of_kind(
        w.FindingMade,
        rule=words,
        family=words,
        first=counts,
        last=counts,
        severity=st.sampled_from(["notice", "nudge", "block", "stop"]),
        sentence=words,
        evidence=json_values,
    ),
    w.GuidanceDrawn: _of_kind(
        w.GuidanceDrawn, set=words, propensity=seconds, version=words, among=st.dictionaries(words, seconds, max_size=2)
    ),
    w.GrantGiven: _of_kind(
        w.GrantGiven, grant_id=words, tool=words, by=words, question_id=words, server_identity=words, tool_identity=words
    ),
    w.GrantWithdrawn: _of_kind(w.GrantWithdrawn, grant_id=words, by=words),
    w.ReplyGiven: _of_kind(w.ReplyGiven, message=messages),
    w.ContextShifted: _of_kind(w.ContextShifted, context_type=words, entity=words, call_id=words, reason=words),
    w.OutcomeGiven: _of_kind(
        w.OutcomeGiven,
        assessment=st.builds(
            Assessment,
            st.sampled_from(["passed", "failed", "unknown"]),
            st.sampled_from(SOURCES),
            words,
            st.none() | st.floats(-2, 2),
        ),
    ),
    w.OtherEvent: _of_kind(
        w.OtherEvent, name=names.map("later_{}".format), data=st.dictionaries(later, json_values, max_size=3)
    ),
}
