"""Redaction of a person's own patterns, such as names or account numbers, in a run that is to be shared."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentnb.core.key_shapes import mask_shapes
from agentnb.core.log.well_formed import check_events
from agentnb.core.redaction import change_texts, redact
from agentnb.detect.run import Run
from agentnb.errors import SettingsError

REDACTED = "[redacted]"


def redacted(run: Run, patterns: str | re.Pattern[str] | Iterable[str | re.Pattern[str]] = ()) -> Run:
    """Return the run for sharing: with ``[redacted]`` for matches of a pattern, ``[key]`` for every known key, and
    ``[looks like a key: masked]`` for texts that look like keys.

    The patterns are regular expressions. They apply to all texts: prompts, replies, arguments, results, todos, errors
    and names. Ids of calls and questions are kept, since they link events, unless they look like keys; pictures are
    left as they are. Raises `SettingsError` for an invalid pattern.
    """
    compiled = [_compile(pattern) for pattern in ([patterns] if isinstance(patterns, str | re.Pattern) else patterns)]
    ids = _mask_ids(_ids(run))

    def replace_ids(text: str) -> str:
        if text in ids:
            return ids[text]
        for pattern in compiled:
            text = pattern.sub(REDACTED, text)
        return mask_shapes(text)

    events = [change_texts(redact(event), replace_ids) for event in run.events]
    if all(new is old for new, old in zip(events, run.events, strict=True)):
        return run
    check_events(events, f"Run {run.id}")
    fresh = Run.from_events(events)
    if run.status == "interrupted":
        fresh.mark_interrupted()
    return fresh


def _mask_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return a replacement for each id: either the id itself, or a unique numbered mask."""
    replacements = {}
    for number, own_id in enumerate(sorted(ids), 1):
        mask = mask_shapes(own_id)
        replacements[own_id] = own_id if mask is own_id else f"{mask} {number}"
    return replacements


def _compile(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise SettingsError(
            f"{pattern!r} is not a regular expression: {error}", "See https://docs.python.org/library/re"
        ) from None


def _ids(run: Run) -> frozenset[str]:
    """Return the ids of calls and questions in events."""
    calls = {call.id for message in run.messages for call in message.calls}
    inner = {inside.call.id for finished in run.rounds for record in finished.records for inside in record.inner}
    return frozenset({*calls, *inner, *(asked.question.id for asked in run.questions)})
