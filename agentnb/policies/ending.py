"""Ends that lie in the reply itself, and what is asked for in the place of a reply that is no use.

Such a reply is mended by another round, and none without end. Rounds that follow each other because of such replies are a row,
in which each kind is mended as often as it says, once as a rule, whatever other kinds stand between.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.core.messages import Text, Thinking
from agentnb.core.rounds import BY_SCHEMA, WorkflowRound
from agentnb.core.run import Run
from agentnb.core.todos import has_open
from agentnb.guidance.prompts import prompt
from agentnb.policies.claimed_calls import claimed_call
from agentnb.policies.verdict import Continue, Stop

CUT = frozenset({"max_tokens", "length", "max_output_tokens"})
"""Stop reasons of providers for a reply that was cut off by the limit of its tokens."""
NO_ROOM = frozenset({"model_context_window_exceeded", "model_length"})
"""Stop reasons for a reply that was cut off because the conversation fills all that the model can take."""
REFUSED = frozenset({"refusal", "content_filter"})
"""Stop reasons of providers for a reply that the model, or a filter before it, refused."""
WHOLE = frozenset({"", "end_turn", "stop", "stop_sequence", "completed", "complete", "eos", "eos_token"})
"""Stop reasons for a reply that is whole."""
ASKED_FOR_TOOLS = frozenset({"tool_use", "tool_calls", "function_call"})
"""Stop reasons that announce calls; where there are words and no call, the words are the answer."""
PAUSED = "pause_turn"
"""The stop reason of a reply that the provider has paused, and goes on with when it is asked again."""

EMPTY_ANSWER, REPLY_CUT, CLAIMED_CALL = "empty_answer", "reply_cut", "claimed_call"
MENDED = frozenset({EMPTY_ANSWER, REPLY_CUT, CLAIMED_CALL, PAUSED})
"""Reasons of a round that follows a reply that was no use as it was."""
MAX_PAUSES = 3
"""Times in a row that a paused reply is gone on with."""


def person_spoke(run: Run) -> Continue | None:
    """The person has said something that the model has not read yet: it is to read it, whatever it was about to do."""
    if not run.pending:
        return None
    return Continue("tool_results" if run.last_round.records else "said")


def natural_stop(run: Run) -> Stop | None:
    """The model answered without asking for a tool, and the person has said nothing more: the run is complete.

    The presence of calls decides, not the provider's stop reason; what is odd about the answer becomes a warning.
    """
    if run.last_round.records or run.pending:
        return None
    # Of open todos the person is warned before all else, and a stop has one warning.
    return Stop("natural", warning="" if has_open(run.todos) else "\n".join(_oddities(run)))


def refused(run: Run) -> Stop | None:
    """The model declined to answer."""
    last = run.last_round
    return Stop("refusal", "stopped") if not last.records and last.stop_reason in REFUSED else None


def no_call_came(run: Run) -> Stop | None:
    """The provider says that tools were asked for, but no call came, and no word either; a marker is a word."""
    last = run.last_round
    if last.status != "unexpected_empty_tools" or last.signals:
        return None
    return Stop(
        "error",
        "failed",
        problem="The reply announced tool calls and held none",
        hint="Go on with --continue, or try another model",
    )


def no_room(run: Run) -> Stop | None:
    """The answer was cut off where the context window ends, and no call came through whole: to go on makes it longer."""
    last = run.last_round
    if last.records or last.stop_reason not in NO_ROOM:
        return None
    return Stop(
        "reply_cut",
        "failed",
        problem="The context window of the model is full: the reply was cut off",
        hint="Start anew without --continue, or give it less to read; the part that came is in run.text",
    )


def reply_cut(run: Run) -> Continue | Stop | None:
    """The answer was cut off by a limit of tokens, and no call came through whole: the model goes on with its words, once."""
    last = run.last_round
    if last.records or last.stop_reason not in CUT:
        return None
    if last.text.strip() and not _tried(run, REPLY_CUT):
        return Continue(REPLY_CUT, prompt("reply_cut"))
    return Stop(
        "reply_cut",
        "failed",
        problem="max tokens reached: the reply was cut off",
        hint="Raise the limit, -m NAME?max_tokens=N, or ask for less at once; the part that came is in run.text",
    )


def paused(run: Run) -> Continue | Stop | None:
    """The provider has paused the reply: it goes on when it is asked, a few times."""
    last = run.last_round
    if last.records or last.stop_reason != PAUSED:
        return None
    if _tried(run, PAUSED) < MAX_PAUSES:
        return Continue(PAUSED)
    return Stop(
        "error",
        "failed",
        problem=f"The provider paused the reply {MAX_PAUSES + 1} times in a row ({PAUSED})",
        hint="Go on with --continue, or ask for less at once",
    )


def empty_answer(run: Run) -> Continue | None:
    """There is nothing in the answer: the model is told so, once.

    That comes before what open todos and workflow mode say, for a model that said nothing has not chosen words instead of work,
    and should not use up an intervention. If it says nothing again, they have their turn.
    """
    if not _is_empty(run.last_round) or _was_empty_before(run):
        return None
    return Continue(EMPTY_ANSWER, prompt("empty_answer"))


def two_empty_answers(run: Run) -> Stop | None:
    """There is nothing in the answer, and there was nothing in the one before."""
    if not _is_empty(run.last_round) or not _was_empty_before(run):
        return None
    return Stop(
        "error",
        "failed",
        problem="The model gave two empty answers in a row",
        hint="Go on with --continue, say more exactly what is to be done, or try another model",
    )


def call_in_words(run: Run) -> Continue | None:
    """The answer holds a call written as text: the model is told that nothing was run, once. After that it is an answer."""
    name = _claimed(run)
    if name is None or _tried(run, CLAIMED_CALL):
        return None
    return Continue(CLAIMED_CALL, prompt("claimed_call").replace("{{ tool }}", name))


def _tried(run: Run, reason: str) -> int:
    """How often the row of rounds that ends here was gone on with for this reason."""
    count = 0
    for one in reversed(run.rounds):
        if one.reason not in MENDED:
            break
        count += one.reason == reason
    return count


def _is_empty(one: WorkflowRound) -> bool:
    """Whether the reply is nothing to anybody: no call, no word, no marker, no picture. Thoughts are for nobody."""
    if one.reply is None or one.records or one.signals:
        return False
    return all(isinstance(part, Thinking) or (isinstance(part, Text) and not part.text.strip()) for part in one.reply.parts)


def _was_empty_before(run: Run) -> bool:
    """Whether the answer before was empty too, and the person has not spoken since, or an earlier one of this row was."""
    before = run.rounds[-2] if len(run.rounds) > 1 and run.last_round.reason != "said" else None
    return (before is not None and _is_empty(before)) or bool(_tried(run, EMPTY_ANSWER))


def _claimed(run: Run) -> str | None:
    last = run.last_round
    # An answer that was to keep to a JSON Schema may well have the form of a call.
    return None if last.records or last.metadata.get(BY_SCHEMA) else claimed_call(last.text, {tool.name for tool in run.tools})


def _oddities(run: Run) -> Iterator[str]:
    """What the person should know of the answer."""
    why = run.last_round.stop_reason
    if why not in WHOLE | ASKED_FOR_TOOLS:
        yield f"The reply ended for a reason that is not known: {why[:80]!r}"
    name = _claimed(run)
    if name is not None:
        yield f"The answer holds a call of {name} written as text, which was not run"
