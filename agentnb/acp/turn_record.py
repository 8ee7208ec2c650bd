"""Record of an agent's turns: batches of text, usage as the agent counts it, changes of its settings, and other updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.acp.known_agents import KnownAgent
from agentnb.core.log.events import ReplyDelta, TextDelta
from agentnb.core.messages import JsonObject, Text, Thinking, join_parts, visible
from agentnb.core.run.rounds import CONTEXT_TOKENS
from agentnb.core.usage import COST_DIGITS, NOTHING_USED, UNKNOWN, Usage, sanitize_usage
from agentnb.models.model import Checkpoint

SECONDS_OF_BATCH = 0.2
MAX_BATCH_CHARACTERS = 64_000
"""A batch of text is logged after this time or at this length."""
MAX_UNKNOWN_KINDS = 10
MAX_UNKNOWN_BYTES = 2_000
"""Maximum bytes of JSON kept from the first update of an unknown kind."""
MAX_SETTINGS = 50
MAX_SETTING_CHARACTERS = 100
"""Maximum number of an agent's settings kept, and maximum characters of their names and values."""
SESSION_COST = "session_cost"
"""Metadata key for the session's cost so far, in US dollars."""
UNKNOWN_UPDATES = "unknown_updates"
"""Metadata key for updates of unknown kinds: ``{kind: {"count": 2, "first": JSON}}``."""


class Pieces:
    """Texts and thoughts of a reply in order of arrival, including those not logged yet."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pieces: list[Text | Thinking] = []
        self._unlogged = self._characters = 0
        self.due: float | None = None
        """Time at which to log the batch, or None if it is empty."""

    def add(self, delta: ReplyDelta) -> None:
        """Append a delta."""
        self._pieces.append((Text if type(delta) is TextDelta else Thinking)(delta.text))
        self._unlogged += 1
        self._characters += len(delta.text)
        if self.due is None:
            self.due = self._clock() + SECONDS_OF_BATCH

    @property
    def is_due(self) -> bool:
        """True if the batch must be logged now."""
        return self.due is not None and (self._characters >= MAX_BATCH_CHARACTERS or self._clock() >= self.due)

    def batch(self, metadata: JsonObject) -> Checkpoint:
        """Return the merged texts since the last batch."""
        new = self._pieces[len(self._pieces) - self._unlogged :]
        self._unlogged, self._characters, self.due = 0, 0, None
        return Checkpoint(join_parts(new), metadata)

    @property
    def parts(self) -> tuple[Text | Thinking, ...]:
        """Parts of a message, with consecutive deltas of the same kind merged."""
        return join_parts(self._pieces)


class Spending:
    """Usage and cost as an agent reports them, without double counting. Values not reported remain unknown."""

    def __init__(self, agent: KnownAgent, *, is_loaded: bool = False, cost: float | None = None) -> None:
        """``is_loaded``: whether the session and its totals are older than the run; ``cost``: the cost at that time,
        if known.
        """
        self._agent = agent
        self._sum = None if is_loaded else NOTHING_USED
        self._cost = 0.0 if not is_loaded else cost if agent.cost == "session" else None

    def cost_since(self, total: float | None, *, ends_turn: bool) -> float | None:
        """Return the US dollars spent since the previous call. ``total``: total of the session, None if it was not reported in
        this turn.

        Before the first report, rounds within a turn cost 0, since the difference follows later.
        """
        if total is None:
            return None if ends_turn or self._agent.cost == "none" else 0.0
        before, self._cost = self._cost, total
        return None if before is None or total < before else round(total - before, COST_DIGITS)

    def tokens(self, reported: Any, requests: Iterable[Any] = ()) -> tuple[Usage, JsonObject]:
        """Return the tokens of a turn, as reported at its end or for each request, and metadata for its reply."""
        if self._agent.usage == "requests":
            usages = [_usage(request) for request in requests if isinstance(request, dict)]
            return reduce(Usage.__add__, usages) if usages else UNKNOWN, {}
        if not isinstance(reported, dict) or self._agent.usage == "none":
            return UNKNOWN, {}
        usage = _usage(reported)
        if self._agent.usage == "turn":
            return usage, {}
        if self._agent.usage == "last_request":
            sent, received = usage.input, usage.output
            return UNKNOWN, {} if sent is None or received is None else {CONTEXT_TOKENS: sent + received}
        before, self._sum = self._sum, usage
        return UNKNOWN if before is None or _is_less(usage, before) else usage.since(before), {}


def _usage(reported: Mapping[str, Any]) -> Usage:
    """Convert token counts to agentnb's, where the input includes cached tokens."""
    names = {
        "input": "inputTokens",
        "output": "outputTokens",
        "cache_read": "cachedReadTokens",
        "cache_write": "cachedWriteTokens",
    }
    counts: JsonObject = {name: reported.get(key) for name, key in names.items()}
    usage, total = sanitize_usage(Usage(**counts)), reported.get("totalTokens")
    sent, received, cached = usage.input, usage.output, (usage.cache_read or 0) + (usage.cache_write or 0)
    if sent is None or received is None or not isinstance(total, int) or total < sent + received + cached:
        return usage
    return replace(usage, input=sent + cached)


def _is_less(usage: Usage, before: Usage) -> bool:
    """True if a total has decreased, and so must be a different one."""
    pairs = ((usage.input, before.input), (usage.output, before.output), (usage.cache_read, before.cache_read))
    return any((current or 0) < (previous or 0) for current, previous in pairs)


MODE = "mode"
"""Name of the setting that decides what the agent asks about; its mode, in the protocol's older form."""


class AgentSettings:
    """The agent's mode and other settings, with the changes that agentnb did not ask for."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._has_begun = False
        self.changes: list[tuple[str, str, str]] = []
        """Name, old and new value of each change since `begin`; the old mode is empty if it was never reported."""
        self.when_changed: Callable[[], None] = lambda: None

    @property
    def mode(self) -> str:
        """The current mode, or "" if it was never reported."""
        return self._values.get(MODE, "")

    def begin(self, mode: str) -> None:
        """Count later reports as changes. ``mode``: the mode that agentnb has set, or ""."""
        self._has_begun = True
        if mode and self.mode not in ("", mode):
            self.changes.append((MODE, mode, self.mode))

    def take(self, update: Mapping[str, Any]) -> None:
        """Record the values in an update or in a response."""
        modes, options = update.get("modes"), update.get("configOptions")
        self._take_value(MODE, modes.get("currentModeId") if isinstance(modes, dict) else update.get("currentModeId"))
        for option in options if isinstance(options, list) else ():
            if isinstance(option, dict):
                self._take_value(MODE if option.get("category") == MODE else str(option.get("id")), option.get("currentValue"))

    def _take_value(self, name: str, value: Any) -> None:
        name = visible(name)[:MAX_SETTING_CHARACTERS]
        if not isinstance(value, str) or not value or (name not in self._values and len(self._values) >= MAX_SETTINGS):
            return
        before, self._values[name] = self._values.get(name, ""), visible(value)[:MAX_SETTING_CHARACTERS]
        if self._has_begun and before != self._values[name] and (before or name == MODE):
            self.changes.append((name, before, self._values[name]))
            self.when_changed()


class UnknownUpdates:
    """Counts updates of unknown kinds, and keeps the first of each kind, up to a limit."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, Mapping[str, Any]] = {}

    def take(self, kind: str, update: Mapping[str, Any]) -> None:
        """Count an update."""
        kind = kind[:100] if kind[:100] in self._counts or len(self._counts) < MAX_UNKNOWN_KINDS else "others"
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._first.setdefault(kind, update)

    def as_metadata(self) -> JsonObject:
        """Return metadata about the updates since the previous call; empty if there were none."""
        counts, first, self._counts, self._first = self._counts, self._first, {}, {}
        kinds = {kind: {"count": count, "first": _as_json(first[kind])} for kind, count in counts.items()}
        return {UNKNOWN_UPDATES: kinds} if kinds else {}


def _as_json(update: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(update)[:MAX_UNKNOWN_BYTES].decode(errors="ignore")
    except (RecursionError, ValueError):  # nested too deep, or a text that JSON cannot encode
        return ""
