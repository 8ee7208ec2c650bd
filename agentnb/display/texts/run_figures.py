"""The figures of a run, in a few words each: rounds, calls, time, tokens and cost."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.run.inner_calls import outer_calls
from agentnb.core.run.rounds import CallRecord
from agentnb.core.todos import open_todos
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.detect.run_states import kind_of_counted_calls, state_of
from agentnb.display.texts.labels import (
    FIGURE_SPACE,
    amount,
    clean,
    count_of,
    dollars,
    duration,
    pluralize,
    short_id,
    thousands,
)
from agentnb.display.texts.states import has_ended, rounds_words, steps_words


def meta(run: Run) -> list[str]:
    """Return the validity of the output, rounds, calls, todos, time, usage and model, in a few words each."""
    parts = [*filter(None, [output_words(run)]), *work_words(run)]
    if run.failed_calls and kind_of_counted_calls(state_of(run)) != "failed":
        parts.append(f"{run.failed_calls:,} failed")
    if run.todos:
        done_count = len(run.todos) - len(open_todos(run.todos))
        parts.append(f"{done_count} of {pluralize(len(run.todos), 'todo')}")
    if has_ended(run) and run.seconds is not None:
        parts.append(duration(run.seconds))
    return [*parts, *usage_parts(run), *filter(None, [clean(run.model)])]


def work_words(run: Run) -> list[str]:
    """Return its rounds, steps and tool calls, in a few words each."""
    calls = call_words(run, *call_counts(outer_calls(run)), "tool call")
    return [part for part in (rounds_words(run), steps_words(run), calls) if part]


def call_counts(records: Iterable[CallRecord]) -> tuple[int, int]:
    """Return the number of calls to tools other than todo lists, and the number of todo updates."""
    roles = [record.role for record in records]
    updates = roles.count("list")
    return len(roles) - updates, updates


def call_words(run: Run, calls: int, updates: int, noun: str = "call") -> str:
    """Return a phrase such as ``4 calls and 6 todo updates``; calls that made plans are not counted."""
    if made := {plan.call_id for plan in run.plans.values()}:
        calls -= sum(record.call.id in made for record in outer_calls(run))
    return " and ".join([pluralize(count, name) for count, name in ((calls, noun), (updates, "todo update")) if count])


def output_words(run: Run) -> str:
    """Return ``output valid`` if the answer fits ``output=``, which is no check; otherwise an empty text."""
    is_valid = run.status == "completed" and run.output_schema is not None and run.plain_output is not None
    return "output valid" if is_valid else ""


def prompt_with_author(run: Run) -> str:
    """Return the prompt, preceded by its author's name, if known."""
    first = run.messages[run.inherited] if len(run.messages) > run.inherited else None
    return f"{first.author}: {run.prompt}" if first is not None and first.author else run.prompt


def source_of(run: Run) -> str:
    """Return the file name of a foreign run, or the end of the run's id otherwise."""
    return run.origin.file_name if run.origin else f"…{short_id(run.id)}"


def usage_parts(run: Run) -> list[str]:
    """Return tokens and cost if known, each with its limit if the run has one."""
    settings = run.settings
    most = amount(settings.get("max_tokens"))
    # The limit covers only the run's own calls.
    tokens = _tokens(run.usage if most is None else run.own_usage, most, grows=run.should_continue)
    return [part for part in (tokens, _cost(run, amount(settings.get("budget")))) if part]


def _tokens(usage: Usage, most: float | None, *, grows: bool) -> str:
    count = (usage.input or 0) + (usage.output or 0)
    prefix = "about " if usage.estimated else ""
    if most is not None:
        text = count_of(count, round(most))
        return f"{prefix}{text if grows else text.lstrip(FIGURE_SPACE)} tokens"
    return f"{prefix}{thousands(count)} tokens" if count else ""


def _cost(run: Run, budget: float | None) -> str:
    if budget is not None:
        return f"{'at least ' if run.cost is None else ''}${run.spent:.4f} of {dollars(budget)}"
    return f"${run.cost:.4f}" if run.cost else ""
