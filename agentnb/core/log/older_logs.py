"""Logs of earlier schemas: what their events did not say yet, and is read into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from agentnb.advice import AnyAdvice, AskInstead, ListRuns, Plain, SetKey, ShowModels, StartAgain, TryAgain
from agentnb.core.log.event import RoundStatus
from agentnb.core.log.events import AnyEvent, ErrorRaised, RoundStarted, RunFinished, RunRecovered, RunStarted, Topic, Warned
from agentnb.core.messages import Message

STATUS_BEFORE: Mapping[str, RoundStatus] = {
    "open_todos": "auto_continue_todos",
    "strict_todos": "auto_continue_todos",
    "todo_nudge": "todo_nudge",
    "workflow_mode": "auto_continue_workflow",
    "continue_marker": "auto_continue_workflow",
    "empty_answer": "premature_stop_nudge",
    "claimed_call": "narration_without_tool_call",
}
"""Up to schema 4: the status of a round, by the reason of the round after it."""
STATUS_AT_END: Mapping[str, RoundStatus] = {
    "natural": "natural_completion",
    "workflow_complete": "workflow_complete",
    "complete_with_open_todos": "workflow_complete",
    "loop_detected": "duplicate_loop_broken",
}
"""Up to schema 4: the status of the last round, by the stop reason."""
FILLED, TODOS_OPEN = "Filled in what the trace lacks.", " still open:\n"
"""Up to schema 6: parts of warnings, by which their topic is known."""
NO_PROMPT = "(The trace has no prompt.)"
"""Up to schema 6: the text by which a placeholder for a prompt is known."""
AUTO, RULES = "auto", "rules"
"""Up to schema 8: the word for no approval mode, and that of today (`core.run.approvals`)."""
STATUSES_SINCE = 5
"""The schema from which events say these themselves."""
MODES_SINCE = 9
"""The schema from which ``auto`` is a mode of its own, and no word for none."""
ADVICE_SINCE = 7
"""The schema from which errors and warnings carry advice as values."""
HINTS: tuple[tuple[str, Callable[[str, str, str], AnyAdvice]], ...] = (
    (
        r"(.*?)(?: \(a cell|)( without) --continue\)?(.*)",
        lambda lead, _, rest: StartAgain(lead=lead, rest=rest),
    ),
    (
        r"(.*?)(?: with|:|)( )(?:%%agent |)--continue(.*)",
        lambda lead, _, rest: TryAgain(lead=lead, rest=rest),
    ),
    (
        r'(.*): ()--approve ask, approve="ask"(.*)',
        lambda lead, _, rest: AskInstead(lead=lead, rest=rest),
    ),
    (r"(.*?): %agent key ([\w-]+)(.*)", lambda lead, name, rest: SetKey(name, lead=lead, rest=rest)),
    (r"()%agent models (\S+)( .*)", lambda _, name, rest: ShowModels(name, rest=rest)),
    (r"()()%agent history( .*)", lambda _, __, rest: ListRuns(rest=rest)),
)
"""Sentences of logs up to schema 6, and the advice that each is: words before, a name, words after."""


def advice_of(hint: str) -> tuple[AnyAdvice, ...]:
    """Return the advice that a sentence of a log up to schema 6 is."""
    for sentence, make in HINTS:
        if match := re.fullmatch(sentence, hint, re.DOTALL):
            return (make(match[1], match[2], match[3]),)
    return (Plain(hint),) if hint else ()


def brought_up(event: AnyEvent, schema: int) -> AnyEvent:
    """Return an event of a log of an earlier schema as this version writes it."""
    if isinstance(event, ErrorRaised) and event.error.logged_hint:
        advice = advice_of(event.error.logged_hint)
        return replace(event, error=replace(event.error, advice=advice, logged_hint=""))
    if schema < MODES_SINCE and isinstance(event, RunRecovered) and event.approve == AUTO:
        return replace(event, approve=RULES)
    if isinstance(event, RunStarted):
        return replace(event, prompt=_marked(event.prompt), history=tuple(map(_marked, event.history)))
    if isinstance(event, Warned) and (topic := _topic_of(event.message)):
        return replace(event, topic=topic)
    return _with_statuses(event) if schema < STATUSES_SINCE else event


def _topic_of(warning: str) -> Topic:
    return "filled" if warning.startswith(FILLED) else "todos" if TODOS_OPEN in warning else ""


def _marked(message: Message) -> Message:
    """Return the message, marked if it is a placeholder for a prompt."""
    return replace(message, is_placeholder=True) if message.role == "user" and message.text == NO_PROMPT else message


def _with_statuses(event: AnyEvent) -> AnyEvent:
    if isinstance(event, RoundStarted) and event.reason in STATUS_BEFORE:
        return replace(event, before=STATUS_BEFORE[event.reason])
    if isinstance(event, RunFinished) and event.stop_reason in STATUS_AT_END:
        return replace(event, last_round=STATUS_AT_END[event.stop_reason])
    return event
