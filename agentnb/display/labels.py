"""The wording that describes a run, for text and HTML alike."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from agentnb.core.events import CompactionStarted, LimitReached, Progress, RetryScheduled
from agentnb.core.messages import ToolResult, encodable
from agentnb.core.rounds import (
    DENIED,
    INTERRUPTED,
    MAX_TOOL_CALLS,
    MAX_TOOL_CALLS_PER_TURN,
    CallRecord,
    WorkflowRound,
    is_blocked,
)
from agentnb.core.todos import TODO_TOOL, Todo, has_open, open_todos
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.policies.limits import LIMITS

ENDS = {
    "todo_intervention_exhausted": "it was told again and again to go on with its todos, and did not",
    "workflow_mode_exhausted": "it was told again and again to go on, and only answered in words",
    "blocked": "all todos that are open are blocked",
    "refusal": "the model declined to answer",
}
"""Why a policy stopped a run, in words."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Terminal escapes and bidirectional marks: no text of a model or tool may control a display."""

CHIPS = {
    "running": "Running",
    "waiting_on_user": "Paused",
    "completed": "Done",
    "limited": "Limit reached",
    "stopped": "Stopped",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
    "failed": "Failed",
}
COUNTED = {"max_rounds": "round", "max_tool_calls": "tool call", "max_tokens": "token"}
"""What some limits count."""
WHY_NOT_RUN = {
    "consecutive": "the same call again and again",
    "immediate_repeat": "the same call has just succeeded",
    "frequency": "the same call too often",
    "alternation": "the same two calls in turn",
    "batch": "the same calls as in the replies before",
    MAX_TOOL_CALLS: "the limit of tool calls was reached",
    MAX_TOOL_CALLS_PER_TURN: "the limit of tool calls since you last spoke was reached",
}
"""Why a gate blocked a call, by its rule."""
MARKS = {"running": "…", "waiting": "…", "ok": "✓", "failed": "✗", "stopped": "■", "interrupted": "■", "blocked": "⊘"}
MAX_TODOS = 40
"""Todos shown of a list."""
MAX_EXPLAINED = 300
"""Characters of a provider's explanation of a refusal."""
SHORT_ID = 8
"""Characters from the end of an id, enough to name a run for ``%agent load`` and ``%agent recover``."""
FIGURE_SPACE = "\N{FIGURE SPACE}"
TODO_MARKS = {"not-started": "○", "in-progress": "◐", "completed": "✓", "blocked": "⊘"}


def clean(text: str) -> str:
    """Replace control characters in the text; line breaks and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", encodable(text).replace("\r\n", "\n"))


def cut(text: str, most: int) -> str:
    """Return at most ``most`` characters, with the number of those left out."""
    return text if len(text) <= most else f"{text[:most].rstrip()} … ({len(text) - most:,} more characters)"


def first_line(text: str, most: int) -> str:
    """Return the first words of the text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def chip(run: Run, *, hears: bool = False) -> str:
    """Return the state in a word or two; while a tool runs, its name. ``hears``: a reply is streaming."""
    if run.status == "running" and run.open_round is not None:
        return _doing(run, run.open_round, hears)
    if run.status == "waiting_on_user" and run.waiting:
        return "Waiting for you"
    if leaves_todos(run):
        return "Done, todos open"
    if run.status == "limited" and run.limit is not None:
        return f"Stopped {limit_told(run.limit)}"
    return CHIPS[run.status] if run.rounds or run.status != "running" else "Starting"


def _doing(run: Run, current: WorkflowRound, hears: bool) -> str:
    open_calls = [record.call.name for record in current.records if record.result is None]
    if open_calls:
        return f"Executing {', '.join(dict.fromkeys(open_calls))}"
    if is_compacting(current) and not isinstance(run.events[-1], RetryScheduled):
        return f"Summing up {counted(_being_replaced(run), 'message')}"
    return "Retrying" if current.retries and current.reply is None and not hears else "Thinking"


def is_compacting(one: WorkflowRound) -> bool:
    """Return whether this round is writing a summary of the conversation."""
    return bool(one.compactions) and one.compactions[-1].compacted is None


def _being_replaced(run: Run) -> int:
    """Return how many messages the summary in progress will replace."""
    return next((event.messages for event in reversed(run.events) if isinstance(event, CompactionStarted)), 0)


def shown_answer(run: Run) -> str:
    """Return the answer, including a final answer at a limit; empty if there is none."""
    return run.text if run.is_answered else ""


def as_left(run: Run) -> list[WorkflowRound]:
    """Return the rounds; calls left without a result because the process died are interrupted."""
    rounds = list(run.rounds)
    if run.status == "interrupted" and rounds:
        whole = tuple([one for one in rounds[-1].compactions if one.compacted is not None])
        records = tuple([_cut_off(record) for record in rounds[-1].records])
        rounds[-1] = replace(rounds[-1], records=records, compactions=whole)
    return rounds


def _cut_off(record: CallRecord) -> CallRecord:
    if record.result is not None:
        return record
    return replace(record, result=ToolResult(record.call.id, record.call.name, (), is_error=True, error_code=INTERRUPTED))


def leaves_todos(run: Run) -> bool:
    """Return whether the run completed with todos open."""
    return run.status == "completed" and has_open(run.todos)


def notes(run: Run) -> list[str]:
    """Return the warnings to the person, without the todos, which are in the list."""
    return [clean(warning.partition(":\n")[0]) for warning in run.warnings]


def told(run: Run) -> list[str]:
    """Return the notes, and how the run ended unless it simply completed."""
    return [note for note in (*notes(run), ending(run)) if note]


def meta(run: Run) -> list[str]:
    """Return rounds, calls, todos, time, usage and model, a few words each."""
    calls = sum(len(one.records) for one in run.rounds)
    parts = [counted(count, noun) for count, noun in ((len(run.rounds), "round"), (calls, "tool call")) if count]
    if failed := failed_calls(run):
        parts.append(f"{failed:,} failed")
    if run.todos:
        done = len(run.todos) - len(open_todos(run.todos))
        parts.append(f"{done} of {counted(len(run.todos), 'todo')}")
    if has_ended(run) and run.seconds is not None:
        parts.append(duration(run.seconds))
    return [*parts, *used(run), *filter(None, [clean(run.model)])]


def asked(run: Run) -> str:
    """Return the prompt, behind the name of its author if it has one."""
    first = run.messages[run.inherited] if len(run.messages) > run.inherited else None
    return f"{first.author}: {run.prompt}" if first is not None and first.author else run.prompt


def has_ended(run: Run) -> bool:
    """Return whether the run has its end; an interrupted one has none."""
    return not run.should_continue and run.status != "interrupted"


def is_going_on(run: Run) -> bool:
    """Return whether a process works on the run: it has no end, and is not suspended."""
    return run.should_continue and not run.is_suspended


def failed_calls(run: Run) -> int:
    """Return how many calls failed; calls that were blocked, or that the person stopped, did not fail."""
    return sum(state(record) == "failed" for one in run.rounds for record in one.records)


def used(run: Run) -> list[str]:
    """Return tokens and cost, as far as they are known, each with its limit if the run has one."""
    settings = run.settings
    tokens = _tokens(run.usage, amount(settings.get("max_tokens")), grows=run.should_continue)
    return [part for part in (tokens, _cost(run, amount(settings.get("budget")))) if part]


def _tokens(usage: Usage, most: float | None, *, grows: bool) -> str:
    count = (usage.input or 0) + (usage.output or 0)
    about = "about " if usage.estimated else ""
    if most is not None:
        told = count_of(count, round(most))
        return f"{about}{told if grows else told.lstrip(FIGURE_SPACE)} tokens"
    return f"{about}{thousands(count)} tokens" if count else ""


def _cost(run: Run, budget: float | None) -> str:
    if budget is not None:
        return f"{'at least ' if run.cost is None else ''}${run.spent:.4f} of {dollars(budget)}"
    return f"${run.cost:.4f}" if run.cost else ""


def count_of(count: int, most: int) -> str:
    """Return `` 8.4k of 20k``: in the unit of the limit, and of constant width, because the count grows while it is shown."""
    limit = thousands(most)
    now = {"k": f"{count / 1_000:.1f}k", "M": f"{count / 1_000_000:.1f}M"}.get(limit[-1], str(count))
    return f"{now.rjust(len(limit), FIGURE_SPACE)} of {limit.replace('.0', '')}"


def dollars(value: float) -> str:
    """Return ``$0.50``, ``$5.00``, ``$0.0025``: two decimals, or as many as the value has."""
    exact = f"{value:.6f}".rstrip("0")
    return "$" + (exact if len(exact.partition(".")[2]) > 2 else f"{value:.2f}")


def amount(value: Any) -> float | None:
    """Return a limit from the settings of a log; None if the value is not one."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def counted(count: int, noun: str) -> str:
    """Return ``3 rounds``, ``1 round``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def times(count: int) -> str:
    """Return ``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def thousands(count: int) -> str:
    """Return ``812``, ``8.4k``, ``1.2M``."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """Return ``38 ms``, ``2.4 s``, ``3:07``."""
    if seconds < 0.0005:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


def arguments(record: CallRecord, most: int) -> str:
    """Return the arguments of a call on one line: ``name=JSON``; for the todo tool, its operation: ``update 1 completed``."""
    if record.call.name == TODO_TOOL and (told := _todo_arguments(record.call.arguments)):
        return first_line(clean(told), most)
    given = record.call.arguments if isinstance(record.call.arguments, dict) else {"arguments": record.call.arguments}
    pairs = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in given.items())
    return first_line(clean(", ".join(pairs)), most)


def _todo_arguments(given: Any) -> str:
    """Return the operation and its todos; empty if the tool does not know the arguments."""
    if not isinstance(given, dict):
        return ""
    operation = given.get("operation")
    updates = given.get("todoUpdates")
    if operation == "update" and isinstance(updates, list) and all(isinstance(one, dict) for one in updates):
        return "update " + ", ".join(f"{one.get('id')} {one.get('status', 'changed')}" for one in updates)
    items = given.get({"write": "todoList", "add": "newTodos"}.get(str(operation), ""))
    if isinstance(items, list):
        return f"{operation} {counted(len(items), 'todo')}"
    return "read" if operation == "read" else ""


def state(record: CallRecord) -> str:
    """Return the state of a call: running, waiting (for approval), ok, failed, blocked, stopped or interrupted."""
    if record.result is None:
        return "waiting" if record.waits else "running"
    code = record.result.error_code
    if is_blocked(record) or code in (MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN, DENIED):
        return "blocked"
    if code in ("cancelled", INTERRUPTED):
        return "stopped" if code == "cancelled" else "interrupted"
    return "failed" if record.result.is_error else "ok"


def progress(one: Progress) -> str:
    """Return how far a call has come: ``3 of 10: reading``."""
    count = _count(one.done) if one.total is None else f"{_count(one.done)} of {_count(one.total)}"
    return f"{count}: {clean(one.text)}" if one.text else count


def _count(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.4g}"


def outcome(record: CallRecord) -> str:
    """Return the state of a call, as a mark and in words: ``✓ ok``, ``⊘ not run: the same call again and again``."""
    kind = state(record)
    if kind == "interrupted":
        return f"{MARKS[kind]} interrupted: the process died"
    if kind == "waiting":
        return f"{MARKS[kind]} waiting for your approval"
    if kind == "blocked":
        why = "it was denied" if record.result is not None and record.result.error_code == DENIED else "it repeats itself"
        return f"{MARKS[kind]} not run: {WHY_NOT_RUN.get(record.rule, why)}"
    code = record.result.error_code if record.result is not None and kind == "failed" else None
    why = f": {clean(code).replace('_', ' ')}" if code not in (None, "tool_error") else ""
    return f"{MARKS[kind]} {kind}{why}"


class ShownTodos(NamedTuple):
    """The todos shown of a list, and in words how many come before and after them (empty if none)."""

    before: str
    todos: tuple[Todo, ...]
    after: str


def shown_todos(todos: tuple[Todo, ...]) -> ShownTodos:
    """Return the part of a long list around the first todo that is not completed."""
    first = next((place for place, todo in enumerate(todos) if todo.status != "completed"), 0)
    start = max(0, min(first - MAX_TODOS // 2, len(todos) - MAX_TODOS))
    after = max(0, len(todos) - start - MAX_TODOS)
    return ShownTodos(
        f"{counted(start, 'todo')} before" if start else "",
        todos[start : start + MAX_TODOS],
        f"{counted(after, 'todo')} after" if after else "",
    )


def todo_lines(run: Run) -> list[str]:
    """Return the list, one line per todo."""
    before, shown, after = shown_todos(run.todos)
    return [line for line in (before, *map(todo_line, shown), after) if line]


def todo_line(todo: Todo) -> str:
    """Return a todo with its mark: ``◐ 2 Describe the table, in-progress``."""
    why = f" ({first_line(todo.blocked_reason, 100)})" if todo.status == "blocked" and todo.blocked_reason else ""
    return clean(f"{TODO_MARKS.get(todo.status, '○')} {todo.id} {first_line(todo.title, 100)}, {todo.status}{why}")


def ending(run: Run) -> str:
    """Return how the run ended or was suspended, and what to type next; empty if it simply completed."""
    if run.status == "limited" and run.limit is not None:
        has = ", and answered with what it had" if shown_answer(run) else ". All that it did is kept"
        return f"Stopped {limit_told(run.limit)}{_who_else(run)}{has}. {_how_to_go_on(run.limit)}"
    if run.status == "failed":
        return clean(str(run.error)) if run.error else "Failed"
    if run.status == "cancelled":
        return "Stopped by you. Everything it had is kept; go on with %%agent --continue"
    if run.status == "interrupted":
        return clean(f"Its process ended before the run did. What was logged is here; go on: %agent recover {short_id(run.id)}")
    if run.status == "stopped":
        return clean(f"Stopped: {_why_stopped(run)}. Go on with %%agent --continue")
    return _how_to_answer(run) if run.is_suspended else ""


def _how_to_answer(run: Run) -> str:
    which = f"{run.waiting[0].id} " if len(run.waiting) > 1 else ""
    return clean(f"Suspended until you answer: %agent answer {short_id(run.id)} {which}TEXT")


def limit_told(limit: LimitReached) -> str:
    """Return the limit, as a phrase that follows a verb: ``after 50 rounds``, ``at its budget of $0.50``."""
    name, value = limit.limit, limit.value
    if name in COUNTED:
        return f"after {counted(round(value), COUNTED[name])}"
    if name == "max_tool_calls_per_turn":
        return f"after {counted(round(value), 'tool call')} since you last spoke"
    if name == "max_seconds":
        return f"after {value:g} s" if value < 600 else f"after {value / 60:g} minutes"
    if name == "budget":
        return f"at its budget of {dollars(value)}"
    if name == "session_budget":
        return f"at the session's budget of {dollars(value)}"
    return clean(f"at {first_line(name, 60)} = {value:g}")


def _who_else(run: Run) -> str:
    """Return a note if nested runs spent part of the run's budget; else empty."""
    limit = run.limit
    shared = limit is not None and limit.limit == "budget" and run.spent < limit.value
    return " (runs that its tools began were paid of it too)" if shared else ""


def _how_to_go_on(limit: LimitReached) -> str:
    """Return what to type, with twice the limit that was reached; the count of calls per turn restarts by itself."""
    more = f"{limit.value * 2:g}"
    if limit.limit == "session_budget":
        return f"Go on: %agent defaults session-budget={more}, then %%agent --continue"
    known = LIMITS.get(limit.limit)
    may_be_more = known is not None and known.name != MAX_TOOL_CALLS_PER_TURN and limit.value * 2 <= known.maximum
    raised = f" {known.option} {more}" if known is not None and may_be_more else ""
    return f"Go on: %%agent --continue{raised}"


def short_id(run_id: str) -> str:
    """Return the end of an id, which commands accept for a run."""
    return run_id[-SHORT_ID:]


def _why_stopped(run: Run) -> str:
    """Return why the run stopped, in words, with the provider's explanation."""
    if run.stop_reason == "loop_detected" and run.loops:
        return run.loops[-1].sentence
    why = ENDS.get(run.stop_reason or "") or str(run.stop_reason)
    details = run.last_round.metadata.get("stop_details") if run.stop_reason == "refusal" and run.rounds else None
    told = [details.get(key) for key in ("category", "explanation")] if isinstance(details, dict) else []
    details_told = ": ".join(first_line(one, MAX_EXPLAINED).rstrip(".") for one in told if isinstance(one, str) and one.strip())
    return f"{why} ({details_told})" if details_told else why
