"""Stops that follow from the reply itself, and additional rounds that recover from an unusable reply.

Recovery is limited per kind of unusable reply. Consecutive rounds after such replies form a streak; the limit for a
kind, usually one round, applies to the entire streak, regardless of other kinds in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from agentnb.advice import StartAgain, TryAgain
from agentnb.core.run.rounds import ASKED_FOR_TOOLS, BY_SCHEMA, is_empty_answer
from agentnb.core.todos import has_open
from agentnb.detect.run import Run
from agentnb.guidance.prompts import prompt
from agentnb.policies.announced_calls import announced_call
from agentnb.policies.claimed_calls import claimed_call
from agentnb.policies.verdict import Continue, Stop

FindCall: TypeAlias = Callable[[str, Collection[str]], "str | None"]
"""Returns the named tool that the text seems to call, or None."""

CUT = frozenset({"max_tokens", "length", "max_output_tokens"})
"""Provider stop reasons of replies cut off by a token limit."""
OVER_LIMIT = "over_limit"
"""Stop reason of replies that agentnb cut off while streaming, because they far exceeded a limit of the run."""
NO_ROOM = frozenset({"model_context_window_exceeded", "model_length"})
"""Stop reasons of replies cut off because the conversation fills the context window."""
REFUSED = frozenset({"refusal", "content_filter"})
"""Provider stop reasons of replies refused by the model or a content filter."""
WHOLE = frozenset({"", "end_turn", "stop", "stop_sequence", "completed", "complete", "eos", "eos_token"})
"""Stop reasons of complete replies."""
PAUSED = "pause_turn"
"""Stop reason of a reply that the provider has paused and will continue in the next call."""

EMPTY_ANSWER, REPLY_CUT, CLAIMED_CALL, ANNOUNCED_CALL = "empty_answer", "reply_cut", "claimed_call", "announced_call"
MENDED = frozenset({EMPTY_ANSWER, REPLY_CUT, CLAIMED_CALL, ANNOUNCED_CALL, PAUSED})
"""Reasons for rounds after an unusable or paused reply."""
MAX_PAUSES = 3
"""Maximum consecutive continuations of a paused reply."""


def person_spoke(run: Run) -> Continue | None:
    """Continue if the model has not read a message from the person yet, regardless of the reply."""
    if not run.pending:
        return None
    return Continue("tool_results" if run.last_round.records else "said")


def natural_stop(run: Run) -> Stop | None:
    """Complete the run if the model answered without a tool call and no message from the person is pending.

    The presence of calls decides, not the provider's stop reason; irregularities in the answer become a warning.
    """
    if run.last_round.records or run.pending:
        return None
    # A stop has only one warning; that about open todos takes precedence.
    return Stop("natural", round_status="natural_completion", warning="" if has_open(run.todos) else "\n".join(_oddities(run)))


def refused(run: Run) -> Stop | None:
    """Stop if the model declined to answer."""
    last = run.last_round
    return Stop("refusal", "stopped") if not last.records and last.stop_reason in REFUSED else None


def no_call_came(run: Run) -> Stop | None:
    """Fail the run if the provider announced tool calls but the reply has neither calls nor text. A marker counts as text."""
    last = run.last_round
    if last.status != "unexpected_empty_tools" or last.signals:
        return None
    return Stop(
        "error",
        "failed",
        problem="The reply announced tool calls but contained none",
        hint=TryAgain(lead="Try again", rest=", or try another model"),
    )


def no_room(run: Run) -> Stop | None:
    """Fail the run if the context window cut off the answer before a complete call: continuing would only lengthen it."""
    last = run.last_round
    if last.records or last.stop_reason not in NO_ROOM:
        return None
    return Stop(
        "reply_cut",
        "failed",
        problem="The model's context window is full: the reply was cut off",
        hint=StartAgain(lead="Start again", rest=", or reduce the input; the partial reply is in run.text"),
    )


def reply_cut(run: Run) -> Continue | Stop | None:
    """Let the model finish, once, text that a token limit cut off before a complete call; otherwise fail the run.

    A reply cut off at a limit of the run is treated as valid: that limit stops the run, unless it was raised in the meantime.
    """
    last = run.last_round
    if last.stop_reason == OVER_LIMIT:
        return Continue(REPLY_CUT, prompt("reply_cut"))
    if last.records or last.stop_reason not in CUT:
        return None
    if last.text.strip() and not _attempts(run, REPLY_CUT):
        return Continue(REPLY_CUT, prompt("reply_cut"))
    return Stop(
        "reply_cut",
        "failed",
        problem="max tokens reached: the reply was cut off",
        hint="Raise the limit, provider:NAME?max_tokens=N, or ask for less at a time; the partial reply is in run.text",
    )


def paused(run: Run) -> Continue | Stop | None:
    """Continue a reply that the provider paused, at most `MAX_PAUSES` times in a row; then fail the run."""
    last = run.last_round
    if last.records or last.stop_reason != PAUSED:
        return None
    if _attempts(run, PAUSED) < MAX_PAUSES:
        return Continue(PAUSED)
    return Stop(
        "error",
        "failed",
        problem=f"The provider paused the reply {MAX_PAUSES + 1} times in a row ({PAUSED})",
        hint=TryAgain(lead="Try again", rest=", or ask for less at a time"),
    )


def empty_answer(run: Run) -> Continue | None:
    """Report an empty answer to the model, once.

    Takes precedence over open todos and workflow mode: a model that said nothing has not chosen text over work, and
    should not use up an intervention. After a second empty answer, these apply.
    """
    if not is_empty_answer(run.last_round) or _was_empty_before(run):
        return None
    return Continue(EMPTY_ANSWER, prompt("empty_answer"), round_status="premature_stop_nudge")


def two_empty_answers(run: Run) -> Stop | None:
    """Fail the run after two consecutive empty answers."""
    if not is_empty_answer(run.last_round) or not _was_empty_before(run):
        return None
    return Stop(
        "error",
        "failed",
        problem="The model gave two empty answers in a row",
        hint=TryAgain(lead="Try again", rest=", describe the task more precisely, or try another model"),
    )


def call_in_words(run: Run) -> Continue | None:
    """Report to the model, once, a call that it wrote as text. After that, such text counts as an answer."""
    return _notify_once(run, CLAIMED_CALL, claimed_call)


def call_announced(run: Run) -> Continue | None:
    """Report to the model, once, a call that it announced but did not make. After that, such text counts as an answer."""
    return _notify_once(run, ANNOUNCED_CALL, announced_call)


def _notify_once(run: Run, reason: str, find: FindCall) -> Continue | None:
    """Continue, once, with the prompt for this reason if the reply mentions a call that it does not make."""
    text, named = _search_text(run)
    tool = find(text, named) if named else None
    if tool is None or _attempts(run, reason):
        return None
    return Continue(reason, prompt(reason).replace("{{ tool }}", tool), round_status="narration_without_tool_call")


def _attempts(run: Run, reason: str) -> int:
    """Return the number of continuations for this reason in the current streak of rounds."""
    count = 0
    for round_ in reversed(run.rounds):
        if round_.reason not in MENDED:
            break
        count += round_.reason == reason
    return count


def _was_empty_before(run: Run) -> bool:
    """True if the last answer was empty and the person has not spoken since, or an earlier one in this streak was empty."""
    before = run.rounds[-2] if len(run.rounds) > 1 and run.last_round.reason != "said" else None
    return (before is not None and is_empty_answer(before)) or bool(_attempts(run, EMPTY_ANSWER))


def _search_text(run: Run) -> tuple[str, Collection[str]]:
    """Return the text of the reply to search for tool calls, and the tools that it may name.

    Only text-only replies are searched. Structured answers are not: they may resemble calls.
    """
    last = run.last_round
    if last.records or last.reply is None or last.metadata.get(BY_SCHEMA):
        return "", ()
    text = last.reply.text
    has_escapes = "\\" in text  # JSON may escape characters of a name
    named = {tool.name for tool in run.tools if has_escapes or tool.name in text}
    return (text, named) if named and run.output_schema is None else ("", ())


def _oddities(run: Run) -> Iterator[str]:
    """Yield warnings to the person about the answer."""
    why = run.last_round.stop_reason
    if why not in WHOLE and why not in ASKED_FOR_TOOLS:
        yield f"The reply ended for an unknown reason: {why[:80]!r}"
    text, named = _search_text(run)
    if not named:
        return
    name = claimed_call(text, named)
    if name is not None:
        yield f"The answer contains a call to {name} as text; the call was not run"
    name = announced_call(text, named)
    if name is not None:
        yield f"The answer announces a call to {name} that was not made"
