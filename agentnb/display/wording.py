"""The words a run is told in, for text and HTML alike."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from agentnb.core.guidance import CELLS, INTERVENTION, TODO_LIST, Followed, Guidance
from agentnb.core.messages import encodable
from agentnb.core.questions import choice_in_words, choices
from agentnb.core.rounds import CallRecord, Retry, WorkflowRound, is_blocked
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL, Todo, has_open, open_todos
from agentnb.core.usage import Usage

ENDS = {
    "todo_intervention_exhausted": "it was told again and again to go on with its todos, and did not",
    "workflow_mode_exhausted": "it was told again and again to go on, and only answered in words",
    "blocked": "all todos that are open are blocked",
    "refusal": "the model declined to answer",
}
"""Why a policy stopped a run, in words."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Terminal escapes and marks that turn the direction of text: nothing a model or tool says may steer a display."""

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
WHY_NOT_RUN = {
    "consecutive": "the same call again and again",
    "immediate_repeat": "the same call has just succeeded",
    "frequency": "the same call too often",
    "alternation": "the same two calls in turn",
    "batch": "the same calls as in the replies before",
}
"""Why a gate did not let a call run, by its rule."""
MARKS = {"running": "…", "ok": "✓", "failed": "✗", "stopped": "■", "blocked": "⊘"}
MOST_TODOS = 40
"""Todos of a list that are shown."""
MOST_EXPLAINED = 300
"""Characters of what a provider says about a refusal."""
TODO_MARKS = {"not-started": "○", "in-progress": "◐", "completed": "✓", "blocked": "⊘"}


def clean(text: str) -> str:
    """The text without control characters; lines and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", encodable(text).replace("\r\n", "\n"))


def cut(text: str, most: int) -> str:
    """At most so many characters, with the number of those left out."""
    return text if len(text) <= most else f"{text[:most].rstrip()} … ({len(text) - most:,} more characters)"


def first_line(text: str, most: int) -> str:
    """Its first words, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def chip(run: Run, *, hears: bool = False) -> str:
    """The state in a word or two; while a tool runs, its name. ``hears``: words of a reply are coming in."""
    if run.status == "running" and run.open_round is not None:
        open_calls = [record.call.name for record in run.open_round.records if record.result is None]
        if open_calls:
            return f"Executing {', '.join(dict.fromkeys(open_calls))}"
        return "Retrying" if run.open_round.retries and run.open_round.reply is None and not hears else "Thinking"
    if run.status == "waiting_on_user" and run.waiting:
        return "Waiting for you"
    if leaves_todos(run):
        return "Done, todos open"
    return CHIPS[run.status] if run.rounds or run.status != "running" else "Starting"


def question_lines(run: Run) -> list[str]:
    """What the person is asked, with the answers to choose from; of a run whose process died, what it was asked then."""
    asks = "It had asked" if run.status == "interrupted" else "It asks"
    return [f"{asks}: {clean(one.message)}{_choices(one.schema)}" for one in run.waiting]


def _choices(schema: dict[str, Any]) -> str:
    listed = ", ".join(map(choice_in_words, choices(schema)))
    return clean(f" ({first_line(listed, 200)})") if listed else ""


def leaves_todos(run: Run) -> bool:
    """Whether it came to an end of its own with todos open."""
    return run.status == "completed" and has_open(run.todos)


def notes(run: Run) -> list[str]:
    """What the person should know besides; the todos themselves stand in the list."""
    return [clean(warning.partition(":\n")[0]) for warning in run.warnings]


def told(run: Run) -> list[str]:
    """The notes, and how it ended if it did not simply come to its end."""
    return [note for note in (*notes(run), ending(run)) if note]


def meta(run: Run) -> list[str]:
    """What it took, a few words each."""
    calls = sum(len(one.records) for one in run.rounds)
    parts = [counted(count, noun) for count, noun in ((len(run.rounds), "round"), (calls, "tool call")) if count]
    if failed := failures(run):
        parts.append(f"{failed:,} failed")
    if run.todos:
        done = len(run.todos) - len(open_todos(run.todos))
        parts.append(f"{done} of {counted(len(run.todos), 'todo')}")
    if run.ended_at is not None:
        parts.append(duration(run.seconds))
    return [*parts, *tokens_and_cost(run.usage), clean(run.model)]


def failures(run: Run) -> int:
    """How many calls failed; those that the person's stop ended, or that were blocked, did not."""
    return sum(state(record) == "failed" for one in run.rounds for record in one.records)


def tokens_and_cost(usage: Usage) -> list[str]:
    """Tokens and money, as far as they are known."""
    parts = []
    if count := (usage.input or 0) + (usage.output or 0):
        parts.append(f"{'about ' if usage.estimated else ''}{thousands(count)} tokens")
    if usage.cost:
        parts.append(f"${usage.cost:.4f}")
    return parts


def counted(count: int, noun: str) -> str:
    """``3 rounds``, ``1 round``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def thousands(count: int) -> str:
    """``812``, ``8.4k``, ``1.2M``."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """``38 ms``, ``2.4 s``, ``3:07``."""
    if seconds < 0.0005:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


def arguments(record: CallRecord, most: int) -> str:
    """The arguments of a call on one line: ``name=JSON``; of the todo tool what it is to do: ``update 1 completed``."""
    if record.call.name == TODO_TOOL and (told := _todo_arguments(record.call.arguments)):
        return first_line(clean(told), most)
    given = record.call.arguments if isinstance(record.call.arguments, dict) else {"arguments": record.call.arguments}
    pairs = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in given.items())
    return first_line(clean(", ".join(pairs)), most)


def _todo_arguments(given: Any) -> str:
    """The operation and what it is about; empty where the arguments are none that the tool knows."""
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
    """running, ok, failed, blocked or stopped."""
    if record.result is None:
        return "running"
    if is_blocked(record):
        return "blocked"
    if record.result.error_code == "cancelled":
        return "stopped"
    return "failed" if record.result.is_error else "ok"


def outcome(record: CallRecord) -> str:
    """How a call stands, as a mark and in words: ``✓ ok``, ``⊘ not run: the same call again and again``."""
    kind = state(record)
    if kind == "blocked":
        return f"{MARKS[kind]} not run: {WHY_NOT_RUN.get(record.rule, 'it repeats itself')}"
    code = record.result.error_code if record.result is not None and kind == "failed" else None
    why = f": {clean(code).replace('_', ' ')}" if code not in (None, "tool_error") else ""
    return f"{MARKS[kind]} {kind}{why}"


def guidance_line(guidance: Guidance, followed: Followed | None) -> str:
    """What was said in passing, and what came of it: ``guidance todos_text, level 2: not followed (no tool was called)``."""
    level = f", level {guidance.level}" if guidance.level > 1 or guidance.cell == INTERVENTION else ""
    what = f"guidance {guidance.cell}" if guidance.cell in CELLS else guidance.cell.replace("_", " ")
    if followed is None or guidance.cell == TODO_LIST:
        return f"{what}{level}"
    state = {True: "followed", False: "not followed", None: "not known whether followed"}[followed.followed]
    return f"{what}{level}: {state} ({followed.why})"


class Aside(NamedTuple):
    """One thing that happened beside the reply of a round, for display."""

    text: str
    at_once: bool
    """Whether it should be seen without looking for it: interventions, what was not followed, failed attempts."""
    wrong: bool


def asides(one: WorkflowRound) -> list[Aside]:
    """A line for each thing that was said to the model for this round, and for each attempt to reach it that failed."""
    verdicts = (*one.followed, *[None] * (len(one.guidance) - len(one.followed)))
    lines = []
    for guidance, verdict in zip(one.guidance, verdicts, strict=True):
        ignored = verdict is not None and verdict.followed is False
        at_once = ignored or guidance.cell not in (*CELLS, TODO_LIST)
        lines.append(Aside(clean(guidance_line(guidance, verdict)), at_once, ignored))
    lines += [Aside(retry_line(retry), at_once=True, wrong=True) for retry in one.retries]
    return lines


def retry_line(retry: Retry) -> str:
    """An attempt to call the model that failed: ``attempt 1 failed, the next after 4.2 s: anthropic: too many requests``."""
    reason = first_line(clean(retry.reason), 300)
    if retry.attempt == 0:
        return f"waited {duration(retry.seconds)}: {reason}"
    return f"attempt {retry.attempt} failed, the next after {duration(retry.seconds)}: {reason}"


class ShownTodos(NamedTuple):
    """Of a list what is shown, and in words what stands before and after it; these are empty where nothing does."""

    before: str
    todos: tuple[Todo, ...]
    after: str


def shown_todos(todos: tuple[Todo, ...]) -> ShownTodos:
    """Of a long list the part around what is being done."""
    first = next((place for place, todo in enumerate(todos) if todo.status != "completed"), 0)
    start = max(0, min(first - MOST_TODOS // 2, len(todos) - MOST_TODOS))
    after = max(0, len(todos) - start - MOST_TODOS)
    return ShownTodos(
        f"{counted(start, 'todo')} before" if start else "",
        todos[start : start + MOST_TODOS],
        f"{counted(after, 'todo')} after" if after else "",
    )


def todo_lines(run: Run) -> list[str]:
    """The list, a line each."""
    before, shown, after = shown_todos(run.todos)
    return [line for line in (before, *map(todo_line, shown), after) if line]


def todo_line(todo: Todo) -> str:
    """A todo with its mark: ``◐ 2 Describe the table, in-progress``."""
    why = f" ({first_line(todo.blocked_reason, 100)})" if todo.status == "blocked" and todo.blocked_reason else ""
    return clean(f"{TODO_MARKS.get(todo.status, '○')} {todo.id} {first_line(todo.title, 100)}, {todo.status}{why}")


def ending(run: Run) -> str:
    """What the person should know about how it ended, and what to type next; empty when it simply was done."""
    if run.status == "limited" and run.limit is not None:
        return f"Stopped at {run.limit.limit} = {run.limit.value:g}. Go on with %%agent --continue"
    if run.status == "failed":
        return clean(str(run.error)) if run.error else "Failed"
    if run.status == "cancelled":
        return "Stopped by you. Everything it had is kept; go on with %%agent --continue"
    if run.status == "interrupted":
        return "Its process ended before the run did. What was logged is here"
    if run.status == "stopped":
        return clean(f"Stopped: {_why_stopped(run)}. Go on with %%agent --continue")
    return ""


def _why_stopped(run: Run) -> str:
    """In words, with what the provider says about it."""
    if run.stop_reason == "loop_detected" and run.loops:
        return run.loops[-1].sentence
    why = ENDS.get(run.stop_reason or "") or str(run.stop_reason)
    details = run.last_round.metadata.get("stop_details") if run.stop_reason == "refusal" and run.rounds else None
    told = [details.get(key) for key in ("category", "explanation")] if isinstance(details, dict) else []
    said = ": ".join(first_line(one, MOST_EXPLAINED).rstrip(".") for one in told if isinstance(one, str) and one.strip())
    return f"{why} ({said})" if said else why
