"""Messages of a run, prepared for a run that continues its conversation."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.advice import AnswerRun
from agentnb.context.request_builder import is_empty
from agentnb.core.messages import Message
from agentnb.core.run.approvals import ended_at_question, waits_for_drafts
from agentnb.core.run.timeline import CLARIFY_BLANK
from agentnb.core.schema.nesting import bound_message
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.tools import tool_errors


def history_of(before: Run) -> tuple[Message, ...]:
    """Return a run's conversation with every call answered, since an interrupted run may have open calls.

    Raises `SettingsError` if the run has not ended.
    """
    waits = waits_for_drafts(before)
    if ended_at_question(before) and not waits:
        raise SettingsError(f"Run {before.id} has no store, so nothing can continue it after its question", "Start a new run")
    if before.is_suspended and not waits:
        raise SettingsError(f"Run {before.id} is waiting for your answer", AnswerRun(before.id, lead="Answer it"))
    if before.should_continue and not waits:
        raise SettingsError(f"Run {before.id} is still running", "Wait for it, or end it, before you continue from it")
    messages = tuple(map(bound_message, _without_blank_prompt(before)))  # older versions logged unbounded messages
    current = before.open_round
    if current is None or not current.records:
        return messages
    results = (
        record.result or tool_errors.cancelled().as_result(record.call.id, record.call.name) for record in current.records
    )
    index = next(index for index in range(len(messages) - 1, -1, -1) if messages[index].calls) + 1
    user_messages = [message for message in messages[index:] if message.role != "tool"]  # while the round was open
    return (*messages[:index], Message("tool", tuple(results)), *user_messages)


def _without_blank_prompt(run: Run) -> Sequence[Message]:
    """Return a run's conversation, leaving out a blank prompt, which no model accepts, and the reply to it."""
    messages = run.messages
    is_asked_back = any(call.operation == CLARIFY_BLANK for call in run.model_calls)
    is_blank = is_asked_back and all(map(is_empty, messages[run.inherited].parts))  # pictures stay
    return messages[: run.inherited] if is_blank else messages
