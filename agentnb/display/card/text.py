"""A run as plain text, for terminals, nbconvert and people who read the saved file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec.structs import replace

from agentnb.advice import AnswerRun, AnyAdvice, Commands, in_words
from agentnb.core.questions import AskedQuestion, by_call
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.card.replay_offer import replay_offer
from agentnb.display.card.workflow_card import workflow_lines
from agentnb.display.parts.begun_runs import begun_lines
from agentnb.display.parts.expectations import expectation_lines
from agentnb.display.parts.step_list import has_steps
from agentnb.display.texts import call_labels, labels, run_figures, states, todo_labels
from agentnb.display.texts.event_lines import AlsoHappened, without_steps
from agentnb.display.texts.notebook_commands import NOTEBOOK
from agentnb.display.texts.question_labels import closed_question_lines, question_lines, typed_answers
from agentnb.display.texts.round_notes import round_notes
from agentnb.display.texts.user_messages import USER, UserMessages

MIN_SECONDS = 0.1
"""Shortest call duration, in seconds, that is shown."""
ROUNDS_WHILE_RUNNING = 12
"""Number of rounds shown while a run is in progress; a finished run shows all."""
MARGIN = "     "
MAX_LINE_CHARACTERS = 110
"""Maximum characters of a line that shows a result."""
MAX_INNER = 20
"""Maximum lines for the calls that a tool made."""
MAX_PRINTED = 3
"""Maximum lines shown of a tool's output, counted from the end."""
MAX_OF_AN_ANSWER = 100_000


def run_text(run: Run, *, streaming: str = "", commands: Commands = NOTEBOOK) -> str:
    """Return the complete run: its state, its answer, then a few lines per round. ``commands``: the wording of advice
    for a surface.
    """
    lines = [head_line(run)]
    answer = labels.clean(labels.cut(states.shown_answer(run).strip(), MAX_OF_AN_ANSWER))
    lines += [answer, ""] if answer else []
    first = max(0, len(run.rounds) - ROUNDS_WHILE_RUNNING) if states.is_going_on(run) else 0
    if first:
        lines.append(labels.pluralize(first, "earlier round"))
    rounds = states.rounds_at_end(run)
    also = AlsoHappened(without_steps(run.events) if has_steps(run) else run.events)
    user_messages = UserMessages(run.events, USER if states.is_foreign(run) else "You")
    for run_round in rounds[first:]:
        with_text = not (answer and run_round is rounds[-1])
        lines += round_lines(
            run_round, run.settings, run.questions_of(run_round.index), with_text=with_text, also=also.during(run_round.index)
        )
        lines += user_message_lines(user_messages.during(run_round.index))
    if has_steps(run):
        lines += workflow_lines(run)
    if not rounds:
        lines += [f"{MARGIN}[{line}]" for line in also.during(0)]
        lines += user_message_lines(user_messages.during(0))
    if streaming:
        lines.append(f"     {labels.first_line(streaming, MAX_LINE_CHARACTERS)}")
    lines += [f"  {line}" for line in todo_labels.todo_lines(run)]
    lines += question_lines(run)
    if (step := states.live_answer(run)) is not None:
        lines += [in_words([step], commands), *_ready_answers(run, step, commands)]
    lines += [f"Note: {note}" for note in states.notes(run, commands)]
    if filled := states.filled_gaps(run):
        lines.append(f"Note: {filled}")
    lines += expectation_lines(run)
    if ending := states.ending(run, commands):
        lines.append(ending)
        lines += _ready_answers(run, states.next_step(run), commands)
    if (offer := replay_offer(run)) and (typed := in_words([offer], commands)):
        lines.append(typed)
    return "\n".join(lines).rstrip()


def _ready_answers(run: Run, step: AnyAdvice | None, commands: Commands) -> list[str]:
    """Return a command for each possible answer to an approval question."""
    if not isinstance(step, AnswerRun) or not run.waiting:
        return []
    answers = [replace(step, text=answer, lead="") for answer in typed_answers(run.waiting[0])]
    return [f"  {typed}" for command in answers if (typed := in_words([command], commands))]


def head_line(run: Run) -> str:
    """Return the state, outcome and figures: ``Done, reward 0: 3 rounds, 2 tool calls``."""
    chip = states.with_outcome(states.chip(run), run.assessment)
    return f"{chip}{' · ' if ':' in chip else ': '}{', '.join(run_figures.meta(run))}"


def round_lines(
    one: WorkflowRound,
    settings: Mapping[str, Any] | None = None,
    questions: Iterable[AskedQuestion] = (),
    *,
    with_text: bool = True,
    also: Iterable[str] = (),
) -> Iterator[str]:
    """Yield the lines of a round: the reply, its calls, the closed questions, and the lines ``also``.

    ``settings``: the run's settings.
    """
    asked = by_call(questions)
    number = f"{one.index + 1:>3}  "
    for line in round_notes(one, settings):
        if line.at_once:
            yield f"{number}[{line.text}]"
            number = MARGIN
    if with_text and one.text.strip():
        author = f"{one.reply.author}: " if one.reply is not None and one.reply.author else ""
        yield number + labels.first_line(author + one.text, MAX_LINE_CHARACTERS)
        number = MARGIN
    for record in one.records:
        about = asked.pop(record.call.id, ())
        yield number + call_line(call_labels.while_asking(record, about))
        number = MARGIN
        if record.inner:
            yield from inner_lines(record)
        yield from begun_lines(record.nested, "       ")
        if record.printed:
            yield from printed_lines(record)
        yield from _question_lines(about)
    yield from _question_lines(chain.from_iterable(asked.values()))
    for happened in also:
        yield f"{number}[{happened}]"
        number = MARGIN


def user_message_lines(messages: Iterable[str]) -> Iterator[str]:
    """Yield a line for each of the person's messages."""
    return (MARGIN + labels.first_line(text, MAX_LINE_CHARACTERS) for text in messages)


def inner_lines(record: CallRecord) -> Iterator[str]:
    """Yield a line for each of the most recent calls that the tool made."""
    calls = [call for _, call in with_inner(record.inner)]
    if len(calls) > MAX_INNER:
        yield f"       ↳ {len(calls) - MAX_INNER:,} earlier calls"
    for call in calls[-MAX_INNER:]:
        yield f"       ↳ {call_line(call)}"
        yield from begun_lines(call.nested, "         ")


def printed_lines(record: CallRecord) -> Iterator[str]:
    """Yield the last lines that the tool printed."""
    lines = record.printed.rstrip().split("\n")
    if len(lines) > MAX_PRINTED:
        yield f"       | {labels.pluralize(len(lines) - MAX_PRINTED, 'earlier line')} printed"
    for line in lines[-MAX_PRINTED:]:
        yield f"       | {labels.first_line(line, MAX_LINE_CHARACTERS)}".rstrip()


def _question_lines(questions: Iterable[AskedQuestion]) -> Iterator[str]:
    for question in questions:
        yield from (f"       {line}" for line in closed_question_lines(question, MAX_LINE_CHARACTERS))


def call_line(record: CallRecord) -> str:
    """Return a call and its outcome, on one line."""
    shown = f"{labels.clean(record.call.name)}({call_labels.arguments(record, 60)})"
    result = labels.first_line(record.result.text, MAX_LINE_CHARACTERS - 40) if record.result else ""
    took = f", {labels.duration(record.seconds)}" if record.seconds and record.seconds >= MIN_SECONDS else ""
    if record.progress is not None and not record.success:
        took += f", {call_labels.progress(record.progress)}"
    return f"{shown}  {call_labels.outcome(record)}{took}" + (f"  → {result}" if result else "")
