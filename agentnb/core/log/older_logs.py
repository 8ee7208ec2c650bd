"""Upgrades of events from logs of earlier schemas."""

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
"""Up to schema 4: status of a round, by the reason for the next round."""
STATUS_AT_END: Mapping[str, RoundStatus] = {
    "natural": "natural_completion",
    "workflow_complete": "workflow_complete",
    "complete_with_open_todos": "workflow_complete",
    "loop_detected": "duplicate_loop_broken",
}
"""Up to schema 4: status of the last round, by stop reason."""
FILLED, TODOS_OPEN = "Filled in what the trace lacks.", " still open:\n"
"""Up to schema 6: wording of warnings that identifies their topic."""
NO_PROMPT = "(The trace has no prompt.)"
"""Up to schema 6: text of a placeholder for a missing prompt."""
AUTO, RULES = "auto", "rules"
"""The words for "no mode": up to schema 8, and now (`core.run.approvals`)."""
STATUSES_SINCE = 5
"""First schema whose events carry these statuses themselves."""
MODES_SINCE = 9
"""First schema in which ``auto`` is a mode; previously, it meant no mode."""
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
"""Patterns of sentences in logs up to schema 6, with their advice. Their groups are the text before, a name, and the text
after."""


def advice_of(hint: str) -> tuple[AnyAdvice, ...]:
    """Parse the advice from a sentence of a log up to schema 6."""
    for sentence, make in HINTS:
        if match := re.fullmatch(sentence, hint, re.DOTALL):
            return (make(match[1], match[2], match[3]),)
    return (Plain(hint),) if hint else ()


def upgrade_event(event: AnyEvent, schema: int) -> AnyEvent:
    """Upgrade an event of an earlier schema to the current one."""
    if isinstance(event, ErrorRaised) and event.error.logged_hint:
        advice = advice_of(event.error.logged_hint)
        return replace(event, error=replace(event.error, advice=advice, logged_hint=""))
    if schema < MODES_SINCE and isinstance(event, RunRecovered) and event.approve == AUTO:
        return replace(event, approve=RULES)
    if isinstance(event, RunStarted):
        return replace(event, prompt=_mark_placeholder(event.prompt), history=tuple(map(_mark_placeholder, event.history)))
    if isinstance(event, Warned) and (topic := _topic_of(event.message)):
        return replace(event, topic=topic)
    return _with_statuses(event) if schema < STATUSES_SINCE else event


def _topic_of(warning: str) -> Topic:
    return "filled" if warning.startswith(FILLED) else "todos" if TODOS_OPEN in warning else ""


def _mark_placeholder(message: Message) -> Message:
    """Mark the message if it is a placeholder for a prompt."""
    return replace(message, is_placeholder=True) if message.role == "user" and message.text == NO_PROMPT else message


def _with_statuses(event: AnyEvent) -> AnyEvent:
    if isinstance(event, RoundStarted) and event.reason in STATUS_BEFORE:
        return replace(event, before=STATUS_BEFORE[event.reason])
    if isinstance(event, RunFinished) and event.stop_reason in STATUS_AT_END:
        return replace(event, last_round=STATUS_AT_END[event.stop_reason])
    return event
