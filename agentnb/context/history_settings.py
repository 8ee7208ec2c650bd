"""Settings for how much of a conversation is sent, with three named sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from agentnb import settings
from agentnb.context.defaults import KEEP_RECENT, RESULT_CHARACTERS, SHARE
from agentnb.errors import SettingsError


@dataclass(frozen=True, slots=True)
class History:
    """Settings for how much of a conversation is sent to the model. The log and the tables always keep all of it.

    ``share``: a request that would fill a larger share of the model's window is compacted first: a summary written by the model
    replaces the middle. Within six rounds of the previous compaction, this is done only if it removes a quarter of the request.
    ``window``: tokens of that window; the default is taken from the model's price table. ``compact_above``: messages above
    which the conversation is compacted, regardless of their length; should be far above ``keep_recent``, or else every other
    round pays for a summary. ``keep_recent``: messages at the end that no summary replaces; fewer for ``share`` if these alone
    make up more than half of the conversation. ``max_messages``: messages above which the oldest, except the first, are left
    out; a call and its result are never separated, so there may be more. ``result_characters``: longer results are truncated;
    the model can read the remainder with `read_tool_result`. ``failed_rounds_above``: messages of the complete conversation,
    such as 20, above which rounds whose calls all failed are left out; the other settings count only messages to be sent.

    Each of these except ``keep_recent`` may be None, which turns it off.
    """

    share: float | None = None
    window: int | None = None
    compact_above: int | None = None
    keep_recent: int = KEEP_RECENT
    max_messages: int | None = None
    result_characters: int | None = RESULT_CHARACTERS
    failed_rounds_above: int | None = None

    def __post_init__(self) -> None:
        share: object = self.share
        if share is not None and (isinstance(share, bool) or not (isinstance(share, int | float) and 0 < share <= 1)):
            raise SettingsError(f"History's share={share!r} is not valid", "Use a number above 0 and up to 1, such as 0.8")
        least = {"window": 100, "compact_above": 2, "max_messages": 2, "result_characters": 1_000}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "share" or (value is None and field.name != "keep_recent"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least.get(field.name, 1):
                raise SettingsError(f"History's {field.name}={value!r} must be a whole number from {least.get(field.name, 1)}")
        if self.compact_above is not None and self.keep_recent >= self.compact_above:
            raise SettingsError(
                f"keep_recent={self.keep_recent} leaves nothing to compact above {self.compact_above} messages",
                f"Lower it: keep_recent={max(1, self.compact_above // 3)}",
            )

    @property
    def compacts(self) -> bool:
        """True if the conversation may be compacted."""
        return self.share is not None or self.compact_above is not None


AUTO = History(share=SHARE)
FULL = History(result_characters=None)


def read_documented() -> History:
    """Return the documented numbers, 40, 30 and 10 messages, or those set in the environment.

    ``keep_recent`` is capped, so that not every other round pays for a summary.
    """
    above = settings.compact_threshold()
    return History(
        compact_above=above if settings.compact_enabled() else None,
        keep_recent=min(settings.compact_keep_recent(), max(1, above // 3)),
        max_messages=settings.max_messages(),
    )


def _auto() -> History:
    return AUTO if settings.compact_enabled() else History()


NAMED: dict[str, Callable[[], History]] = {"auto": _auto, "documented": read_documented, "full": lambda: FULL}


def find_history(history: str | History) -> History:
    """Return the settings with this name; a `History` is returned unchanged. Raises `SettingsError` listing the known names."""
    if isinstance(history, History):
        return history
    if isinstance(history, str) and history in NAMED:
        return NAMED[history]()
    raise SettingsError(f"There is no history {history!r}", f"Use one of {', '.join(NAMED)}, or a History(...) with settings")


def as_logged(history: History) -> dict[str, Any]:
    """Return the settings as plain data for a log: only those that differ from ``full``, which leaves nothing out."""
    return {name: value for name, value in asdict(history).items() if value != getattr(FULL, name)}


def as_sent_then(logged: dict[str, Any] | None) -> History:
    """Return a run's settings from its log. Logs of earlier versions have none, since everything was sent."""
    names = {field.name for field in fields(History)}
    try:
        return replace(FULL, **{name: value for name, value in (logged or {}).items() if name in names})
    except SettingsError:
        return FULL  # the log was edited by hand
