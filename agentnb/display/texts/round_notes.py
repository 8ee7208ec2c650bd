"""Notable facts about a round apart from its reply, one line each: notes on events, and warnings about the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agentnb.core.compaction_records import Compaction
from agentnb.core.guidance import Followed, Guidance
from agentnb.core.run.rounds import Retry, WorkflowRound
from agentnb.detect.guidance_rules import CELLS, INFORMS, INTERVENTION, SENTENCES
from agentnb.detect.judgements import UNTRACKED_WORK
from agentnb.display.texts.labels import amount, clean, duration, first_line, pluralize

RECOVERED = "the kernel died here; resumed in a new kernel"
RESUMED = "resumed: it was waiting for you"
MIN_SECONDS = 0.05
"""Minimum compaction time, in seconds, that is shown; without a model it is close to 0."""
_VERDICTS = {True: "followed", False: "not followed", None: "could not be judged"}


def guidance_line(guidance: Guidance, followed: Followed | None) -> str:
    """Return guidance with its verdict: ``guidance todos_text, level 2: not followed (no tool was called)``."""
    level = f", level {guidance.level}" if guidance.level > 1 or guidance.cell == INTERVENTION else ""
    name = f"guidance {guidance.cell}{level}"
    if followed is None or guidance.cell in INFORMS:
        return name
    return f"{name}: {_VERDICTS[followed.followed]} ({followed.why})"


def guidance_with_verdicts(one: WorkflowRound) -> Iterator[tuple[Guidance, Followed | None]]:
    """Return the guidance in this round, each with its verdict, if any."""
    return zip(one.guidance, (*one.followed, *[None] * len(one.guidance)), strict=False)


def ignored_guidance(one: WorkflowRound) -> list[tuple[Guidance, Followed]]:
    """Return the guidance in this round that was not followed, with the verdicts."""
    judged = zip(one.guidance, one.followed, strict=False)
    return [(guidance, verdict) for guidance, verdict in judged if verdict.followed is False and guidance.cell not in INFORMS]


class RoundNote(NamedTuple):
    """An event in a round other than its reply, for display."""

    text: str
    at_once: bool
    """True if shown unfolded: interventions, guidance that was not followed, and failed attempts."""
    wrong: bool


def round_notes(one: WorkflowRound, settings: Mapping[str, Any] | None = None) -> list[RoundNote]:
    """Return a note for each piece of guidance in this round, and for each other event before the reply.

    ``settings``: the run's settings, including the limits of its conversation.
    """
    lines = []
    for guidance, verdict in guidance_with_verdicts(one):
        ignored = verdict is not None and verdict.followed is False
        at_once = ignored or guidance.cell not in (*CELLS, *INFORMS)
        lines.append(RoundNote(clean(guidance_line(guidance, verdict)), at_once, ignored))
    if one.recovered:
        lines.append(RoundNote(RECOVERED, at_once=True, wrong=False))
    lines += [
        RoundNote(compaction_line(compaction, settings), at_once=True, wrong=bool(compaction.problem))
        for compaction in one.compactions
    ]
    lines += [RoundNote(retry_line(retry), at_once=True, wrong=True) for retry in one.retries]
    return lines


def compaction_line(one: Compaction, settings: Mapping[str, Any] | None = None) -> str:
    """Return a line such as ``24 messages summarized, because the conversation filled 80 % of the context window · $0.0031 ·
    4.2 s``.
    """
    why = _why_compacted(one, settings or {})
    if one.compacted is None:
        return f"summarizing, because {why}"
    messages = pluralize(one.compacted.count, "message")
    if one.problem or not one.compacted.text:
        problem = first_line(one.problem or "no text", 300)
        return f"{messages} dropped without a summary, because {why}: {problem}"
    cost = [f"${one.usage.cost:.4f}"] if one.usage.cost else []
    took = [duration(one.seconds)] if one.seconds is not None and one.seconds >= MIN_SECONDS else []
    return " · ".join([f"{messages} summarized, because {why}", *cost, *took])


def _why_compacted(compaction: Compaction, settings: Mapping[str, Any]) -> str:
    history = settings.get("history")
    logged = history if isinstance(history, dict) else {}
    if compaction.why == "overflow":
        return "the provider rejected the conversation as too long"
    if compaction.why == "recorded":
        return "the recorded product did so"
    if compaction.why == "messages":
        threshold = amount(logged.get("compact_above"))
        return f"the conversation had {f'more than {threshold:,g}' if threshold else 'too many'} messages"
    share = amount(logged.get("share"))
    return f"the conversation filled {f'{share * 100:.0f} %' if share else 'its share'} of the context window"


def retry_line(retry: Retry) -> str:
    """Return a failed attempt to call the model: ``attempt 1 failed, retried after 4.2 s: anthropic: too many requests``."""
    reason = first_line(retry.reason, 300)
    if retry.attempt == 0:
        return f"waited {duration(retry.seconds)}: {reason}"
    return f"attempt {retry.attempt} failed, retried after {duration(retry.seconds)}: {reason}"


_STATUS = {
    "unexpected_empty_tools": "the reply announced tool calls but made none",
    "narration_without_tool_call": "a tool call was announced or written as text, but not made",
    "premature_stop_nudge": "the reply was empty",
    "invalid_output": "the answer did not match the output type",
    "todo_nudge": "text-only reply while todos were open",
    "auto_continue_todos": "text-only reply while todos were open",
}
"""Warnings that follow from a round's status."""


def round_warnings(one: WorkflowRound) -> list[str]:
    """Return one sentence per warning, without markup; empty for an ordinary round."""
    warnings = []
    if one.said_before is not None:
        warnings.append(f"repeated the answer of round {one.said_before + 1}")
    if one.is_text_only and one.status in _STATUS:
        warnings.append(_STATUS[one.status])
    if one.stop_reason == "broken_off":
        warnings.append("the reply was cut off")
    is_untracked = any(violation.rule == UNTRACKED_WORK for violation in one.todo_violations)
    if is_untracked and not any(SENTENCES["undisciplined"] in verdict.why for _, verdict in ignored_guidance(one)):
        warnings.append("worked while no todo was in progress")
    todo_ids = [str(violation.todo_id) for violation in one.todo_violations if violation.rule != UNTRACKED_WORK]
    if todo_ids:
        warnings.append(f"completed todo {', '.join(todo_ids)}, which was not in progress")
    return warnings
