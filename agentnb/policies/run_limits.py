"""Limits of a run: the table of all limits, their values for a run, and the policies that enforce them.

A limit has a single name, shared by its setting, option, stop reason and event. A new one needs a row in `LIMITS`, a field in
`Limits` and in the agent's settings, and a counter: a policy here or, for time and money, the run's clock and budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb import settings
from agentnb.advice import NameOne
from agentnb.core.run.rounds import MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.gates.call_count import CallCount
from agentnb.policies.verdict import Policy, Stop

OnLimit: TypeAlias = Literal["stop", "final_answer", "raise"]
"""Behaviour at a limit: the run ends, the model answers once more without tools, or `RunLimited` is raised."""
ON_LIMIT: tuple[OnLimit, ...] = ("stop", "final_answer", "raise")
MAX_AMOUNT = 1e12
NO_LIMIT = "None means no limit"


class Limit(NamedTuple):
    """A kind of limit: how its value is parsed, validated and worded."""

    name: str
    unit: str
    """Unit of an amount, such as seconds; empty for a whole number."""
    metavar: str
    """Placeholder for the value in a magic's help."""
    help: str
    word: str
    """Word for the exhausted resource in a list of runs."""
    maximum: float = MAX_AMOUNT
    is_required: bool = False
    """True if every run has this limit; others may be None."""

    def check(self, value: object) -> None:
        """Raise `SettingsError` for an invalid value."""
        if value is None and not self.is_required:
            return
        kind = int | float if self.unit else int
        least_fits = isinstance(value, kind) and not isinstance(value, bool) and (value > 0 if self.unit else value >= 1)
        if not least_fits or (value > self.maximum and (self.unit or self.is_required)):  # type: ignore[operator]  # a number
            raise SettingsError(f"{self.name}={value!r} {self.wrong}", "" if self.is_required else NO_LIMIT)

    def read(self, text: str) -> float | int:
        """Parse a value that the person typed. Raises ValueError with the problem."""
        if not self.unit:
            if text.isdecimal() and 1 <= int(text) <= (self.maximum if self.is_required else int(text)):
                return int(text)
            raise ValueError(self.wrong)
        try:
            amount = float(text.removeprefix("$") if self.unit == DOLLARS else text)
        except ValueError:
            amount = 0.0
        if not (isfinite(amount) and amount > 0):
            raise ValueError(self.wrong)
        return amount

    @property
    def wrong(self) -> str:
        """Error text for an invalid value."""
        if self.unit:
            return f"must be a positive {'amount in' if self.unit == DOLLARS else 'number of'} {self.unit}"
        return f"must be a whole number {f'from 1 to {self.maximum:,}' if self.is_required else 'above 0'}"

    @property
    def option(self) -> str:
        """The limit as an option of a cell."""
        return f"--{self.name.replace('_', '-')}"


DOLLARS = "US dollars"
_ROWS = (
    Limit(
        "max_rounds",
        "",
        "N",
        "maximum number of model calls (default: 50)",
        "rounds",
        settings.MAX_ITERATIONS,
        is_required=True,
    ),
    Limit(MAX_TOOL_CALLS, "", "N", "maximum number of tool calls", "calls"),
    Limit(MAX_TOOL_CALLS_PER_TURN, "", "N", "maximum number of tool calls since your last message", "calls"),
    Limit("max_seconds", "seconds", "SECONDS", "maximum duration, not counting the time spent waiting for you", "time"),
    Limit("max_tokens", "", "N", "maximum number of tokens, sent and received", "tokens"),
    Limit("budget", DOLLARS, "USD", "maximum cost, such as 0.5, including runs started by tools", "budget"),
)
LIMITS = {limit.name: limit for limit in _ROWS}
"""All limits of a run by name."""
LIMIT_SETTINGS = (*LIMITS, "on_limit")
"""Agent settings about limits."""
SESSION_BUDGET = Limit("session_budget", DOLLARS, "USD", "maximum cost of all runs in the session", "session")
"""Limit of the entire session."""
OF_FILE = "limits_of_file"
"""Setting of a run that names the limits set only by a file."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run; None means unlimited. Raises `SettingsError` for an invalid value."""

    max_rounds: int
    max_tool_calls: int | None = None
    max_tool_calls_per_turn: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    budget: float | None = None
    unpriced: bool = False
    """True to allow a budget even if the model's price is unknown."""
    on_limit: OnLimit = "stop"
    limits_of_file: tuple[str, ...] = ()
    """Names of limits set only by a file; they do not loosen the person's budget."""

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            limit.check(getattr(self, name))
        if self.on_limit not in ON_LIMIT:
            raise SettingsError(f"on_limit={self.on_limit!r} is unknown", NameOne(known=tuple(ON_LIMIT), lead="Use one of"))

    def policies(self) -> Iterator[Policy]:
        """Yield the policies that end a run at its limits. Time and money are counted by the run's clock and budget."""
        if self._counts_calls:
            yield MaxToolCalls(self.max_tool_calls, self.max_tool_calls_per_turn)
        if self.max_tokens is not None:
            yield MaxTokens(self.max_tokens)
        yield MaxRounds(self.max_rounds)

    def add_to(self, bundle: PolicyBundle, *, counts_rounds: bool = True) -> PolicyBundle:
        """Return the bundle with these limits: policies at the end, and a gate that blocks calls above a limit.

        ``counts_rounds``: False for recorded runs of other products, which have no limit on rounds.
        """
        policies = [policy for policy in self.policies() if counts_rounds or not isinstance(policy, MaxRounds)]
        gates = (CallCount(self.max_tool_calls, self.max_tool_calls_per_turn),) if self._counts_calls else ()
        return bundle._replace(policies=(*bundle.policies, *policies), gates=(*gates, *bundle.gates))

    def as_logged(self) -> dict[str, Any]:
        """Return the configured limits as plain data."""
        logged = {name: value for name in LIMITS if (value := getattr(self, name)) is not None}
        if self.unpriced:
            logged["unpriced"] = True
        if self.limits_of_file:
            logged[OF_FILE] = list(self.limits_of_file)
        return logged if self.on_limit == "stop" else {**logged, "on_limit": self.on_limit}

    @staticmethod
    def from_log(run_settings: dict[str, Any]) -> dict[str, Any]:
        """Return the limits in the settings of a logged run, by the names of an agent's settings."""
        return {name: run_settings[name] for name in (*LIMIT_SETTINGS, "unpriced", OF_FILE) if name in run_settings}

    @property
    def _counts_calls(self) -> bool:
        return self.max_tool_calls is not None or self.max_tool_calls_per_turn is not None


@dataclass(frozen=True, slots=True)
class MaxRounds:
    """Limit on rounds. The run keeps its progress; ``--continue`` continues from there."""

    limit: int

    def __call__(self, run: Run) -> Stop | None:
        """Stop after that many rounds."""
        return Stop("max_rounds", "limited", limit=self.limit) if run.last_round.index + 1 >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxToolCalls:
    """Limit on tool calls: stops when the model asks for more. Allowed calls still run, and the model may answer from them."""

    in_run: int | None
    in_turn: int | None

    def __call__(self, run: Run) -> Stop | None:
        """Stop if a call of the last round was blocked by a limit."""
        for record in run.last_round.records:
            if record.rule == MAX_TOOL_CALLS:
                return Stop(MAX_TOOL_CALLS, "limited", limit=self.in_run)
            if record.rule == MAX_TOOL_CALLS_PER_TURN:
                return Stop(MAX_TOOL_CALLS_PER_TURN, "limited", limit=self.in_turn)
        return None


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """Limit on tokens, sent and received, across all model calls; the last call may exceed it."""

    limit: int

    def __call__(self, run: Run) -> Stop | None:
        """Stop when the run's own model calls have used up the tokens."""
        own = run.own_usage
        used = (own.input or 0) + (own.output or 0)
        return Stop("max_tokens", "limited", limit=self.limit) if used >= self.limit else None
