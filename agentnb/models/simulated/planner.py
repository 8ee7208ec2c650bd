"""The simulated model's next move when no fault applies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from agentnb.core.messages import ToolCall, ToolResult, pluralize
from agentnb.core.request import ToolSpec
from agentnb.core.todos import TODO_TOOL
from agentnb.models.simulated.observation import Observation, failure_word
from agentnb.models.simulated.personas import OPEN_TODOS, says
from agentnb.models.simulated.plan_parser import Entry, calls_of, short_title

MAX_OF_A_RESULT = 400
"""Maximum number of characters of a result that an answer repeats."""
COMPLETE = "[WORKFLOW_COMPLETE]"
"""Marker added to an answer when the reminder mentions it."""
READ = ToolCall(TODO_TOOL, {"operation": "read"})
FAILURE_LOOP = "failure loop"
"""Words in a reminder that make the model stop rather than call the failing tool once more."""

Kind: TypeAlias = Literal["list", "step", "close", "review", "answer", "introduction", "talk", "again", "planning"]
Marks: TypeAlias = Literal["none", "last", "all"]
"""Choice of the finished steps whose todos are marked completed before the next step."""


Mark: TypeAlias = tuple[Entry, str, str]
"""A todo, its new status, and the reason if it is blocked."""


class Move(NamedTuple):
    """The text and the tool calls of one reply."""

    kind: Kind
    text: str
    calls: tuple[ToolCall, ...] = ()


def next_move(observation: Observation, marks: Marks = "last") -> Move:
    """Return the right move for this observation."""
    if (result := observation.plan_result) is not None:
        return Move("answer", plan_report(result))
    if observation.list_due:
        return _list(observation)
    if observation.next_step is not None and not _gives_up(observation):
        return step_move(observation, observation.next_step, marks)
    if observation.plan and not observation.answered:
        return _close(observation) or Move("answer", last_words(observation))
    if observation.has_todos and (
        observation.unmarked or _list_seen(observation) is not None or says(observation.reminder, OPEN_TODOS)
    ):
        return _review(observation)
    is_complete = COMPLETE.lower() in observation.reminder
    return Move("answer", last_words(observation)) if is_complete else Move("introduction", introduction(observation.tools))


def _gives_up(observation: Observation) -> bool:
    """Return whether the reminder warns of a failure loop that the next step would continue, and there is no todo list."""
    assert observation.next_step is not None, "there is a step to give up"
    names = {call.name for call in observation.steps[observation.next_step].calls}
    failed = observation.made and observation.failed.get(observation.made[-1], "").partition(" ")[0]
    return FAILURE_LOOP in observation.reminder and not observation.has_todos and failed in names


def step_move(observation: Observation, place: int, marks: Marks) -> Move:
    """Return the calls of one step, preceded by an update of the todo list if any todo is to be marked."""
    step = observation.steps[place]
    finished = {"none": [], "last": _of_last_step(observation), "all": observation.unmarked}[marks]
    entries = [_final_mark(observation, entry) for entry in finished if entry != observation.own.get(place)]
    if place in observation.own:
        entries.append((observation.own[place], "in-progress", ""))
    updates = (_update(entries),) if entries else ()
    # Copies: the plan is cached, and a tool may change its arguments.
    calls = [replace(call, arguments=deepcopy(call.arguments)) if call.arguments else call for call in step.calls]
    return Move("step", f"Step {place + 1} of {len(observation.steps)}: {step.title}.", (*updates, *calls))


def todo_call(operation: str, **what: Any) -> ToolCall:
    """Return a call to the todo tool."""
    return ToolCall(TODO_TOOL, {"operation": operation, **what})


def last_words(observation: Observation) -> str:
    """Return the answer, a short one if it has already answered and done nothing since."""
    if observation.plan and not observation.steps and not observation.odd:
        text = listless(len(observation.plan), observation.tools)
    elif not observation.steps and not observation.odd:
        text = "Done: there is no list to follow."
    elif observation.answered:
        text = f"Done: {pluralize(len(observation.made), 'step')}, as reported above."
    else:
        text = report(
            len(observation.made), len(observation.failed), observation.results, observation.left_out, observation.tools
        )
    return f"{text}\n\n{COMPLETE}" if COMPLETE.lower() in observation.reminder else text


def _of_last_step(observation: Observation) -> list[Entry]:
    last = observation.own.get(observation.made[-1]) if observation.made else None
    return [last] if last is not None and last.is_open else []


def _list(observation: Observation) -> Move:
    """Add the steps as todos; append them if the list already has entries."""
    titles = [short_title(step.title) for index, step in enumerate(observation.steps) if index not in observation.own]
    text = f"First I write down what there is to do, {pluralize(len(titles), 'step')}."
    if observation.board or observation.attempts_at_list:
        return Move("list", text, (todo_call("add", newTodos=[{"title": title} for title in titles]),))
    todos = [{"id": index + 1, "title": title, "status": "not-started"} for index, title in enumerate(titles)]
    return Move("list", text, (todo_call("write", todoList=todos),))


def _close(observation: Observation) -> Move | None:
    calls = _close_finished(observation, observation.unmarked)
    if not calls or observation.has_asked(calls[-1]):
        return None
    done = "No step is left" if observation.failed else "Every step is done"
    return Move("close", f"{done}; I update the todos that are still open.", calls)


def _review(observation: Observation) -> Move:
    """Handle todos still open after the answer: close finished ones; otherwise read the list and continue from there."""
    seen = _list_seen(observation)
    if seen is None and not observation.unmarked:
        return Move("review", "I read the list again to see what is left.", (READ,))
    open_entries = [entry for entry in (observation.unmarked if seen is None else seen) if entry.is_open]
    finished = [entry for entry in open_entries if _is_finished(observation, entry)]
    others = [entry for entry in open_entries if entry not in finished and entry.status != "blocked"]
    able = [entry for entry in others if calls_of(entry.as_item(), observation.arguments)]
    why = f"I have no tool for it, only {_names(observation.tools)}"
    more = [(entry, "blocked", why) for entry in others if entry not in able]
    begun = [(entry, "in-progress", "") for entry in able[:1] if entry.status != "in-progress"]
    marks = _close_finished(observation, finished, [*more, *begun])
    work = [call for entry in able[:1] for call in calls_of(entry.as_item(), observation.arguments)]
    if work or (marks and not observation.has_asked(marks[-1])):
        text = f"Todo {able[0].id}: {short_title(able[0].words)}" if able else "I close the todos that are still open."
        return Move("review", text, (*marks, *work))
    return Move("answer", _after_review(observation, open_entries))


def _list_seen(observation: Observation) -> tuple[Entry, ...] | None:
    """Return the list as seen since its last text-only reply, or as seen earlier if reading it was blocked."""
    return observation.board if observation.fresh_board is None and observation.has_asked(READ) else observation.fresh_board


def _is_finished(observation: Observation, entry: Entry) -> bool:
    """Return whether the work of this todo is done."""
    mine = {todo.id for todo in observation.unmarked}
    return entry.id in mine | observation.todos_worked_on or not entry.titles.isdisjoint(observation.titles_done)


def _after_review(observation: Observation, left: Sequence[Entry]) -> str:
    if not left:
        return last_words(observation) if observation.made else "Done: nothing is left on the list."
    numbers = ", ".join(str(entry.id) for entry in left)
    return f"Done, except for {'todo' if len(left) == 1 else 'todos'} {numbers}: I cannot do what is blocked."


def _close_finished(observation: Observation, finished: Sequence[Entry], more: Iterable[Mark] = ()) -> tuple[ToolCall, ...]:
    """Return the calls that mark finished todos completed, via in-progress if needed, and ``more`` todos as specified."""
    ended = [_final_mark(observation, entry) for entry in finished]
    started: list[Mark] = [
        (entry, "in-progress", "") for entry, status, _ in ended if status == "completed" and entry.status != "in-progress"
    ]
    return tuple(_update(entries) for entries in (started, [*ended, *more]) if entries)


def _final_mark(observation: Observation, entry: Entry) -> Mark:
    """Return the mark for the todo of a step that was made: completed, or blocked if all its calls failed."""
    why = observation.why_failed(entry)
    return (entry, "blocked", why) if why else (entry, "completed", "")


def _update(marks: Iterable[Mark]) -> ToolCall:
    updates = [{"id": entry.id, "status": status} | ({"blockedReason": why} if why else {}) for entry, status, why in marks]
    return todo_call("update", todoUpdates=updates)


def introduction(tools: Iterable[ToolSpec]) -> str:
    """Return the answer to a prompt without a list."""
    return (
        "I am agentnb's simulated model, not a language model, and nothing leaves this machine. "
        "I follow a list: write one item per step, with the call in backticks and literal arguments, for example "
        '- Load the table with `load("data.csv")`. '
        f"My tools: {_names(tools)}. "
        "To use a language model, set the key of its provider and name the model: anthropic:NAME. "
        "A server on your own machine needs no key: ollama:NAME."
    )


def plan_report(result: Mapping[str, Any]) -> str:
    """Return the outcome of a plan that the person approved."""
    insights = result.get("insights")
    lines = [f"The plan {result['plan_id']}: {result['summary']}", *(insights if isinstance(insights, list) else ())]
    return "\n\n".join(str(line)[:MAX_OF_A_RESULT] for line in lines)


def listless(items: int, tools: Iterable[ToolSpec]) -> str:
    """Return the answer to a list whose items contain no calls of these tools."""
    which = "1 item, which contains no call" if items == 1 else f"{items} items, none of which contains a call"
    return f"The list has {which} in backticks of one of my tools ({_names(tools)})."


def _names(tools: Iterable[ToolSpec]) -> str:
    return ", ".join(f"`{tool.name}`" for tool in tools) or "none"


def report(steps: int, failed: int, results: Sequence[ToolResult], left_out: Sequence[str], tools: Iterable[ToolSpec]) -> str:
    """Return the final answer: the number of steps, the tools' results, and the items left out."""
    which = f" ({failed} {failure_word(results).removeprefix('was ')})" if failed else ""
    lines = [f"Done: {pluralize(steps, 'step')}{which}, {pluralize(len(results), 'tool call')}."]
    names = [f"{result.name} {failure_word([result])}" if result.is_error else result.name for result in results]
    lines += [f"{name}:{_as_markdown(_short(result))}" for name, result in zip(names, results, strict=True)]
    if left_out:
        why = f"Left out, because it is not a call of one of my tools ({_names(tools)}) with literal arguments:"
        lines += [why, "\n".join(f"- {item}" for item in left_out)]
    return "\n\n".join(lines)


def _as_markdown(text: str) -> str:
    """Return a result as Markdown that follows its tool's name; text of several lines becomes a code fence."""
    if "\n" not in text:
        return f" {text}"
    fence = "```" if "```" not in text else "~~~~~~"
    return f"\n\n{fence}\n{text}\n{fence}"


def _short(result: ToolResult) -> str:
    text = result.text.strip()
    return text if len(text) <= MAX_OF_A_RESULT else text[:MAX_OF_A_RESULT].rstrip() + " …"
