"""What is remarkable about a round, in words: what it did beside its list, what it said or asked for again."""

from __future__ import annotations

from agentnb.core.rounds import UNTRACKED_WORK, WorkflowRound, is_blocked
from agentnb.display.labels import clean

_STATUS = {
    "unexpected_empty_tools": "the reply announced tool calls and had none",
    "narration_without_tool_call": "a tool call was only written as text",
    "premature_stop_nudge": "the reply was empty",
    "todo_nudge": "words only, while todos are open",
    "auto_continue_todos": "words only, while todos are open",
}
"""What the status of a round tells by itself."""


def round_warnings(one: WorkflowRound) -> list[str]:
    """A sentence each, without markup; empty for a round like any other."""
    found = []
    if one.said_before is not None:
        found.append(f"the answer of round {one.said_before + 1} again")
    if one.is_text_only and one.status in _STATUS:
        found.append(_STATUS[one.status])
    if one.stop_reason == "broken_off":
        found.append("the reply broke off")
    blocked = [record.call.name for record in one.records if is_blocked(record)]
    found += [f"{clean(name)} was asked for again, with nothing new" for name in dict.fromkeys(blocked)]
    if any(violation.rule == UNTRACKED_WORK for violation in one.todo_violations):
        found.append("worked while no todo was in progress")
    done = [str(violation.todo_id) for violation in one.todo_violations if violation.rule != UNTRACKED_WORK]
    if done:
        found.append(f"completed todo {', '.join(done)}, which was not in progress")
    return found
