"""Stops that follow from the reply itself, and further rounds that mend an unusable reply.

Each kind of unusable reply is mended a limited number of times. Consecutive rounds that follow such replies form a row; the
limit of a kind, usually once, holds for the whole row, whatever other kinds come between.
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
"""Returns which of the named tools a text speaks of as if it called it."""

CUT = frozenset({"max_tokens", "length", "max_output_tokens"})
"""Providers' stop reasons for a reply that was cut off by a token limit."""
OVER_LIMIT = "over_limit"
"""Stop reason of a reply that agentnb cut off while it streamed, because it went far over a limit of the run."""
NO_ROOM = frozenset({"model_context_window_exceeded", "model_length"})
"""Stop reasons for a reply that was cut off because the conversation fills the model's context window."""
REFUSED = frozenset({"refusal", "content_filter"})
"""Providers' stop reasons for a reply that the model, or a filter in front of it, refused."""
WHOLE = frozenset({"", "end_turn", "stop", "stop_sequence", "completed", "complete", "eos", "eos_token"})
"""Stop reasons for a complete reply."""
PAUSED = "pause_turn"
"""The stop reason of a reply that the provider has paused, and continues when called again."""

EMPTY_ANSWER, REPLY_CUT, CLAIMED_CALL, ANNOUNCED_CALL = "empty_answer", "reply_cut", "claimed_call", "announced_call"
MENDED = frozenset({EMPTY_ANSWER, REPLY_CUT, CLAIMED_CALL, ANNOUNCED_CALL, PAUSED})
"""Reasons of rounds that follow an unusable or paused reply."""
MAX_PAUSES = 3
"""Times in a row that a paused reply is continued."""


def person_spoke(run: Run) -> Continue | None:
    """Continue if the person has said something that the model has not read yet, whatever the model was about to do."""
    if not run.pending:
        return None
    return Continue("tool_results" if run.last_round.records else "said")


def natural_stop(run: Run) -> Stop | None:
    """Complete the run if the model answered without a tool call and the person has said nothing more.

    The presence of calls decides, not the provider's stop reason; oddities of the answer become a warning.
    """
    if run.last_round.records or run.pending:
        return None
    # A stop has one warning, and the one about open todos comes first.
    return Stop("natural", round_status="natural_completion", warning="" if has_open(run.todos) else "\n".join(_oddities(run)))


def refused(run: Run) -> Stop | None:
    """Stop if the model declined to answer."""
    last = run.last_round
    return Stop("refusal", "stopped") if not last.records and last.stop_reason in REFUSED else None


def no_call_came(run: Run) -> Stop | None:
    """Fail the run if the provider announced tool calls but the reply holds neither call nor text; a marker counts as text."""
    last = run.last_round
    if last.status != "unexpected_empty_tools" or last.signals:
        return None
    return Stop(
        "error",
        "failed",
        problem="The reply announced tool calls and held none",
        hint=TryAgain(lead="Try again", rest=", or try another model"),
    )


def no_room(run: Run) -> Stop | None:
    """Fail the run if the context window cut the answer off before any whole call: continuing would only make it longer."""
    last = run.last_round
    if last.records or last.stop_reason not in NO_ROOM:
        return None
    return Stop(
        "reply_cut",
        "failed",
        problem="The context window of the model is full: the reply was cut off",
        hint=StartAgain(lead="Start again", rest=", or give it less to read; the part that came is in run.text"),
    )


def reply_cut(run: Run) -> Continue | Stop | None:
    """Let the model finish a text that a token limit cut off before any whole call, once; otherwise fail the run.

    A reply that was cut off at a limit of the run is as good as any: that limit stops the run, unless it was raised meanwhile.
    """
    last = run.last_round
    if last.stop_reason == OVER_LIMIT:
        return Continue(REPLY_CUT, prompt("reply_cut"))
    if last.records or last.stop_reason not in CUT:
        return None
    if last.text.strip() and not _tried(run, REPLY_CUT):
        return Continue(REPLY_CUT, prompt("reply_cut"))
    return Stop(
        "reply_cut",
        "failed",
        problem="max tokens reached: the reply was cut off",
        hint="Raise the limit, provider:NAME?max_tokens=N, or ask for less at once; the part that came is in run.text",
    )


def paused(run: Run) -> Continue | Stop | None:
    """Continue a reply that the provider paused, at most `MAX_PAUSES` times in a row; then fail the run."""
    last = run.last_round
    if last.records or last.stop_reason != PAUSED:
        return None
    if _tried(run, PAUSED) < MAX_PAUSES:
        return Continue(PAUSED)
    return Stop(
        "error",
        "failed",
        problem=f"The provider paused the reply {MAX_PAUSES + 1} times in a row ({PAUSED})",
        hint=TryAgain(lead="Try again", rest=", or ask for less at once"),
    )


def empty_answer(run: Run) -> Continue | None:
    """Tell the model, once, that its answer was empty.

    This comes before open todos and workflow mode: a model that said nothing has not chosen text over work, and should not use
    up an intervention. If its next answer is empty too, they take their turn.
    """
    if not is_empty_answer(run.last_round) or _was_empty_before(run):
        return None
    return Continue(EMPTY_ANSWER, prompt("empty_answer"), round_status="premature_stop_nudge")


def two_empty_answers(run: Run) -> Stop | None:
    """Fail the run at the second empty answer in a row."""
    if not is_empty_answer(run.last_round) or not _was_empty_before(run):
        return None
    return Stop(
        "error",
        "failed",
        problem="The model gave two empty answers in a row",
        hint=TryAgain(lead="Try again", rest=", say more exactly what is to be done, or try another model"),
    )


def call_in_words(run: Run) -> Continue | None:
    """Tell the model, once, that the call it wrote as text was not run. After that, such a text is an answer."""
    return _told_once(run, CLAIMED_CALL, claimed_call)


def call_announced(run: Run) -> Continue | None:
    """Tell the model, once, that it announced a call and made none. After that, such a text is an answer."""
    return _told_once(run, ANNOUNCED_CALL, announced_call)


def _told_once(run: Run, reason: str, find: FindCall) -> Continue | None:
    """Continue for this reason, once, with the prompt of that name, if the reply has no call of a tool that it speaks of."""
    text, named = _searched(run)
    tool = find(text, named) if named else None
    if tool is None or _tried(run, reason):
        return None
    return Continue(reason, prompt(reason).replace("{{ tool }}", tool), round_status="narration_without_tool_call")


def _tried(run: Run, reason: str) -> int:
    """Return how often the current row of rounds was continued for this reason."""
    count = 0
    for round_ in reversed(run.rounds):
        if round_.reason not in MENDED:
            break
        count += round_.reason == reason
    return count


def _was_empty_before(run: Run) -> bool:
    """Return whether the last answer was empty and the person has not spoken since, or an earlier one of this row was empty."""
    before = run.rounds[-2] if len(run.rounds) > 1 and run.last_round.reason != "said" else None
    return (before is not None and is_empty_answer(before)) or bool(_tried(run, EMPTY_ANSWER))


def _searched(run: Run) -> tuple[str, Collection[str]]:
    """Return the text of the reply in which calls of tools are looked for, and the tools that it may name.

    Only text alone is searched; and no answer that follows a JSON Schema, which may well have the form of a call.
    """
    last = run.last_round
    if last.records or last.reply is None or last.metadata.get(BY_SCHEMA):
        return "", ()
    text = last.reply.text
    has_escapes = "\\" in text  # JSON may write a name with escapes
    named = {tool.name for tool in run.tools if has_escapes or tool.name in text}
    return (text, named) if named and run.output_schema is None else ("", ())


def _oddities(run: Run) -> Iterator[str]:
    """Yield what the person should know about the answer."""
    why = run.last_round.stop_reason
    if why not in WHOLE and why not in ASKED_FOR_TOOLS:
        yield f"The reply ended for a reason that is not known: {why[:80]!r}"
    text, named = _searched(run)
    if not named:
        return
    name = claimed_call(text, named)
    if name is not None:
        yield f"The answer holds a call of {name} written as text, which was not run"
    name = announced_call(text, named)
    if name is not None:
        yield f"The answer announces a call of {name}, which was not made"
